"""Writes the pages of the site as Markdown, and the configuration that mkdocs uses to build them.

  pages.py SOURCE BUILD FOLDER   BUILD holds the program ptxb and the printed headers; pages are written to FOLDER
"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cpp_pages  # noqa: E402
import headers  # noqa: E402
import python_names  # noqa: E402

FOLDERS = {
    "ptxbuilder/tile": "Kernels and tiles", "ptxbuilder/registers": "Register tiles", "ptxbuilder/product": "Products",
    "ptxbuilder/ir": "Values and control flow", "ptxbuilder/layout": "Layouts", "ptxbuilder/plan": "Plans", "ptxbuilder/proof": "Proof",
    "ptxbuilder/isa": "Instructions", "ptxbuilder/compile": "Compilation", "ptxbuilder": "Basics", "runtime": "Runtime",
    "runtime/emulator": "Emulator", "runtime/compile": "From kernel to launch", "kernels/gemm": "Matmul", "kernels/attention": "Attention",
    "kernels/attention_gradient": "Attention's gradient", "kernels/rows": "Rows", "kernels/call": "Calls", "kernels/family": "Families",
}
DRAWINGS = [
    ("The accumulator of wgmma, 64 rows of 8 columns",
     "Each of 128 threads holds pairs of neighbouring columns (PTX ISA, wgmma: the fragment of D).",
     ["((4,8,4),(2,2)):((128,1,16),(64,8))", "--tile", "(64,8)"]),
    ("A fragment of ldmatrix", "A lane holds two elements of 16 bits of each matrix of 8 rows.",
     ["((4,8),2):((16,1),8)", "--tile", "(8,8)"]),
    ("The 32-byte swizzle", "Rows of 16 elements of 16 bits; a colour is an offset.", ["Sw<1,4,3> o (8,16):(16,1)"]),
    ("The 64-byte swizzle", "Rows of 32 elements of 16 bits.", ["Sw<2,4,3> o (8,32):(32,1)"]),
    ("The 128-byte swizzle", "Rows of 64 elements of 16 bits, and eight rows are a pattern.", ["Sw<3,4,3> o (8,64):(64,1)"]),
    ("Blocks of a matrix", "zipped_divide puts the elements of a block into the first mode, and the blocks into the second.",
     ["zipped_divide((8,8):(8,1), <4,2>)"]),
]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read()


class Site:
    def __init__(self, source, build, folder):
        self.source, self.build, self.folder = source, build, folder
        self.reader = headers.Reader(source, f"{build}/printed")
        for name, declarations in self.reader.declarations.items():
            list(headers.undocumented(declarations, None, self.reader.files[name].introduction()))
        self.links = cpp_pages.Links(self.reader)
        tracked = subprocess.run(["git", "-C", source, "ls-files", "*.md", ".github/*.md"], capture_output=True, text=True).stdout.split()
        self.documents = {name: name.replace(".github/", "") for name in tracked
                          if "ISSUE_TEMPLATE" not in name and "/examples/" not in name}
        self.documents["README.md"] = "index.md"

    def document(self, name):
        """Copies a document, turning the names of files into links to their pages."""
        page, text = self.documents[name], read(f"{self.source}/{name}")
        folder = os.path.dirname(name)

        def target_of(path):
            for base in (folder, ""):
                known = os.path.normpath(os.path.join(base, path))
                for candidate in (known, known + "/README.md"):
                    if found := self.documents.get(candidate) or self.links.files.get(candidate):
                        return os.path.relpath(found, os.path.dirname(page) or ".")
            return None

        def in_code(match):
            found = target_of(match[1])
            return f"[`{match[1]}`]({found})" if found and found != os.path.basename(page) else match[0]

        def in_link(match):
            if re.match(r"https?:|#|mailto:", match[2]):
                return match[0]
            path, _, anchor = match[2].partition("#")
            found = target_of(path)
            return f"[{match[1]}]({found}{'#' + anchor if anchor else ''})" if found else match[1]

        parts = re.split(r"(^```.*?^```$|(?:^(?: {4}).*\n?)+)", text, flags=re.M | re.S)
        for at in range(0, len(parts), 2):
            parts[at] = re.sub(r"(?<!!)\[([^\]]+)\]\(([^)]+)\)", in_link, parts[at])
            parts[at] = re.sub(r"(?<!\[)`([\w./-]+(?:\.md|\.h|\.def|/|[a-z]))`(?!\])", in_code, parts[at])
        # mkdocs omits folders that begin with a dot. A page chooses the picture according to the page's color scheme, not the system's.
        text = re.sub(r'<picture>\s*<source [^>]*>\s*<img alt="([^"]*)" src="\.github/([\w-]+)-light\.svg">\s*</picture>',
                      r"![\1](pictures/\2-light.svg#only-light)![\1](pictures/\2-dark.svg#only-dark)", "".join(parts))
        write(f"{self.folder}/{page}", text)
        for picture in re.findall(r"\(([\w./-]+\.svg)[#)]", text):
            path = picture.replace("pictures/", ".github/")
            write(f"{self.folder}/{os.path.dirname(page)}/{picture}", read(f"{self.source}/{folder}/{path}"))

    def api(self):
        """Writes a page for each header, and returns the pages, grouped by folder."""
        pages = {}
        for name in sorted(self.reader.declarations):
            if not self.reader.declarations[name] or name.endswith(".def"):
                continue
            text = cpp_pages.cpp_page(name, self.reader, self.links, headers.without_body)
            write(f"{self.folder}/{cpp_pages.page_of(name)}", text)
            if not name.endswith("ptxb.h"):
                pages.setdefault(os.path.dirname(name), []).append({os.path.basename(name): cpp_pages.page_of(name)})
        text = ["# C++", "Programs include `<ptxbuilder/ptxbuilder.h>`, which has everything that a kernel needs; other headers are "
                "included by name. A folder includes only headers of the folders before it.\n"]
        for folder in self.folders(pages):
            text.append(f"## {FOLDERS[folder]} {{#{folder.replace('/', '-')}}}\n\n| header | |\n|---|---|")
            for entry in pages[folder]:
                (name, page), = entry.items()
                introduction = self.reader.files[f"{folder}/{name}"].introduction()
                first = re.split(r"(?<=\.) |:?\n(?:\n|  )", introduction)[0].replace("\n", " ")
                text.append(f"| [{name}]({os.path.relpath(page, 'api')}) | {cpp_pages.inline(first, self.links, 'api/index.md')} |")
            text.append("")
        write(f"{self.folder}/api/index.md", "\n".join(text))
        return pages

    def folders(self, pages):
        for folder in pages:
            if folder not in FOLDERS:
                sys.exit(f"{folder} has public headers, but no title in FOLDERS of scripts/site/pages.py")
        return [folder for folder in FOLDERS if folder in pages]

    def python(self):
        text = ["# Python", "```python\nimport ptxbuilder as pb\n```", self.words(python_names.introduction(self.source))]
        for name, (signature, docstring) in python_names.public(self.source).items():
            text += [f"## {cpp_pages.escape(name)} {{#{name}}}", f"```python\n{signature}\n```", self.words(docstring)]
        write(f"{self.folder}/api/python.md", "\n\n".join(text) + "\n")

    def words(self, docstring):
        return cpp_pages.prose(docstring, self.links, "api/python.md").replace("```cpp", "```python")

    def instructions(self):
        """Writes the instruction forms in PTX's manual by section, and the calls with short names."""
        made = subprocess.run(["g++", "-E", "-P", "-x", "c++", f"-I{self.source}", f"{self.source}/ptxbuilder/isa/manual/manual.def"],
                              capture_output=True, text=True, check=True).stdout
        title, sections, literal = None, {}, r'(?:"(?:[^"\\]|\\.)*"\s*)+'
        for kind, text, effect, version, target in re.findall(
                rf"PTX_(SECTION|FORM|NAMED_FORM)\(\s*({literal})(?:,\s*(\w+),\s*(\d+),\s*([\w+]+))?\s*\)", made):
            text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text))
            if kind == "SECTION":
                title = text
            else:
                sections.setdefault(title, []).append((text, version, target, kind))
        text = ["# Instructions of PTX",
                "Every form of the manual (PTX ISA 9.0) that ptxbuilder has as a typed call: `instruction<\"tanh.approx.f32\">(x)` of "
                "`<ptxbuilder/ir/instruction.h>`. An operand is written `{name:class}` where it is read and `{name:=class}` where it is "
                "written; ‹axis› means one of the choices below its form. A word after `#` distinguishes forms of one mnemonic, and "
                "comes last in the name: `instruction<\"elect.sync sink\">`. `ptxb isa MNEMONIC` prints an instruction in full, and "
                "`ptxb isa --find TEXT` looks for one.\n",
                "[Calls with short names](names.md)\n"]
        for title, forms in sections.items():
            text.append(f"## {title}\n\n| form | PTX | target |\n|---|---|---|")
            for pattern, version, target, _ in forms:
                text.append(f"| {self.form(pattern)} | {int(version) // 10}.{int(version) % 10} | {target.replace('+', ', ')} |")
            text.append("")
        write(f"{self.folder}/isa/index.md", "\n".join(text))
        printed = subprocess.run([f"{self.build}/bin/ptxb", "isa", "--json"], capture_output=True, text=True, check=True).stdout
        rows = json.loads(printed)
        families, by_section = {}, {}
        for row in rows:
            family = row["name"].startswith("wgmma_m64")
            if family:
                families.setdefault(re.sub(r"n\d+k", "nNk", row["name"]), []).append(row)
            else:
                by_section.setdefault(row["section"], []).append(row)
        text = ["# Calls with short names", "The instructions that kernels use most, as functions of `<ptxbuilder/ir/typed_calls.h>`.\n"]
        for section, those in by_section.items():
            text.append(f"## {section}\n\n| call | PTX | needs | emulated |\n|---|---|---|---|")
            for row in those:
                text.append(f"| `{row['example']}` | {self.cell(row['syntax'])} | PTX {row['ptx_version']}, {row['target']} | "
                            f"{'yes' if row['emulated'] else 'no'} |")
            text.append("")
        if families:
            text.append("## wgmma\n\nN is a multiple of 8 up to 256; `mma()` of `<ptxbuilder/product/mma.h>` issues them.\n\n"
                        "| call | rows |\n|---|---|")
            text += [f"| `{name}` | {len(those)} |" for name, those in sorted(families.items())]
        write(f"{self.folder}/isa/names.md", "\n".join(text) + "\n")

    def cell(self, text):
        return "`" + text.replace("|", "\\|") + "`"

    def form(self, pattern):
        """Writes an axis as its name, and its choices in a line below."""
        axes = []

        def axis(match):
            name, _, choices = match[1].partition("=")
            if choices:
                words = [re.split(r"[=@]", choice)[0] for choice in choices.lstrip("=").split("|")]
                axes.append((name, " ".join(word or "(none)" for word in words)))
            return f"‹{name}›"

        text = self.cell(re.sub(r"<([^<>]*)>", axis, pattern))
        return text + "".join(f"<br>‹{name}› {cpp_pages.escape(words)}" for name, words in axes)

    def layouts(self):
        text = ["# Layouts", "`ptxb layout EXPRESSION --svg FILE` draws a layout of CuTe's algebra; these are the most frequent ones in "
                "Hopper's kernels.\n"]
        for number, (title, words, command) in enumerate(DRAWINGS):
            picture = f"{self.folder}/layouts/{number}.svg"
            os.makedirs(os.path.dirname(picture), exist_ok=True)
            subprocess.run([f"{self.build}/bin/ptxb", "layout", *command, "--svg", picture], check=True, capture_output=True)
            quoted = " ".join(f"'{word}'" if not word.startswith("--") else word for word in command)
            text.append(f"## {title}\n\n{words}\n\n```sh\nptxb layout {quoted} --svg layout.svg\n```\n\n"
                        f"![{title}]({number}.svg){{.layout}}\n")
        write(f"{self.folder}/layouts/index.md", "\n".join(text))

    def navigation(self, pages):
        def document(title, name):
            return {title: self.documents[name]}
        readmes = [name for name in sorted(self.documents) if name.endswith("README.md") and name != "README.md"]
        return [
            {"Start": "index.md"},
            {"Guides": [document(os.path.dirname(name), name) for name in readmes] +
             [document(os.path.basename(name), name) for name in sorted(self.documents)
              if not name.endswith("README.md") and "/" in name and not name.startswith(".github")]},
            {"API": [{"Python": "api/python.md"}, {"C": cpp_pages.page_of("kernels/c/ptxb.h")},
                     {"C++": ["api/index.md"] + [{FOLDERS[f]: pages[f]} for f in self.folders(pages)]}]},
            {"Instructions": ["isa/index.md", {"Short names": "isa/names.md"}]},
            {"Layouts": "layouts/index.md"},
            {"Project": [document(title, f".github/{name}.md") for title, name in
                         (("Contributing", "CONTRIBUTING"), ("Changes", "CHANGELOG")) if f".github/{name}.md" in self.documents]},
        ]


def main(source, build, folder):
    site = Site(os.path.abspath(source), os.path.abspath(build), os.path.abspath(folder) + "/pages")
    pages = site.api()
    site.python()
    site.instructions()
    site.layouts()
    for name in site.documents:
        site.document(name)
    here = os.path.dirname(os.path.abspath(__file__))
    for name in ("style.css", "iframe-worker.js"):
        write(f"{site.folder}/{name}", read(f"{here}/{name}"))
    version = ".".join(re.findall(r"#define PTXBUILDER_VERSION_\w+ (\d+)", read(f"{source}/ptxbuilder/version.h")))
    write(f"{folder}/mkdocs.yml", json.dumps({
        "INHERIT": f"{here}/mkdocs.yml", "docs_dir": site.folder,
        "site_dir": os.path.abspath(folder) + "/html", "site_name": f"ptxbuilder {version}", "nav": site.navigation(pages)}, indent=1))
    print(f"{sum(map(len, pages.values()))} headers, {len(site.documents)} documents")


main(*sys.argv[1:])
