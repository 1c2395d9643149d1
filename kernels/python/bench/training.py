"""Trains a small transformer to predict letters, with our attention and with PyTorch's, from the same seeds. Prints the losses of both
kinds of attention, and the differences between the losses of different seeds. The exit code is 1 if the two kinds of attention differ more
than the seeds.

  training.py [--small]   300 steps of 16 x 512 tokens, two layers of 256 columns; --small on the emulator
"""
import statistics
import sys

import torch
import torch.nn.functional as F

import ptxbuilder as pb

is_small = "--small" in sys.argv
place, words = ("cpu", {"device": "emulator"}) if is_small else ("cuda", {})
steps, batch, length, width, heads = (2, 1, 32, 32, 2) if is_small else (300, 16, 512, 256, 4)
letters, seeds = 64, (1, 2, 3)


def text(generator):
    """Draws sequences of letters. Each sequence uses eight letters with different frequencies, so that predicting a letter requires
    attention to the earlier letters."""
    chosen = torch.rand(batch, letters, generator=generator).argsort(1)[:, :8]
    which = (torch.rand(batch, length + 1, generator=generator)**2 * 8).long()
    return chosen.gather(1, which).to(place)


def ours(q, k, v):
    return pb.attention(q, k, v, causal=True, **words)


def theirs(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x, attend):
        qkv = self.qkv(self.norms[0](x)).bfloat16().view(batch, length, 3, heads, width // heads)
        x = x + self.out(attend(*qkv.unbind(2)).reshape(x.shape).float())
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = torch.nn.Embedding(letters, width), torch.nn.Embedding(length, width)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(2))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, letters)

    def forward(self, tokens, attend):
        x = self.letters(tokens) + self.places.weight
        for layer in self.layers:
            x = layer(x, attend)
        return self.head(self.norm(x))


def train(attend, seed):
    """Trains the model, and returns the loss of each step."""
    torch.manual_seed(seed)
    model = Model().to(place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(steps):
        tokens = text(generator)
        loss = F.cross_entropy(model(tokens[:, :-1], attend).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    last = max(steps // 10, 1)
    final = {way.__name__: [statistics.mean(train(way, seed)[-last:]) for seed in seeds] for way in (theirs, ours)}
    apart = [abs(a - b) for a, b in zip(final["theirs"], final["ours"])]
    spread = max(final["theirs"]) - min(final["theirs"])
    for name, found in final.items():
        print(f"{name}: mean loss of the last {last} of {steps} steps", ", ".join(f"{x:.4f}" for x in found))
    print(f"the attentions differ by up to {max(apart):.4f} apart, the seeds {spread:.4f}")
    return int(max(apart) > spread)


if __name__ == "__main__":
    sys.exit(main())
