"""Compares attention in bf16 with float64."""
import torch


def hold(call, parts_of):
    """Asserts that the error of a call's result can be explained by rounding to bf16, and that a second call returns the same bits.
    `parts_of` yields parts of a result. Each part comes with its exact values in float64, and with the sums of the magnitudes of their
    terms."""
    got, worst = call().clone(), 0.0
    assert torch.isfinite(got).all(), "wrong: not finite"
    for part, expected, magnitude in parts_of(got):
        error = (part.double().view_as(expected) - expected).abs()
        worst = max(worst, float((error / (expected.abs() + magnitude)).max()) * 256)
    assert worst < 1.1, f"wrong: {worst:.3g} of what rounding to bf16 explains"
    assert torch.equal(got, call()), "a second run gives different bits"


def weighted(weights, v):
    """Returns the weighted sums of the values, and the weighted sums of their magnitudes."""
    return weights @ v, weights @ v.abs()
