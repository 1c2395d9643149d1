"""Counts comments that begin as fragments, and odd connectives in comments, documents and strings, by folder. Lists new ones.

  words_test.py SOURCE                 fails if a folder has more of any kind than words.txt grants
  words_test.py SOURCE --bless         lowers the grants of words.txt to the actual numbers; raise them by hand
  words_test.py SOURCE --list FOLDER   prints every place of a folder

words.txt holds the words to search for, which may be extended by hand, and the budgets.
"""
import ast
import collections
import os
import re
import subprocess
import sys

WORDS = "tests/project/words.txt"
SLASHES = (".h", ".cpp", ".inl", ".def", ".cu", ".c")
HASHES = (".py", ".pyi", ".cmake", ".yml", ".toml", "CMakeLists.txt")
NAMES = {"fragment": "fragments", "connective": "odd connectives in comments and documents", "string": "odd connectives in strings"}
KINDS = tuple(NAMES)
LITERALS = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|'(?:[^'\\\n]|\\.)+'|"((?:[^"\\\n]|\\.)*)\"""", re.S)
Place = collections.namedtuple("Place", "kind file line text")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rules():
    """Returns the lists of words and the budgets of words.txt."""
    lists, budgets, at = {}, {}, None
    for line in read(WORDS).split("\n"):
        if line.startswith("[") and line.endswith("]"):
            at = line[1:-1]
        elif line and not line.startswith("#"):
            if at == "budgets":
                folder, *counts = line.split()
                budgets[folder] = dict(zip(KINDS, map(int, counts)))
            else:
                lists.setdefault(at, []).extend(word.strip() for word in line.split(","))
    return lists, budgets


def is_hashed(path):
    return path.endswith(HASHES) or "." not in os.path.basename(path) and read(path).startswith("#!")


def comments(path):
    """Yields each block of comments as its lines with their numbers. A comment after code is a separate block."""
    mark = r"#" if is_hashed(path) else r"//"
    block, in_c = [], False
    for number, line in enumerate(read(path).split("\n"), 1):
        if mark == "//" and (in_c or re.match(r"\s*/\*", line)):
            block.append((number, re.sub(r"^\s*(/\*|\*/?)\s?|\*/\s*$", "", line)))
            in_c = "*/" not in line
            if not in_c:
                yield True, block
                block = []
            continue
        own = re.match(rf"\s*{mark}(?!!)\s?(.*)$", line)
        if own:
            block.append((number, own[1]))
            continue
        if block:
            yield True, block
            block = []
        if mark in line and (beside := re.search(rf"[^\s\"'].*?\s{mark}\s(.*)$", line)):
            yield False, [(number, beside[1])]
    if block:
        yield True, block


def docstrings(path):
    """Yields the triple-quoted texts of a Python file."""
    text = read(path)
    for found in re.finditer(r'"""(.*?)"""', text, re.S):
        first = text.count("\n", 0, found.start()) + 1
        yield True, [(first + at, line) for at, line in enumerate(found[1].split("\n"))]


def strings(path):
    """Yields each string of several words with its first line. Adjacent literals of C++ are one string."""
    text = read(path)
    if path.endswith((".py", ".pyi")):
        nodes = list(ast.walk(ast.parse(text)))
        documents = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        found = [(node.lineno, node.value) for node in nodes
                 if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents]
    elif path.endswith(SLASHES):
        found, end = [], None
        for literal in LITERALS.finditer(text):
            if literal[2] is None:
                continue
            if end is not None and not text[end:literal.start()].strip():
                found[-1] = (found[-1][0], found[-1][1] + literal[2])
            else:
                found.append((text.count("\n", 0, literal.start()) + 1, literal[2]))
            end = literal.end()
    else:
        found = []
    yield from (one for one in found if " " in one[1])


def is_fragment(text, lists):
    """Returns whether a string begins without a subject and a verb, judging by its first words."""
    sentence = re.split(r"(?<=[.:;])(?:\s|$)", text.strip(), maxsplit=1)[0]
    if any(re.match(rf"{word}\b", sentence) for word in lists["always"]):
        return True
    return "," not in sentence and any(re.match(rf"{word}\b", sentence) for word in lists["without a comma"])


