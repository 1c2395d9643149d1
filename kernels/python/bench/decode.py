"""Compares decoding over caches with PyTorch's attention and, if they are installed (scripts/peers/get), with FlashAttention's CuTe kernels
and FlashInfer. Each sequence has one query; the calls alternate, with a cold L2.

  decode.py [--sets NAME,...] [--shapes BATCH:HEADS:KEY_HEADS:COLUMNS:KEYS,... [--pages N,...] [--ragged] [--e4m3]] [--rounds N] [--check]

The output has the rate at which keys and values are read, in TB/s, and this rate as a share of the rate of our kernel that only reads. A
page of 0 means a contiguous cache. Ragged lengths, up to KEYS, are drawn from a long-tailed distribution with a seed. Caches are bf16, or
e4m3 with scales of heads or pages; for e4m3, our decoding over bf16 is also measured. --check compares each result with float64. mla.py
implements the sets "mla" and "mla bytes", mixed_batches.py implements "mixed", and trees.py implements "trees".
"""
import argparse

import torch

import exact
import mixed_batches
import mla
import ptxbuilder as pb
import timing
import trees

# Each set has shapes, pages, whether lengths are ragged, and whether caches are e4m3. "pages" means that each page has scales; otherwise
# each head has one.
SETS = {
    "even": ("1:32:8:128:8192,1:32:8:128:65536,1:32:32:128:8192,1:32:32:128:65536,16:32:8:128:8192,64:32:8:128:4096,1:32:8:64:8192,"
             "1:32:8:64:65536,16:32:8:64:8192,64:64:8:128:2048", "0,16,64", False, False),
    "small": ("1:32:8:128:65536,16:32:8:128:8192,64:32:8:128:4096", "1,4", False, False),
    "ragged": ("64:32:8:128:8192,16:32:8:128:32768,256:32:8:128:4096", "0,16,1", True, False),
    "e4m3": ("64:32:8:128:8192,1:32:8:128:65536,16:32:8:64:8192", "0,16", False, True),
    "e4m3 ragged": ("64:32:8:128:8192", "16", True, True),
    "page scales": ("64:32:8:128:8192,1:32:8:128:65536", "16,64,1", False, "pages"),
}
BACKENDS = {"cudnn": torch.nn.attention.SDPBackend.CUDNN_ATTENTION, "flash": torch.nn.attention.SDPBackend.FLASH_ATTENTION}
OTHERS = {"mla": mla.main, "mla bytes": mla.main_of_bytes, "mixed": mixed_batches.main, "trees": trees.main}
WORDS = ("ours", "cudnn", "flash", "cute", "flashinfer")


