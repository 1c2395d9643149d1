"""A small PyTorch transformer with random weights that serves sequences of several lengths. Keys and values are in pages, and a step is one
CUDA graph. The logits of all steps are compared with attention over contiguous memory in float64.

The program runs on a GPU if there is one, and then prints the time of a step; otherwise attention runs on the emulator, without a graph.
"""
import torch
import torch.nn.functional as F

import ptxbuilder as pb

on_gpu = torch.cuda.is_available()
place, device = (torch.device("cuda"), None) if on_gpu else (torch.device("cpu"), "emulator")
layers, heads, key_heads, columns, words = 2, 8, 2, 64, 512
batch, page_rows, steps, starts = (16, 16, 200, 4) if on_gpu else (2, 8, 6, 2)
width, pages = heads * columns, (starts * batch + steps) // page_rows + 1  # `pages` is the number of pages of a sequence
torch.manual_seed(0)


def weight(*shape):
    return (torch.randn(shape, device=place) * shape[0]**-0.5).bfloat16()


embedding, unembedding = weight(words, width) * words**0.5, weight(width, words)
blocks = [{"qkv": weight(width, (heads + 2 * key_heads) * columns), "o": weight(width, width), "up": weight(width, 4 * width),
           "down": weight(4 * width, width)} for _ in range(layers)]
angles = torch.arange(pages * page_rows, device=place)[:, None] * 1e4**(-torch.arange(columns // 2, device=place) / (columns / 2))
cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()


def transformer(token, attend, kind):
    """Returns the logits of tokens, computed in the type `kind`. `attend` computes the attention of a layer from its q, k and v, which are
    [tokens, heads, columns]."""
    def norm(x):
        return F.rms_norm(x, x.shape[-1:])

    x = embedding[token].to(kind)
    for number, block in enumerate(blocks):
        q, k, v = (norm(x) @ block["qkv"].to(kind)).unflatten(-1, (-1, columns)).split((heads, key_heads, key_heads), -2)
        x = x + attend(number, q, k, v).flatten(-2) @ block["o"].to(kind)
        x = x + F.silu(norm(x) @ block["up"].to(kind)) @ block["down"].to(kind)
    return norm(x) @ unembedding.to(kind)


# The state is in device memory, where the graph reads and writes it. Sequences begin in different steps; before a sequence begins, its
# tokens have no slot.
caches = [torch.full((2, batch * pages, page_rows, key_heads, columns), torch.nan, device=place).bfloat16() for _ in blocks]
table = torch.randperm(batch * pages, device=place).int().view(batch, pages)
token, logits = torch.randint(words, (batch,), device=place), torch.zeros(batch, words, device=place)
position = -starts * torch.arange(batch, device=place)


@torch.no_grad()
def step():
    row = position.clamp(min=0)
    slot = torch.where(position < 0, -1, table.gather(1, row[:, None] // page_rows)[:, 0] * page_rows + row % page_rows)

    def paged(number, q, k, v):
        pb.append(k, v, *caches[number], slot, cos, sin, row, device=device)
        return pb.decode(pb.rotary(q, cos[row], sin[row], device=device), *caches[number], (position + 1).clamp(min=0).int(), table,
                         device=device)

    logits.copy_(transformer(token, paged, torch.bfloat16))
    token.copy_(torch.where(position < 0, token, logits.argmax(-1)))
    position.add_(1)


def contiguous(number, q, k, v):
    def turned(x):
        (a, b), (c, s) = x.chunk(2, -1), (y[:len(x), None].double() for y in (cos, sin))
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    q, k, v = (x.transpose(0, 1)[None] for x in (turned(q), turned(k), v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)[0].transpose(0, 1)


said, found, graph = [], [], None
for number in range(steps):
    if on_gpu and number == 3:  # the first steps have compiled all kernels
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    said.append(token.clone())
    graph.replay() if graph else step()
    found.append(logits.clone())
for sequence in {0, batch - 1}:
    first = starts * sequence
    exact = transformer(torch.stack(said[first:])[:, sequence], contiguous, torch.float64)
    got = torch.stack(found[first:])[:, sequence].double()
    print(f"sequence {sequence}, {len(exact)} tokens: off by {((got - exact).norm() / exact.norm()).item():.1e}")
    assert (got - exact).norm() < 0.03 * exact.norm()
if on_gpu:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    position.fill_(steps // 2)
    begin.record()
    for _ in range(20):
        graph.replay()
    end.record()
    end.synchronize()
    print(f"a step of {batch} sequences takes {begin.elapsed_time(end) / 20 * 1e3:.0f} us")
