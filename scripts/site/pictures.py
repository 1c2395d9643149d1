"""Draws the pictures of the README, light and dark, into .github/.

  pictures.py SOURCE PTXB    draws a kernel with its PTX and its verdict, from the program PTXB, and the speeds of kernels/MEASURED.md
  pictures.py SOURCE         fails if the picture of the speeds does not match the table of kernels/MEASURED.md
"""
import html
import os
import re
import subprocess
import sys
import tempfile

KERNEL = "kernels/steps/saxpy.cpp"
SHOWN = {  # rows of the table, and their names in the picture
    "bf16 products drawn by a seed": "bf16 products", "e4m3 products drawn by a seed": "e4m3 products",
    "f16 products of other layouts": "f16 products, other layouts", "products of experts": "products of experts",
    "e4m3 with block scales": "e4m3 with block scales", "int4 weights, 1 to 64 rows of bf16": "int4 weights, up to 64 rows",
    "contractions by name": "contractions by name", "convolutions of ResNet-50 and a U-Net in f16": "convolutions in f16",
    "attention in f16": "attention, forward", "its backward pass in bf16": "attention, backward",
}
SCHEMES = {
    "light": {"paper": "#f6f8fa", "ink": "#1f2328", "soft": "#59636e", "bar": "#4c9a2a", "line": "#d1d9e0", "good": "#1a7f37"},
    "dark": {"paper": "#151b23", "ink": "#e6edf3", "soft": "#9198a1", "bar": "#76b900", "line": "#3d444d", "good": "#3fb950"},
}
MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
SANS = "system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif"


def text(x, y, words, fill, size, family=SANS, more=""):
    return (f'<text x="{x}" y="{y}" fill="{fill}" font-size="{size}" font-family="{family}" xml:space="preserve"{more}>'
            f"{html.escape(words, quote=False)}</text>")


def svg(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
            + "\n".join(parts) + "\n</svg>\n")


def box(x, y, width, height, c):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{c["paper"]}" stroke="{c["line"]}"/>'


def measured(source):
    """Returns the rows of the first table: operation, peer, shapes, mean and worst."""
    with open(f"{source}/kernels/MEASURED.md") as file:
        rows = re.findall(r"^\| (.*?) \| (.*?) \| (\d+) \| ([\d.]+) \| ([\d.]+) \|", file.read(), re.M)
    by_name = {row[0]: row for row in rows}
    if missing := [name for name in SHOWN if name not in by_name]:
        sys.exit(f"kernels/MEASURED.md has no row: {', '.join(missing)}")
    return [(shown, by_name[name][3], float(by_name[name][4])) for name, shown in SHOWN.items()]


def speed(rows, c):
    """Draws a bar for each mean, with a mark at the worst shape. A line marks the speed of the fastest peer."""
    left, length, top, step = 240, 510, 62, 32
    scale = int(length / (max(float(mean) for _, mean, _ in rows) + 0.15))  # the number is printed after the bar
    width, height = left + length + 20, top + step * len(rows) + 18
    at = left + scale
    parts = [box(0.5, 0.5, width - 1, height - 1, c),
             text(20, 28, "Speed against the fastest peer on an H100: mean, and the worst shape as a mark", c["ink"], 16, more=' font-weight="600"'),
             text(at, 50, "1.0", c["soft"], 12, more=' text-anchor="middle"')]
    for number, (name, shown, worst) in enumerate(rows):
        y, mean = top + step * number, float(shown)
        parts += [text(left - 12, y + 15, name, c["ink"], 14, more=' text-anchor="end"'),
                  f'<rect x="{left}" y="{y}" width="{mean * scale:.0f}" height="20" rx="3" fill="{c["bar"]}"/>',
                  f'<rect x="{left + worst * scale:.0f}" y="{y}" width="2" height="20" fill="{c["ink"]}"/>',
                  text(round(left + mean * scale + 6), y + 15, shown, c["ink"], 13)]
    parts += [f'<line x1="{at}" x2="{at}" y1="56" y2="{height - 18}" stroke="{c["soft"]}" stroke-dasharray="4 3"/>']
    return svg(width, height, parts)


def kernel_texts(source, ptxb):
    """Returns the lines of the kernel, of its PTX, and of its run on the emulator."""
    with open(f"{source}/{KERNEL}") as file:
        body = re.search(r"^Kernel saxpy.*?^}$", file.read(), re.M | re.S)[0]
    body = re.sub(r"  k\.describe\(.*?\);\n", "", body, flags=re.S).replace('u32>("x"', 'u32>(\n      "x"')
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([ptxb, "emit", "saxpy", "-o", folder], check=True, capture_output=True)
        with open(f"{folder}/saxpy.ptx") as file:
            ptx = file.read()
    ptx = ptx[ptx.index("{\n") + 2:ptx.index("ret;") + 4]
    lines = [line.replace("\t", " ").strip() for line in ptx.split("\n")]
    lines = [line for line in lines if line and not re.match(r"\.reg|\.loc|//|\$L__(tmp|func)", line)]
    command = "saxpy --device emulator --seed 1 --seeds 20"
    run = subprocess.run([ptxb, "run", *command.split()], check=True, capture_output=True, text=True).stdout
    verdict = [line.replace(", seed", ",\n            seed") for line in run.split("\n") if "verified" in line or "launches" in line]
    return body.split("\n"), lines, [f"$ ptxb run {command}"] + "\n".join(verdict).split("\n")


def kernel(texts, c):
    code, ptx, run = texts
    step, size, left, right = 19, 13, 590, 310
    top, below = len(code) * step + 44, len(run) * step + 28
    height = max(top + below + 10, len(ptx) * step + 44)
    parts = [box(0.5, 0.5, left, top, c), box(0.5, top + 10.5, left, height - top - 11, c),
             box(left + 10.5, 0.5, right, height - 1, c),
             text(16, 24, "C++", c["soft"], 12), text(left + 26, 24, "PTX", c["soft"], 12)]
    for x, lines in ((16, code), (left + 26, ptx)):
        parts += [text(x, 48 + step * at, line, c["ink"], size, MONO) for at, line in enumerate(lines)]
    parts += [text(16, top + 37 + step * at, line, c["good"] if re.search("verified|max error", line) else c["ink"], size, MONO)
              for at, line in enumerate(run)]
    return svg(left + right + 12, height, parts)


def main(source, ptxb=None):
    rows = measured(source)
    pictures = {f"speed-{name}.svg": speed(rows, c) for name, c in SCHEMES.items()}
    if not ptxb:
        for name, drawn in pictures.items():
            with open(f"{source}/.github/{name}") as file:
                if file.read() != drawn:
                    sys.exit(f".github/{name} does not match kernels/MEASURED.md: scripts/site/pictures.py SOURCE PTXB draws it anew")
        print(f"{len(rows)} speeds are drawn as they were measured")
        return
    texts = kernel_texts(source, os.path.abspath(ptxb))
    pictures |= {f"kernel-{name}.svg": kernel(texts, c) for name, c in SCHEMES.items()}
    for name, drawn in pictures.items():
        with open(f"{source}/.github/{name}", "w") as file:
            file.write(drawn)


main(*sys.argv[1:])
