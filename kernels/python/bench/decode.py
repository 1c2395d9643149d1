"""Decoding over caches beside PyTorch's attention and, where they are here (scripts/peers/get), FlashAttention's CuTe kernels: bf16, one
query of each sequence, in turns, L2 cold.

  decode.py [--shapes BATCH:HEADS:KEY_HEADS:COLUMNS:KEYS,...] [--pages N,...] [--ragged] [--rounds N] [--check]

TB/s of keys and values, and parts of the rate of a kernel of ours that only reads. A page of 0 is a cache in one piece. --ragged draws
the lengths from a long tail, up to KEYS. --check holds each result against float64.
"""
import argparse

import torch

import ptxbuilder as pb
import timing

SHAPES = ("1:32:8:128:8192,1:32:8:128:65536,1:32:32:128:8192,1:32:32:128:65536,16:32:8:128:8192,64:32:8:128:4096,1:32:8:64:8192,"
          "1:32:8:64:65536,16:32:8:64:8192,64:64:8:128:2048")
BACKENDS = {"cudnn": torch.nn.attention.SDPBackend.CUDNN_ATTENTION, "flash": torch.nn.attention.SDPBackend.FLASH_ATTENTION}


class Cache:
    """Queries, keys and values of one shape, in pages where these are asked for."""

    def __init__(self, shape, page, ragged, seed):
        self.batches, self.heads, self.key_heads, self.columns, self.keys = shape
        self.page = page
        random = torch.Generator(device="cuda").manual_seed(seed)

        def normal(*extents):
            return torch.randn(extents, device="cuda", generator=random).bfloat16()

        lengths = [self.keys] * self.batches
        if ragged:
            part = torch.rand(self.batches, generator=torch.Generator().manual_seed(seed)) ** 4  # few are long
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
        self.out = torch.empty_like(self.q)
        self.bytes = 2 * 2 * self.key_heads * self.columns * sum(lengths)

    def ours(self):
        return pb.decode(self.q, self.k, self.v, self.lengths, self.table, out=self.out)

    def of_batch(self, b):
        """Keys and values of a sequence as [key heads, keys, columns], in float64."""
        count = int(self.lengths[b])
        def rows(x):
            x = x[b] if self.table is None else x[self.table[b].long()].flatten(0, 1)
            return x[:count].transpose(0, 1).double()
        return rows(self.k), rows(self.v)

    def check(self):
        got = self.ours().clone()
        worst = 0.0
        for b in range(self.batches):
            k, v = self.of_batch(b)
            group = self.heads // self.key_heads
            q = self.q[b].double().view(self.key_heads, group, self.columns)
            weights = torch.softmax(q @ k.transpose(1, 2) / self.columns ** 0.5, -1)
            expected, magnitude = weights @ v, weights @ v.abs()
            error = (got[b].double().view_as(expected) - expected).abs()
            worst = max(worst, float((error / (expected.abs() + magnitude)).max()) * 256)
        assert worst < 1.1, f"wrong: {worst:.3g} of what rounding to bf16 explains"
        assert torch.equal(got, self.ours()), "a second run gives other bits"


def contenders_of(caches, ragged):
    """Calls by name, each of which takes the next cache."""
    def turned(function):
        at = iter(range(1 << 62))
        return lambda: function(caches[next(at) % len(caches)])

    calls = {"ours": turned(Cache.ours)}
    one = caches[0]
    if not one.page and not ragged:
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
        calls["cute"] = turned(cute)
    except ImportError:
        pass
    for name in list(calls):
        try:
            calls[name]()
            torch.cuda.synchronize()
        except Exception as error:
            print(f"left out: {name}, {one.batches} x {one.keys} keys of {one.columns} columns, page {one.page}: {error!r:.120}")
            del calls[name]
    matrices = [torch.empty(max(one.bytes // 2 // 4096, 1), 4096, device="cuda", dtype=torch.bfloat16).normal_() for _ in caches]
    at = iter(range(1 << 62))
    calls["stream"] = lambda: pb.rms_scale(matrices[next(at) % len(matrices)])
    return calls


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--pages", default="0,16,64")
    parser.add_argument("--ragged", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    words = ("ours", "cudnn", "flash", "cute")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print("| batch:heads:key heads:columns:keys | page | MB | us | " + " | ".join(words) + " | of the stream | over the best |\n|"
          + "---|" * (6 + len(words)))
    for text in given.shapes.split(","):
        shape = tuple(map(int, text.split(":")))
        for page in map(int, given.pages.split(",")):
            bytes_of_one = 4 * shape[0] * shape[2] * shape[3] * shape[4]
            caches = [Cache(shape, page, given.ragged, seed) for seed in range(max(2, min(6, (256 << 20) // bytes_of_one)))]
            if given.check:
                caches[0].check()
            took = timing.queued(contenders_of(caches, given.ragged), given.rounds, burst=16)
            rate = {name: caches[0].bytes / us / 1e6 for name, us in took.items()}
            peers = [rate[name] for name in words[1:] if name in rate]
            print(f"| {text} | {page} | {caches[0].bytes / 1e6:.0f} | {took['ours']:.1f} | "
                  + " | ".join(f"{rate[name]:.2f}" if name in rate else "" for name in words)
                  + f" | {rate['ours'] / rate['stream']:.3f} | " + (f"{rate['ours'] / max(peers):.3f}" if peers else "") + " |", flush=True)
            del caches


main()
