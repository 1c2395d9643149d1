"""Measures mixed batches over pages. Compares one call for parts of prompts and for last tokens with a separate call for each of the two.
decode.py runs this module."""
import torch

import exact
import ptxbuilder as pb
import timing

# Each case has the number of sequences with a part of a prompt, the number of new tokens in each of these parts, the number of sequences
# with one new token, and the number of keys in each sequence.
SHAPES = ((1, 512, 31, 4096), (1, 2048, 127, 2048), (4, 1024, 60, 8192))
HEADS, KEY_HEADS, COLUMNS, PAGE = 32, 8, 128, 64


def paged(batches, keys, seed):
    """Returns a function that draws normal numbers, and the pages of K, those of V, the table and the lengths of sequences with this many
    keys each. The pages of a sequence are in random places."""
    random = torch.Generator(device="cuda").manual_seed(seed)

    def normal(*extents):
        return torch.randn(extents, device="cuda", generator=random, dtype=torch.bfloat16)

    pages = batches * keys // PAGE
    k, v = (normal(pages, PAGE, KEY_HEADS, COLUMNS) for _ in range(2))
    table = torch.randperm(pages, device="cuda", generator=random).to(torch.int32).view(batches, -1)
    return normal, k, v, table, torch.full((batches,), keys, dtype=torch.int32, device="cuda")


class Batch:
    def __init__(self, shape, seed):
        self.prompts, self.new, self.others, keys = shape
        normal, self.k, self.v, self.table, self.lengths = paged(self.prompts + self.others, keys, seed)
        self.of_prompts = self.prompts * self.new  # number of new tokens in all prompts
        self.q = normal(self.of_prompts + self.others, HEADS, COLUMNS)
        counts = torch.tensor([0] + [self.new] * self.prompts + [1] * self.others, device="cuda")
        self.offsets = counts.cumsum(0).to(torch.int32)

    def together(self):
        return pb.decode(self.q, self.k, self.v, self.lengths, self.table, query_offsets=self.offsets, max_queries=self.new)

    def of_parts(self):
        p = self.prompts
        return pb.decode(self.q[:self.of_prompts], self.k, self.v, self.lengths[:p], self.table[:p], query_offsets=self.offsets[:p + 1],
                         max_queries=self.new)

    def of_last(self):
        return pb.decode(self.q[self.of_prompts:], self.k, self.v, self.lengths[self.prompts:], self.table[self.prompts:])

    def apart(self):
        return self.of_parts(), self.of_last()

    def parts(self, got):
        """Yields the last 16 queries of each sequence with their exact values."""
        group = HEADS // KEY_HEADS
        for b in range(len(self.lengths)):
            first, end = self.offsets[b:b + 2].tolist()
            first = max(first, end - 16)
            k, v = (x[self.table[b].long()].flatten(0, 1).transpose(0, 1).double().repeat_interleave(group, 0) for x in (self.k, self.v))
            scores = self.q[first:end].transpose(0, 1).double() @ k.transpose(1, 2) / COLUMNS ** 0.5
            hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device="cuda").triu(scores.shape[2] - (end - first) + 1)
            weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
            yield got[first:end].transpose(0, 1), *exact.weighted(weights, v)


def main(rounds, checks):
    words = ("prompts of new tokens + others, keys", "one call, us", "two calls", "those of prompts", "the others")
    print("| " + " | ".join(words) + " |\n|" + "---|" * len(words))
    for shape in SHAPES:
        batch = Batch(shape, 1)
        if checks:
            exact.hold(batch.together, batch.parts)
        calls = {"together": batch.together, "apart": batch.apart, "parts": batch.of_parts, "last": batch.of_last}
        took = timing.queued(calls, rounds, burst=16)
        print("| {} of {} + {}, {} | ".format(*shape) + " | ".join(f"{us:.1f}" for us in took.values()) + " |", flush=True)
        del batch
        torch.cuda.empty_cache()
