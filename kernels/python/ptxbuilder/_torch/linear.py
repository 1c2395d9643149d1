"""A PyTorch layer that uses this library's product."""
import torch

from .._common import activation_of
from .._product import matmul


class Linear(torch.nn.Linear):
    """A torch.nn.Linear that also applies an activation, in the same launch: it computes activation(input weight^T + bias), from [..,
    in_features] to [.., out_features].

    The parameters have the same names and initial values as in torch.nn.Linear, so that both layers accept the same state_dict. On the CPU,
    the layer runs on the emulator. `tf32` allows f32 tensors, which are truncated to tf32.
    """

    def __init__(self, in_features, out_features, bias=True, activation=None, *, device=None, dtype=None, tf32=False):
        activation_of(activation)  # reports what is wrong
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation, self.tf32 = activation, tf32

    def forward(self, input):
        rows = input if input.ndim > 1 else input[None]
        d = matmul(rows, self.weight, bias=self.bias, activation=self.activation, transpose_b=True, tf32=self.tf32,
                   device=None if input.is_cuda else "emulator")
        return d if input.ndim > 1 else d[0]

    def extra_repr(self):
        return f"{super().extra_repr()}, activation={self.activation!r}"
