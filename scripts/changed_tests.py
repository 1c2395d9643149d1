#!/usr/bin/env python3
"""Prints the names of the tests that a change of files can affect, one per line, using ninja's dependency graph.

  scripts/changed_tests.py FOLDER [COMMIT]   FOLDER is a complete build; the files are those that differ from COMMIT (HEAD)

A test depends on the programs of the build and the files that its command names, on the files that its program is built from, and on the
files that tests/CMakeLists.txt adds with ptxbuilder_reads(). There are exceptions: a test that runs a command, such as `ptxb lint`, does
not depend on the files of other commands; a test that names kernels, such as `ptxb lint kernel:saxpy`, does not depend on the files of
other kernels; and a run of one operation on rows does not depend on the files of other operations. `without:PATTERN` names files that a
test links but does not run. A file that no test depends on affects all tests, unless it is a document.
"""
import fnmatch
import functools
import json
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def printed_by(*command):
    return subprocess.run(command, cwd=TOP, check=True, stdout=subprocess.PIPE, text=True).stdout


class Graph:
    """Finds the files that each file of a build is built from, from build.ninja and, for objects, from the files that the compiler has
    read."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.made_of = {}
        with open(f"{folder}/build.ninja") as file:
            rules = file.read().replace("$\n", "")
        for outputs, inputs in re.findall(r"^build ((?:\$.|[^:$\n])+): \S+(.*)$", rules, re.M):
            # The files after ||, such as another target's precompiled header, only need to exist.
            needed = self.paths(inputs.split(" || ")[0])
            for output in self.paths(outputs):
                self.made_of.setdefault(output, set()).update(needed)
        output = None
        for line in printed_by("ninja", "-C", folder, "-t", "deps").splitlines():
            if found := re.match(r"(\S.*): #deps \d+", line):
                output = self.path(found[1])
            elif line.startswith("    "):
                self.made_of.setdefault(output, set()).add(self.path(line.strip()))
        # Files that are compiled together depend on the headers that any of them includes.
        for output, needed in list(self.made_of.items()):
            units = [path for path in needed if path.endswith(".cpp")]
            for unit in units if output.endswith(".o") else ():
                self.made_of.setdefault(unit, set()).update(needed.difference(units))

    def path(self, word):
        return os.path.normpath(os.path.join(self.folder, word))

    def paths(self, words):
        return {self.path(re.sub(r"\$(.)", r"\1", word)) for word in re.findall(r"(?:\$.|[^ $])+", words) if word != "|"}

    def sources(self, output):
        """Returns all files that an output is built from, directly and indirectly."""
        found, waiting = set(), [output]
        while waiting:
            for path in self.made_of.get(waiting.pop(), ()):
                if path not in found:
                    found.add(path)
                    waiting.append(path)
        return found

    @functools.cached_property
    def kernels(self):
        """Returns the files that each kernel's own executable is built from, indexed by the kernel's name."""
        names = {found[1] for path in self.made_of if (found := re.search(r"/CMakeFiles/kernel_(\w+)\.dir/", path))}
        return {name: self.sources(self.path(f"bin/{name}")) for name in names}


def other_commands(words, sources):
    """Returns the sources of a program that implement commands other than the one that its first argument names."""
    folder, said = f"{TOP}/kernels/command", words[1].replace("-", "_") if len(words) > 1 else ""
    names = {path: re.sub(r"(_command)?\.cpp$", "", os.path.basename(path))
             for path in sources if os.path.dirname(path) == folder and path.endswith(".cpp")}
    others = {path for path, name in names.items()
              if name not in ("main", "kernel", "ptxb", said) and not name.startswith(said + "_")}
    return others if said in names.values() else set()


def other_kernels(graph, words):
    """Returns the files of kernels that a test does not run, because its arguments name others: KERNEL after a command, or
    kernel:KERNEL."""
    named = {word.split()[0].removeprefix("kernel:") for word in words if word.startswith("kernel:")}
    named |= {word for word in words[2:3] if word in graph.kernels}
    if unknown := named - set(graph.kernels) - {"none"}:
        sys.exit(f"changed_tests: kernel:{' kernel:'.join(sorted(unknown))}: there is no such kernel")
    files = {path for name in graph.kernels.keys() - named for path in graph.kernels[name]} if named else set()
    run = [graph.kernels[name] for name in named - {"none"}]
    return files.difference(*(run or [set.intersection(*graph.kernels.values())]))


def other_operations(words, sources):
    """Returns the files of operations on rows that a test of one of them, `rows run OPERATION`, does not run."""
    if os.path.basename(words[0]) != "rows" or words[1:2] != ["run"]:
        return set()
    others = set()
    for path in sources:
        if os.path.dirname(path) == f"{TOP}/kernels/rows" and path.endswith(".cpp"):
            with open(path) as file:
                defined = re.findall(r"^RowOperation (\w+)\(\) {", file.read(), re.M)
            if defined and not {words[2], "row_sums"} & set(defined):  # row_sums runs after other operations
                others.add(path)
    return others


def reads_of(graph, test, said):
    """Returns the files, folders and patterns that a test depends on."""
    alone = graph.path(f"bin/{test['name']}")
    more = said.get(test["name"], [])
    unused = [os.path.join(TOP, word.removeprefix("without:")) for word in more if word.startswith("without:")]
    words = [*test["command"], *(word if word.startswith("kernel:") else os.path.join(TOP, word)
                                 for word in more if not word.startswith("without:"))]
    outputs = {alone} if alone in graph.made_of else {word for word in words[:1] if word in graph.made_of}
    outputs |= {word for word in words[1:] if word in graph.made_of}
    found = {word for word in words if word.startswith(TOP + "/") and word not in (TOP, graph.folder) and word not in outputs}
    found |= {word for word in words if "*" in word}
    for output in outputs:
        found |= graph.sources(output)
    found -= other_commands(test["command"], found) | other_operations(test["command"], found) | other_kernels(graph, words)
    return {path for path in found if not any(fnmatch.fnmatch(path, pattern) for pattern in unused)}


def affects(path, reads):
    return any(path == read or path.startswith(read + "/") or ("*" in read and fnmatch.fnmatch(path, read))
               for read in reads)


def reads_of_all(folder):
    """Returns the files, folders and patterns that each test of a build depends on, indexed by the test's name."""
    with open(f"{folder}/tests/reads.json") as file:
        said = json.load(file)
    graph = Graph(folder)
    tests = json.loads(printed_by("ctest", "--test-dir", folder, "--show-only=json-v1"))["tests"]
    return {test["name"]: reads_of(graph, test, said) for test in tests}


def main(folder, commit="HEAD"):
    changed = printed_by("git", "diff", "--name-only", commit).split("\n")
    changed += printed_by("git", "ls-files", "--others", "--exclude-standard").split("\n")
    changed = {os.path.join(TOP, name) for name in changed if name}
    reads = reads_of_all(folder)
    affected = {name for name, read in reads.items() if any(affects(path, read) for path in changed)}
    unknown = {path for path in changed if not path.endswith(".md") and not any(affects(path, read) for read in reads.values())}
    if unknown:
        print(f"all tests, since no test is known to depend on {', '.join(sorted(os.path.relpath(path, TOP) for path in unknown))}",
              file=sys.stderr)
        affected = set(reads)
    print("\n".join(sorted(affected)))


if __name__ == "__main__":
    if len(sys.argv) < 2 or "--help" in sys.argv:
        print(__doc__.strip())
        sys.exit(0 if "--help" in sys.argv else 2)
    main(*sys.argv[1:])
