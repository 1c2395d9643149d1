"""Measures trees of speculated tokens over pages, compared with the same number of consecutive tokens, and with one token. decode.py runs
this module."""
import torch

import exact
import ptxbuilder as pb
import timing
from mixed_batches import COLUMNS, HEADS, KEY_HEADS, paged

SHAPES = ((1, 8, 8192), (1, 32, 8192), (16, 8, 8192), (16, 32, 8192), (64, 8, 4096))  # sequences; new tokens and keys in each sequence


class Batch:
    """Caches, which together with those of the other seeds are larger than L2, and trees. Each token of a tree follows a random earlier
    token."""

    def __init__(self, shape, seed):
        batches, self.new, keys = shape
        normal, self.k, self.v, self.table, self.lengths = paged(batches, keys, seed)
        self.q = normal(batches, self.new, HEADS, COLUMNS)
        draw, masks = torch.Generator().manual_seed(seed), torch.zeros(batches, self.new, dtype=torch.int64)
        for b in range(batches):
            for token in range(self.new):
                before = int(torch.randint(token + 1, (), generator=draw)) - 1  # -1 if the token follows the last key of the cache
                masks[b, token] = (masks[b, before] if before >= 0 else 0) | 1 << token
        self.masks = masks.to(torch.uint32).view(torch.int32).cuda()
        self.bytes = 2 * self.k.numel() * self.k.element_size()

    def as_tree(self):
        return pb.decode(self.q, self.k, self.v, self.lengths, self.table, tree_mask=self.masks)

    def in_a_row(self):
        return pb.decode(self.q, self.k, self.v, self.lengths, self.table)

    def of_one(self):
        return pb.decode(self.q[:, -1], self.k, self.v, self.lengths, self.table)

    def parts(self, got):
        group = HEADS // KEY_HEADS
        for b in range(len(self.lengths)):
            k, v = (x[self.table[b].long()].flatten(0, 1).transpose(0, 1).double().repeat_interleave(group, 0) for x in (self.k, self.v))
            scores = self.q[b].transpose(0, 1).double() @ k.transpose(1, 2) / COLUMNS ** 0.5
            bits = self.masks[b][:, None] >> torch.arange(self.new, device="cuda") & 1
            scores[:, :, -self.new:].masked_fill_(bits == 0, -torch.inf)
            yield got[b].transpose(0, 1), *exact.weighted(torch.softmax(scores, -1), v)


def main(rounds, checks):
    words = ("sequences, new tokens, keys", "MB", "trees, us", "in a row", "one token", "trees over in a row")
    print("| " + " | ".join(words) + " |\n|" + "---|" * len(words))
    for shape in SHAPES:
        batches = [Batch(shape, seed) for seed in range(max(2, (256 << 20) // (4 * KEY_HEADS * COLUMNS * shape[0] * shape[2])))]
        if checks:
            exact.hold(batches[0].as_tree, batches[0].parts)

        def turned(function):
            at = iter(range(1 << 62))
            return lambda: function(batches[next(at) % len(batches)])

        took = timing.queued({name: turned(function) for name, function in
                              (("tree", Batch.as_tree), ("row", Batch.in_a_row), ("one", Batch.of_one))}, rounds, burst=16)
        print("| {} x {}, {} | ".format(*shape) + f"{batches[0].bytes / 1e6:.0f} | " + " | ".join(f"{us:.1f}" for us in took.values())
              + f" | {took['row'] / took['tree']:.3f} |", flush=True)
        del batches
        torch.cuda.empty_cache()