class Cache:
    """Queries, keys and values of one shape, in pages if requested."""

    def __init__(self, shape, page, ragged, is_e4m3, seed):
        self.batches, self.heads, self.key_heads, self.columns, self.keys = shape
        self.page, self.is_e4m3 = page, is_e4m3
        random = torch.Generator(device="cuda").manual_seed(seed)

        def normal(*extents):
            return torch.randn(extents, device="cuda", generator=random, dtype=torch.bfloat16)

        lengths = [self.keys] * self.batches
        if ragged:
            part = torch.rand(self.batches, generator=torch.Generator().manual_seed(seed)) ** 4  # few sequences are long
            lengths = [max(1, int(x)) for x in (part * self.keys).tolist()]
            lengths[0] = self.keys
        self.lengths = torch.tensor(lengths, dtype=torch.int32, device="cuda")
        self.q = normal(self.batches, self.heads, self.columns)
        pieces, rows = self.batches, self.keys
        self.table = None
        if page:
            of_batch = -(-self.keys // page)
            pieces, rows = of_batch * self.batches, page
            self.table = torch.randperm(pieces, device="cuda", generator=random).to(torch.int32).view(self.batches, of_batch)
        self.k, self.v = (normal(pieces, rows, self.key_heads, self.columns) for _ in range(2))
        self.scale = {}
        if is_e4m3 == "pages":
            by = torch.linspace(0.015, 0.03, pieces, device="cuda")[:, None]
            self.k, self.v = ((x / by[:, :, None, None].bfloat16()).to(torch.float8_e4m3fn) for x in (self.k, self.v))
            self.scale = {"k_scale": by, "v_scale": by}
        elif is_e4m3:
            by = torch.linspace(0.015, 0.03, self.key_heads, device="cuda")  # 6 / 0.015 is below 448, the largest e4m3 number
            self.k, self.v = ((x / by[:, None].bfloat16()).to(torch.float8_e4m3fn) for x in (self.k, self.v))
            self.scale = {"k_scale": by, "v_scale": by}
        self.out = torch.empty_like(self.q)
        self.bytes = 2 * self.k.element_size() * self.key_heads * self.columns * sum(lengths)

    def ours(self):
        return pb.decode(self.q, self.k, self.v, self.lengths, self.table, out=self.out, **self.scale)

    def of_batch(self, b):
        """Returns the keys and values of a sequence as [key heads, keys, columns], in float64."""
        count = int(self.lengths[b])

        def rows(x, scale):
            if self.table is None:
                x = x[b]
            else:  # indexed as bytes, because PyTorch cannot index e4m3
                x = x.view(torch.uint8)[self.table[b].long()].view(x.dtype).flatten(0, 1)
            x = x[:count].transpose(0, 1)
            if scale is not None and scale.ndim == 2:  # elements times scales of pages are rounded
                of_rows = scale[self.table[b].long()].repeat_interleave(self.page, 0)[:count]
                return (x.float() * of_rows).bfloat16().double()
            return x.double() if scale is None else x.double() * scale.double()[:, None, None]
        return rows(self.k, self.scale.get("k_scale")), rows(self.v, self.scale.get("v_scale"))

    def parts(self, got):
        for b in range(self.batches):
            k, v = self.of_batch(b)
            group = self.heads // self.key_heads
            q = self.q[b].double().view(self.key_heads, group, self.columns)
            yield got[b], *exact.weighted(torch.softmax(q @ k.transpose(1, 2) / self.columns ** 0.5, -1), v)


def flashinfer_of(caches):
    """Returns a call of FlashInfer, planned once for each cache; raises if it does not support the case."""
    import flashinfer

    plans = {}
    for cache in caches:
        pages = cache.page or cache.keys
        table = cache.table if cache.page else torch.arange(cache.batches, dtype=torch.int32, device="cuda")[:, None]
        used = -(-cache.lengths // pages)
        of_rows = torch.arange(table.shape[1], device="cuda") < used[:, None]
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"), "NHD",
                                                                use_tensor_cores=True)
        starts = torch.cat([used.new_zeros(1), used.cumsum(0)]).to(torch.int32)
        wrapper.plan(starts, table[of_rows], (cache.lengths - 1) % pages + 1, cache.heads, cache.key_heads, cache.columns, pages,
                     q_data_type=cache.q.dtype, kv_data_type=cache.k.dtype)
        plans[id(cache)] = wrapper
    return lambda cache: plans[id(cache)].run(cache.q, (cache.k, cache.v))


def contenders_of(caches, ragged):
    """Returns a dict of functions; each call of a function uses the next cache."""
    def turned(function, all_of=caches):
        at = iter(range(1 << 62))
        return lambda: function(all_of[next(at) % len(all_of)])

    calls = {"ours": turned(Cache.ours)}
    one = caches[0]
    if not one.page and not ragged and not one.is_e4m3:
        def attend(cache, backend):
            with torch.nn.attention.sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(
                    cache.q[:, :, None], cache.k.transpose(1, 2), cache.v.transpose(1, 2), enable_gqa=cache.heads != cache.key_heads)
        for name, backend in BACKENDS.items():
            calls[name] = turned(lambda cache, backend=backend: attend(cache, backend))
    try:
        from flash_attn.cute.interface import _flash_attn_fwd as attend_cute

        def cute(cache):
            return attend_cute(cache.q[:, None], cache.k, cache.v, page_table=cache.table,
                               seqused_k=cache.lengths if cache.page or ragged else None, pack_gqa=True)
        if not one.is_e4m3:
            calls["cute"] = turned(cute)
    except ImportError:
        pass
    try:
        if one.is_e4m3 != "pages":
            calls["flashinfer"] = turned(flashinfer_of(caches))
    except ImportError:
        pass
    except Exception as error:
        print(f"left out: flashinfer, page {one.page}: {error!r:.120}")
    for name in list(calls):
        try:
            calls[name]()
            torch.cuda.synchronize()
        except Exception as error:
            if name == "ours":
                raise
            print(f"left out: {name}, {one.batches} x {one.keys} keys of {one.columns} columns, page {one.page}: {error!r:.120}")
            del calls[name]
    matrices = [torch.empty(max(cache.bytes // 2 // 4096, 1), 4096, device="cuda", dtype=torch.bfloat16).normal_() for cache in caches]
    at = iter(range(1 << 62))
    calls["stream"] = lambda: pb.rms_scale(matrices[next(at) % len(matrices)])
    return calls, turned


def measure(text, page, ragged, is_e4m3, rounds, checks):
    shape = tuple(map(int, text.split(":")))
    bytes_of_one = 4 * shape[0] * shape[2] * shape[3] * shape[4]
    sets = range(max(2, min(6, (256 << 20) // bytes_of_one)))
    caches = [Cache(shape, page, ragged, is_e4m3, seed) for seed in sets]
    if checks:
        exact.hold(caches[0].ours, caches[0].parts)
    calls, turned = contenders_of(caches, ragged)
    if is_e4m3:
        calls["bf16"] = turned(Cache.ours, [Cache(shape, page, ragged, False, seed) for seed in sets])
    took = timing.queued(calls, rounds, burst=16)
    mean = sum(cache.bytes for cache in caches) / len(caches)  # the sizes of ragged caches differ
    rate = {name: mean / us / 1e6 for name, us in took.items()}
    peers = [rate[name] for name in WORDS[1:] if name in rate]
    form = " ".join(word for word, is_so in (("ragged", ragged), ("e4m3", is_e4m3), ("page scales", is_e4m3 == "pages")) if is_so)
    print(f"| {text} | {page} | {form} | {mean / 1e6:.0f} | {took['ours']:.1f} | "
          + " | ".join(f"{rate[name]:.2f}" if name in rate else "" for name in WORDS)
          + f" | {rate['ours'] / rate['stream']:.3f} | " + (f"{rate['ours'] / max(peers):.3f}" if peers else "")
          + " | " + (f"{took['bf16'] / took['ours']:.2f}" if is_e4m3 else "") + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS), help="of " + ", ".join((*SETS, *OTHERS)))
    parser.add_argument("--shapes")
    parser.add_argument("--pages", default="0,16,64")
    parser.add_argument("--ragged", action="store_true")
    parser.add_argument("--e4m3", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    names = given.sets.split(",")
    if unknown := [name for name in names if name not in SETS and name not in OTHERS]:
        parser.error(f"--sets: {unknown[0]!r} is not one of {', '.join((*SETS, *OTHERS))}")
    sets = [SETS[name] for name in names if name in SETS]
    if given.shapes:
        sets = [(given.shapes, given.pages, given.ragged, given.e4m3)]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for name in names:
        if name in OTHERS and not given.shapes:
            OTHERS[name](given.rounds, given.check)
    if not sets:
        return
    words = ("batch:heads:key heads:columns:keys", "page", "", "MB", "us", *WORDS, "of the stream", "over the best", "over bf16")
    print("| " + " | ".join(words) + " |\n|" + "---|" * len(words))
    for shapes, pages, ragged, is_e4m3 in sets:
        for text in shapes.split(","):
            for page in map(int, pages.split(",")):
                measure(text, page, ragged, is_e4m3, given.rounds, given.check)
                torch.cuda.empty_cache()


main()
