"""Compares pb.conv2d with torch.nn.functional.conv2d with channels last (cuDNN, with its best algorithm), for the distinct convolutions of
ResNet-50 and two convolutions of a U-Net. Everything is f16, and the calls alternate.

  convolution.py [--batch N] [--rounds R] [--only WORD] [--gradients] [--small]

The results for a part of the images are compared with float64. The ratio is cuDNN's time divided by ours, and the last lines have geometric
means.
"""
import argparse
import statistics

import torch

import ptxbuilder as pb
import timing

# Each convolution has a name, channels, the number of lines and of pixels, filters, the number of taps in each direction, and a stride.
RESNET50 = (("conv1", 3, 224, 64, 7, 2),
            ("conv2 reduce", 64, 56, 64, 1, 1), ("conv2 3x3", 64, 56, 64, 3, 1), ("conv2 expand", 64, 56, 256, 1, 1),
            ("conv2 reduce again", 256, 56, 64, 1, 1),
            ("conv3 reduce", 256, 56, 128, 1, 1), ("conv3 3x3 step", 128, 56, 128, 3, 2), ("conv3 shortcut", 256, 56, 512, 1, 2),
            ("conv3 expand", 128, 28, 512, 1, 1), ("conv3 reduce again", 512, 28, 128, 1, 1), ("conv3 3x3", 128, 28, 128, 3, 1),
            ("conv4 reduce", 512, 28, 256, 1, 1), ("conv4 3x3 step", 256, 28, 256, 3, 2), ("conv4 shortcut", 512, 28, 1024, 1, 2),
            ("conv4 expand", 256, 14, 1024, 1, 1), ("conv4 reduce again", 1024, 14, 256, 1, 1), ("conv4 3x3", 256, 14, 256, 3, 1),
            ("conv5 reduce", 1024, 14, 512, 1, 1), ("conv5 3x3 step", 512, 14, 512, 3, 2), ("conv5 shortcut", 1024, 14, 2048, 1, 2),
            ("conv5 expand", 512, 7, 2048, 1, 1), ("conv5 reduce again", 2048, 7, 512, 1, 1), ("conv5 3x3", 512, 7, 512, 3, 1))
UNET = (("U-Net 3x3 of 320", 320, 64, 320, 3, 1), ("U-Net 3x3 of 640", 640, 32, 640, 3, 1))

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--batch", type=int, default=64, help="images, and a quarter of them in a U-Net")
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--only", default="", help="layers whose names have this")
parser.add_argument("--gradients", action="store_true", help="the gradients of the input and of the filters in place of the convolution")
parser.add_argument("--small", action="store_true", help="one small convolution, on the emulator")
given = parser.parse_args()


def image(n, c, h, w, device):
    return torch.randn(n, c, h, w, device=device, dtype=torch.float16).to(memory_format=torch.channels_last)


if given.small:
    x, w = image(2, 16, 6, 6, "cpu"), image(8, 16, 3, 3, "cpu")
    y = pb.conv2d(x, w, padding=1, device="emulator")
    right = torch.nn.functional.conv2d(x.double(), w.double(), padding=1)
    print(torch.allclose(y.double(), right, rtol=1e-2, atol=0.1))
    raise SystemExit(0)

torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")


def calls_of(x, w, stride, padding):
    """Returns a dict whose values are pairs of calls to measure: ours and PyTorch's. The keys tell apart the gradients."""
    if not given.gradients:
        return {"": (lambda: pb.conv2d(x, w, stride=stride, padding=padding),
                     lambda: torch.nn.functional.conv2d(x, w, stride=stride, padding=padding))}
    grad = torch.randn_like(torch.nn.functional.conv2d(x, w, stride=stride, padding=padding))
    windows = [stride, stride, *[padding] * 4, 1, 1]

    def of_torch(mask):
        found = torch.ops.aten.convolution_backward(grad, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, mask)
        return found[0] if mask[0] else found[1]

    gradient = torch.ops.ptxbuilder.conv2d_gradient
    return {" of x": (lambda: gradient("x", w, grad, x.shape, x.dtype, windows, 1), lambda: of_torch([True, False, False])),
            " of w": (lambda: gradient("w", x, grad, w.shape, w.dtype, windows, 1), lambda: of_torch([False, True, False]))}


rows, ratios = [], {}
for network, layers in (("ResNet-50", RESNET50), ("U-Net", UNET)):
    for name, channels, size, filters, taps, stride in layers:
        if given.only not in name:
            continue
        n = given.batch if network == "ResNet-50" else max(1, given.batch // 4)
        x, w = image(n, channels, size, size, "cuda"), image(filters, channels, taps, taps, "cuda") / (channels * taps * taps) ** 0.5
        w = w.contiguous(memory_format=torch.channels_last)
        padding = taps // 2
        for which, (ours, theirs) in calls_of(x, w, stride, padding).items():
            if which == " of x" and name == "conv1":
                continue  # the gradient of the input images is not needed
            took = timing.queued({"ours": ours, "cuDNN": theirs}, rounds=given.rounds)
            if which:
                exact = theirs().double()
            else:
                exact = torch.nn.functional.conv2d(x[-2:].double(), w.double(), stride=stride, padding=padding)
            found = ours()[-exact.shape[0]:].double()
            error = ((found - exact).norm() / exact.norm()).item()
            pixels = n * ((size - 1) // stride + 1) ** 2
            work = 2 * pixels * channels * taps * taps * filters
            ratio = took["cuDNN"] / took["ours"]
            ratios.setdefault(network, []).append(ratio)
            rows.append((name + which, f"{n}x{size}x{size}x{channels}", f"{filters}x{taps}x{taps}", stride, f"{took['ours']:.1f}",
                         f"{took['cuDNN']:.1f}", f"{1e-6 * work / took['ours']:.0f}", f"{ratio:.3f}", f"{error:.0e}"))
            print(*rows[-1], flush=True)
            assert error < 4e-3, "wrong"
        del x, w
timing.table(rows, ("layer", "images", "filters", "step", "us", "cuDNN us", "TFLOP/s", "ratio", "error"))
for name, all_of in (*ratios.items(), ("all", [one for every in ratios.values() for one in every])):
    if all_of:
        print(f"{name}, {len(all_of)}: {statistics.geometric_mean(all_of):.3f} of cuDNN's speed, from {min(all_of):.3f}")
