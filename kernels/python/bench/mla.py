"""Compares multi-head latent attention with absorbed weights, over a cache of 576 columns, with PyTorch's products, with PyTorch's
attention over expanded keys, and with FlashInfer and FlashMLA if they are installed. The calls alternate, with a cold L2. decode.py runs
this module as the set "mla". The set "mla bytes" measures rows of 656 bytes, compared with the same call over bf16 rows.

The output has the rate at which the cache's rows are read, in TB/s; this rate as a share of the rate of our kernel that only reads; and the
TFLOP/s of both products.
"""
import torch

import exact
import ptxbuilder as pb
import timing

# Each case has the number of sequences, the keys of each sequence, the number of heads, and the queries of each sequence.
SHAPES = [(batches, keys, heads, queries)
          for batches in (1, 16, 64, 128) for keys in (4096, 16384) for heads in (16, 128) for queries in (1, 2)]
PAGES = (64, 0)
LATENT, COLUMNS, SCALE = 512, 576, 192**-0.5
SCALED, BYTES_OF_ROW = 128, 656
WORDS = ("ours", "matmuls", "sdpa", "flashinfer", "flashmla")


def byte_rows(kv):
    """Returns rows of 656 bytes, and the keys that these rows represent."""
    scales = torch.rand(*kv.shape[:-1], LATENT // SCALED, device="cuda") + 0.5
    values, rotary = kv[..., :LATENT].to(torch.float8_e4m3fn), kv[..., LATENT:].contiguous()
    held = (values.float() * scales.repeat_interleave(SCALED, -1)).to(kv.dtype)
    return torch.cat([x.view(torch.uint8) for x in (values, scales, rotary)], -1), torch.cat([held, rotary], -1)


class Cache:
    """Queries and a cache of one shape, in pages if requested; `lengths` are the numbers of keys of the sequences."""

    def __init__(self, batches, keys, heads, queries, page, seed, ragged=False, in_bytes=False):
        self.batches, self.keys, self.heads, self.queries, self.page = batches, keys, heads, queries, page
        random = torch.Generator(device="cuda").manual_seed(seed)
        lengths = [keys] * batches
        if ragged:
            part = torch.rand(batches, generator=torch.Generator().manual_seed(seed)) ** 4  # few sequences are long
            lengths = [max(queries, int(x)) for x in (part * keys).tolist()]
        self.lengths = torch.tensor(lengths, dtype=torch.int32, device="cuda")
        of_batch = -(-keys // page) if page else 1
        self.table = None
        if page:
            self.table = torch.randperm(of_batch * batches, device="cuda", generator=random).to(torch.int32).view(batches, of_batch)
        self.q = torch.randn(batches, queries, heads, COLUMNS, device="cuda", generator=random, dtype=torch.bfloat16)
        self.kv = torch.randn(of_batch * batches, page or keys, COLUMNS, device="cuda", generator=random, dtype=torch.bfloat16)
        self.rows = self.kv
        if in_bytes:
            self.rows, self.kv = byte_rows(self.kv)
        self.out = self.q.new_empty(*self.q.shape[:-1], LATENT)
        self.bytes = (BYTES_OF_ROW if in_bytes else 2 * COLUMNS) * sum(lengths)
        self.operations = 2 * queries * heads * (COLUMNS + LATENT) * sum(lengths)

    def ours(self):
        return pb.mla_decode(self.q, self.rows, self.lengths, self.table, scale=SCALE, out=self.out)

    def over_bf16(self):
        return pb.mla_decode(self.q, self.kv, self.lengths, self.table, scale=SCALE, out=self.out)

    def matmuls(self):
        q = self.q.flatten(1, 2)
        scores = torch.bmm(q, self.kv.transpose(1, 2))
        weights = torch.softmax(scores.float() * SCALE, -1).to(q.dtype)
        return torch.bmm(weights, self.kv[..., :LATENT])

    def sdpa(self):
        k = self.kv[:, None].expand(-1, self.heads, -1, -1)
        return torch.nn.functional.scaled_dot_product_attention(self.q.transpose(1, 2), k, k[..., :LATENT], scale=SCALE)

    def parts(self, got):
        for b in range(self.batches):
            count = int(self.lengths[b])
            rows = self.kv[b] if self.table is None else self.kv[self.table[b].long()].flatten(0, 1)
            rows = rows[:count].double()
            scores = torch.einsum("qhc,kc->qhk", self.q[b].double(), rows) * SCALE
            hidden = torch.arange(count, device="cuda") > torch.arange(self.queries, device="cuda")[:, None] + count - self.queries
            yield got[b], *exact.weighted(torch.softmax(scores.masked_fill(hidden[:, None], -torch.inf), -1), rows[:, :LATENT])


def flashinfer_of(caches):
    """Returns a call of FlashInfer, planned once for each cache; raises if it does not support the case."""
    from flashinfer.mla import BatchMLAPagedAttentionWrapper

    plans = {}
    for cache in caches:
        page = cache.page or cache.keys
        table = cache.table if cache.page else torch.arange(cache.batches, dtype=torch.int32, device="cuda")[:, None]
        used = -(-cache.lengths // page)
        starts = torch.cat([used.new_zeros(1), used.cumsum(0)]).to(torch.int32)
        wrapper = BatchMLAPagedAttentionWrapper(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
        wrapper.plan(torch.arange(cache.batches + 1, dtype=torch.int32, device="cuda") * cache.queries, starts,
                     table[torch.arange(table.shape[1], device="cuda") < used[:, None]], cache.lengths, cache.heads, LATENT,
                     COLUMNS - LATENT, page, True, SCALE, cache.q.dtype, cache.kv.dtype)
        plans[id(cache)] = wrapper

    def run(cache):
        q = cache.q.flatten(0, 1)
        return plans[id(cache)].run(q[..., :LATENT], q[..., LATENT:], cache.kv[..., :LATENT], cache.kv[..., LATENT:])
    return run


def flashmla_of(caches):
    """Returns a call of FlashMLA, planned once for each cache; raises if it does not support the case."""
    import flash_mla

    plans = {id(cache): flash_mla.get_mla_metadata(cache.lengths, cache.queries * cache.heads, 1) for cache in caches}
    return lambda cache: flash_mla.flash_mla_with_kvcache(cache.q, cache.kv[:, :, None], cache.table, cache.lengths, LATENT,
                                                          *plans[id(cache)], SCALE, True)


def measure(shape, page, ragged, in_bytes, rounds, checks):
    bytes_of_one = 2 * COLUMNS * shape[0] * shape[1]
    caches = [Cache(*shape, page, seed, ragged, in_bytes) for seed in range(max(2, min(6, (256 << 20) // bytes_of_one)))]
    if checks:
        exact.hold(caches[0].ours, caches[0].parts)

    def turned(function):
        at = iter(range(1 << 62))
        return lambda: function(caches[next(at) % len(caches)])

    makers = {"ours": lambda: Cache.ours}
    if in_bytes:
        makers["bf16"] = lambda: Cache.over_bf16
    else:
        makers["flashinfer"] = lambda: flashinfer_of(caches)
        if page:
            makers["flashmla"] = lambda: flashmla_of(caches)
        elif not ragged and shape[3] == 1:
            makers.update(matmuls=lambda: Cache.matmuls, sdpa=lambda: Cache.sdpa)
    calls = {}
    for name, make in makers.items():
        try:
            call = turned(make())
            call()
            torch.cuda.synchronize()
            calls[name] = call
        except Exception as error:
            if name == "ours":
                raise
            if not isinstance(error, ImportError):
                print(f"left out: {name}, {shape}, page {page}: {error!r:.120}")
            torch.cuda.empty_cache()
    matrices = [torch.empty(max(cache.bytes // 2 // 4096, 1), 4096, device="cuda", dtype=torch.bfloat16).normal_() for cache in caches]
    at = iter(range(1 << 62))
    calls["stream"] = lambda: pb.rms_scale(matrices[next(at) % len(matrices)])
    took = timing.queued(calls, rounds, burst=16)
    mean = sum(cache.bytes for cache in caches) / len(caches)  # the sizes of ragged caches differ
    operations = sum(cache.operations for cache in caches) / len(caches)
    rate = {name: mean / us / 1e6 for name, us in took.items()}
    peers = [rate[name] for name in WORDS[1:] if name in rate]
    words = [":".join(map(str, shape)), page, "ragged" if ragged else "", f"{mean / 1e6:.0f}", f"{took['ours']:.1f}",
             *(f"{rate[name]:.2f}" if name in rate else "" for name in WORDS), f"{rate['ours'] / rate['stream']:.3f}",
             f"{operations / took['ours'] / 1e6:.0f}", f"{rate['ours'] / max(peers):.3f}" if peers else "",
             f"{took['bf16'] / took['ours']:.2f}" if in_bytes else ""]
    print("| " + " | ".join(map(str, words)) + " |", flush=True)


def main(rounds, checks, in_bytes=False):
    words = ("sequences:keys:heads:queries", "page", "", "MB", "us", *WORDS, "of the stream", "TFLOP/s", "over the best", "over bf16")
    print("| " + " | ".join(words) + " |\n|" + "---|" * len(words))
    shapes = [(shape, page, False) for page in PAGES for shape in SHAPES]
    for shape, page, ragged in shapes + [((64, 16384, heads, 1), PAGES[0], True) for heads in (16, 128)]:
        measure(shape, page, ragged, in_bytes, rounds, checks)
        torch.cuda.empty_cache()


def main_of_bytes(rounds, checks):
    main(rounds, checks, True)