def places(path, lists):
    odd = re.compile(r"\b(" + "|".join(lists["connectives"]) + r")\b", re.I)

    def connectives(lines, kind="connective"):
        for number, line in lines:
            for found in odd.finditer(re.sub(r"`[^`]*`", "", line)):
                yield Place(kind, path, number, f"{found[0]}: {line.strip()}")

    if path.endswith(".md"):
        text, is_code = [], False
        for number, line in enumerate(read(path).split("\n"), 1):
            if line.startswith("```"):
                is_code = not is_code
            elif not is_code and not line.startswith("    "):
                text.append((number, line))
        yield from connectives(text)
        return
    yield from connectives(strings(path), "string")
    found = list(comments(path)) + (list(docstrings(path)) if path.endswith(".py") else [])
    for is_own, block in found:
        yield from connectives(block)
        text = " ".join(line for _, line in block).strip()
        if is_own and text and is_fragment(text, lists):
            yield Place("fragment", path, block[0][0], text[:100])


def folder_of(path):
    folder = os.path.dirname(path)
    if path.endswith(".md"):
        return "documents"
    parts = folder.split("/")
    depth = 3 if parts[0] == "runtime" else 2
    return "/".join(parts[:depth]) or "."


def all_places(lists):
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    by_folder, files, blocks, words = {}, 0, 0, 0
    for path in listed:
        if not os.path.isfile(path) or os.path.islink(path):
            continue
        is_text = path.endswith((".md",) + SLASHES + HASHES) or path.startswith("scripts/") and "." not in os.path.basename(path)
        if not is_text or "/fuzz/" in path or "/corpus/" in path:
            continue
        files += 1
        for is_own, block in [] if path.endswith(".md") else comments(path):
            blocks += is_own
            words += sum(len(line.split()) for _, line in block)
        if path.endswith(".md"):
            words += len(read(path).split())
        by_folder.setdefault(folder_of(path), []).extend(places(path, lists))
    if files < 400:
        sys.exit(f"only {files} files were found: the check itself is broken")
    return by_folder, blocks, words


def changed_lines():
    """Returns the lines of each file that are newer than words.txt, if git knows them."""
    commit = subprocess.run(["git", "log", "-1", "--format=%H", "--", WORDS], capture_output=True, text=True).stdout.strip()
    if not commit:
        return None
    changed, file = {}, None
    for line in subprocess.run(["git", "diff", "-U0", commit], capture_output=True, text=True).stdout.split("\n"):
        if line.startswith("+++ b/"):
            file = line[6:]
        elif found := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line):
            first = int(found[1])
            changed.setdefault(file, set()).update(range(first, first + int(found[2] or 1)))
    return changed


def bless(counts, budgets):
    text, lines = read(WORDS).split("[budgets]\n")[0], []
    for folder in sorted(counts):
        granted = budgets.get(folder, counts[folder])
        lines.append(f"{folder} " + " ".join(str(min(granted[kind], counts[folder][kind])) for kind in KINDS))
    with open(WORDS, "w", encoding="utf-8") as file:
        file.write(text + "[budgets]\n" + "\n".join(lines) + "\n")


def main(source, option=None, folder=None):
    os.chdir(source)
    if subprocess.run(["git", "rev-parse"], capture_output=True).returncode:
        print("SKIPPED: this is not a git repository, which would list the files")
        sys.exit(77)
    lists, budgets = rules()
    by_folder, blocks, words = all_places(lists)
    counts = {name: collections.Counter(dict.fromkeys(KINDS, 0)) for name in by_folder}
    for name, found in by_folder.items():
        counts[name].update(place.kind for place in found)
    if option == "--list":
        for place in by_folder[folder]:
            print(f"{place.file}:{place.line}: {place.kind}: {place.text}")
        return
    if option == "--bless":
        bless(counts, budgets)
        return
    changed, has_failed = changed_lines(), False
    for name, found in sorted(by_folder.items()):
        granted = budgets.get(name, dict.fromkeys(KINDS, 0))
        for kind in KINDS:
            if counts[name][kind] <= granted[kind]:
                continue
            has_failed = True
            print(f"{name}: {counts[name][kind]} {NAMES[kind]}, and {WORDS} grants {granted[kind]}; write sentences with a subject and "
                  "a verb, and plain connectives")
            those = [place for place in found if place.kind == kind]
            new = [place for place in those if changed and place.line in changed.get(place.file, ())] or those
            for place in new:
                print(f"  {place.file}:{place.line}: {place.text}")
    fragments, connectives, in_strings = (sum(c[kind] for c in counts.values()) for kind in KINDS)
    print(f"{fragments} of {blocks} comments begin as fragments ({100 * fragments / blocks:.1f} %); {connectives} odd connectives in "
          f"{words} words of comments and documents ({1000 * connectives / words:.1f} in 1,000), and {in_strings} in strings")
    if any(counts[name][kind] < granted for name in counts for kind, granted in budgets.get(name, {}).items()):
        print(f"{WORDS} grants more than there are; words_test.py SOURCE --bless lowers it")
    sys.exit(has_failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
