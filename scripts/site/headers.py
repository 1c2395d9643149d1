"""Reads the public headers with libclang: their declarations, as written, and the comments that document them.

  headers.py SOURCE PRINTED   names each public declaration without a comment, and fails if there is one. PRINTED holds the headers that the
  build prints, such as build/release/printed

A comment documents a declaration if it ends on the line above the declaration or begins on the declaration's last line. It also documents
the declarations that follow without a blank line or another comment. Names of a namespace `detail`, and private and protected members, are
not public.
"""
import dataclasses
import os
import re
import sys

import python_names

sys.path.append("/usr/lib/python3/dist-packages")  # lets a Python other than Debian's use this module, too
try:
    from clang import cindex
    from clang.cindex import CursorKind as Kind
except ImportError:
    cindex = None

LLVM = "22"
INCLUDE = re.compile(r'^#include "([^"]*)"', re.M)
INSTALLED = "scripts/cmake/install.cmake"


@dataclasses.dataclass
class Declaration:
    kind: str       # class, enum, function, value, type, macro or concept
    name: str
    file: str
    first: int      # lines of the whole declaration, counted from 1
    last: int
    text: str       # the source without a body
    comment: str    # the comment without its slashes
    documented: bool
    members: list = dataclasses.field(default_factory=list)
    is_special: bool = False  # a constructor, a destructor or an assignment
    is_getter: bool = False   # a const function without parameters


def roots_of(source):
    """Returns the installed headers that no other installed header includes."""
    with open(f"{source}/{INSTALLED}") as file:
        calls = re.findall(r"^ptxbuilder_component\((.*?)\)$", file.read(), re.M | re.S)
    lists = [re.search(r"HEADERS (.*?)(?:LINK|$)", call, re.S) for call in calls]
    return [name for words in lists if words for name in words[1].split()]


def public_headers(source, printed):
    """Returns every header that the installed headers include, directly or indirectly: its path relative to the top of the project, and its
    path in the file system."""
    waiting, reached = roots_of(source) + ["kernels/c/ptxb.h"], {}
    while waiting:
        name = waiting.pop(0)
        path = f"{source}/{name}" if os.path.exists(f"{source}/{name}") else f"{printed}/{name}"
        if name in reached:
            continue
        if not os.path.exists(path):
            sys.exit(f"{name}: the build has not written it; run ninja -C build/release ptxbuilder first")
        reached[name] = path
        with open(path) as file:
            waiting += INCLUDE.findall(file.read())
    return reached


KINDS = {} if not cindex else {
    Kind.CLASS_DECL: "class", Kind.STRUCT_DECL: "class", Kind.CLASS_TEMPLATE: "class", Kind.UNION_DECL: "class",
    Kind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION: "class", Kind.ENUM_DECL: "enum", Kind.FUNCTION_DECL: "function",
    Kind.FUNCTION_TEMPLATE: "function", Kind.CXX_METHOD: "function", Kind.CONSTRUCTOR: "function", Kind.DESTRUCTOR: "function",
    Kind.CONVERSION_FUNCTION: "function", Kind.VAR_DECL: "value", Kind.FIELD_DECL: "value", Kind.TYPEDEF_DECL: "type",
    Kind.TYPE_ALIAS_DECL: "type", Kind.TYPE_ALIAS_TEMPLATE_DECL: "type", Kind.CONCEPT_DECL: "concept",
    Kind.ENUM_CONSTANT_DECL: "value",
}


def comment_text(lines):
    """Removes the slashes or stars from the lines of a comment."""
    text = "\n".join(lines).strip()
    if text.startswith("/*"):
        text = re.sub(r"\s*\*/$", "", text[2:])
        return "\n".join(re.sub(r"^\s*\* ?", "", line) if at else line.lstrip("* ") for at, line in enumerate(text.split("\n")))
    return "\n".join(re.sub(r"^\s*// ?", "", line) for line in text.split("\n"))


class Header:
    """Holds the lines of a header, and finds the comments of its declarations."""

    def __init__(self, path):
        with open(path) as file:
            self.lines = file.read().split("\n")

    def comment_above(self, line):
        """Returns the comment that ends on the line before `line`."""
        above = []
        at = line - 2
        if at >= 0 and re.match(r"\s*class \w+;$", self.lines[at]):  # skips forward declarations between the comment and the declaration
            at -= 1
        if at >= 0 and self.lines[at].rstrip().endswith("*/") and self.lines[at].lstrip().startswith(("/*", "*")):
            while at >= 0 and not self.lines[at].lstrip().startswith("/*"):
                above.insert(0, self.lines[at])
                at -= 1
            above.insert(0, self.lines[at])
        while not above[:1] or not above[0].lstrip().startswith("/*"):
            if at < 0 or not self.lines[at].lstrip().startswith("//"):
                break
            above.insert(0, self.lines[at])
            at -= 1
        return comment_text(above) if above else ""

    def comment_beside(self, first, last):
        """Returns whether a comment follows code on one of these lines."""
        return any(re.search(r"\S.*(//(?! *NOLINT)|/\*)", line) for line in self.lines[first - 1:last])

    def introduction(self):
        """Returns the comment that opens the file."""
        end = 0
        if self.lines[0].startswith("/*"):
            while not self.lines[end].rstrip().endswith("*/"):
                end += 1
            end += 1
        while end < len(self.lines) and self.lines[end].startswith("//"):
            end += 1
        return comment_text(self.lines[:end]) if end else ""


def end_of(lines, first, last):
    """Returns the last line of a body that libclang has skipped, or `last` if there is none."""
    indent = re.match(" *", lines[first - 1])[0]
    if not lines[last - 1].rstrip().split("  //")[0].endswith(("{", ":", ",", ")")):
        return last
    for at in range(last, len(lines)):
        if lines[at].startswith(indent + "}") or re.match(r"\S", lines[at]) and lines[at].endswith("}"):
            return at + 1
        if not lines[at].startswith(indent + "  ") and lines[at].strip():
            break
    return last


def without_body(text):
    """Removes the body of a function, or a constructor's list of members and its body."""
    depth = 0
    for at, letter in enumerate(text):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "{" and depth == 0:
            text = text[:at].rstrip()
            break
    text = re.sub(r"\)((?: const| noexcept)*)\s*:\s+\w.*$", r")\1", text, flags=re.S)
    return text.rstrip(" ;") + ";"


class Reader:
    def __init__(self, source, printed):
        self.source, self.headers = source, public_headers(source, printed)
        self.names = {os.path.realpath(path): name for name, path in self.headers.items()}
        self.files = {name: Header(path) for name, path in self.headers.items()}
        flags = [f"-I{source}", f"-I{printed}", f"-I/usr/lib/llvm-{LLVM}/include", "-w"]
        self.declarations = {}
        for names, language in (([n for n in self.headers if n.endswith(".h") and n != "kernels/c/ptxb.h"], ["-xc++", "-std=c++20"]),
                                (["kernels/c/ptxb.h"], ["-xc"])):
            text = "".join(f'#include "{name}"\n' for name in names)
            unit = cindex.Index.create().parse("all.h", language + flags, [("all.h", text)],
                                               cindex.TranslationUnit.PARSE_SKIP_FUNCTION_BODIES)
            for fault in unit.diagnostics:
                if fault.severity >= cindex.Diagnostic.Error:
                    sys.exit(f"libclang cannot read the public headers: {fault}")
            self.read(unit.cursor, self.declarations.setdefault)
        for name in [name for name, path in self.headers.items() if path != f"{source}/{name}"]:
            self.declarations.pop(name, None)  # `ptxb isa` describes the printed rows
        for name in self.declarations:
            self.declarations[name] = self.document(self.files[name], self.declarations[name])

    def name_of(self, cursor):
        place = cursor.location.file
        return place and self.names.get(os.path.realpath(place.name))

    def read(self, scope, where):
        for cursor in scope.get_children():
            name = self.name_of(cursor)
            if name is None:
                continue
            if cursor.kind in (Kind.NAMESPACE, Kind.LINKAGE_SPEC):
                if cursor.spelling not in ("detail", "rows_def") and not cursor.spelling.startswith("(anonymous"):
                    self.read(cursor, where)
            elif made := self.declaration(cursor, name):
                where(name, []).append(made)

    def declaration(self, cursor, file):
        is_friend = cursor.kind == Kind.FRIEND_DECL
        if is_friend:
            inner = [child for child in cursor.get_children() if child.kind in (Kind.FUNCTION_DECL, Kind.FUNCTION_TEMPLATE)]
            if not inner or not inner[0].is_definition() and not inner[0].spelling.startswith("operator"):
                return None
            cursor_in = inner[0]
        else:
            cursor_in = cursor
        kind = KINDS.get(cursor_in.kind)
        is_hidden = cursor.access_specifier.name in ("PRIVATE", "PROTECTED") and not is_friend
        if kind is None or is_hidden or cursor.spelling.startswith("<deduction guide"):
            return None
        if not is_friend and cursor.semantic_parent != cursor.lexical_parent:
            return None
        if kind == "class" and not cursor.is_definition():
            definition = cursor.get_definition()
            if definition and self.name_of(definition) or not definition and not file.endswith("ptxb.h"):
                return None
        first, last = cursor.extent.start.line, cursor.extent.end.line
        lines = self.files[file].lines
        while first > 1 and re.match(r"\s*template <|\s*requires ", lines[first - 2]):
            first -= 1
        if kind == "function":
            last = end_of(lines, first, last)
        text = "\n".join(lines[first - 1:last])
        made = Declaration(kind, cursor_in.spelling, file, first, last, text, "", False)
        made.is_special = (cursor_in.kind in (Kind.CONSTRUCTOR, Kind.DESTRUCTOR) or
                           made.name.split("<")[0] == cursor.semantic_parent.spelling)
        made.is_getter = made.kind == "function" and re.search(r"\(\) (const|&&)", text) is not None
        if kind == "class":
            made.members = [m for child in cursor.get_children() if (m := self.declaration(child, self.name_of(child) or file))
                            and self.name_of(child) == file]
        return made

    def document(self, header, declarations):
        """Returns each declaration with its comment, in the order of the file. Declarations from one macro count as one."""
        declarations = sorted({(d.first, d.last): d for d in reversed(declarations)}.values(), key=lambda d: (d.first, -d.last))
        before = None
        for d in declarations:
            d.comment = header.comment_above(d.first)
            beside = d.kind not in ("class", "enum") and header.comment_beside(d.first, d.last)
            follows = before is not None and before.last >= d.first - 1 and before.documented and not d.comment
            d.documented = bool(d.comment) or beside or follows
            d.members = self.document(header, d.members)
            before = d
        return declarations


def undocumented(declarations, owner=None, introduction=""):
    """Returns the undocumented names. The comment that opens a file documents the names in it. The comment of a class covers its fields,
    constants, special members, getters and type aliases. The comment of a function covers its overloads. Operators need no comment, because
    they have their usual meaning in C++."""
    overloads = {d.name for d in declarations if d.documented and d.kind in ("function", "class", "type")}
    for d in declarations:
        named = owner is None and re.search(rf"\b{re.escape(d.name)}\b", introduction)
        by_owner = owner is not None and owner.documented and (d.is_special or d.is_getter or d.kind in ("value", "type"))
        d.documented = bool(d.documented or named or by_owner or d.name in overloads or d.name.startswith("operator"))
        if not d.documented:
            yield d
        yield from undocumented(d.members, d)


def main(source, printed):
    if not cindex:
        print(f"SKIPPED: libclang for Python is missing; scripts/setup installs it as python3-clang-{LLVM}")
        sys.exit(77)
    reader, faults = Reader(os.path.abspath(source), os.path.abspath(printed)), 0
    for name, declarations in sorted(reader.declarations.items()):
        for d in undocumented(declarations, None, reader.files[name].introduction()):
            faults += 1
            print(f"{name}:{d.first}: {d.kind} {d.name} is public, and no comment says what it is; write one above it")
    for name, (_, docstring) in python_names.public(source).items():
        if not docstring:
            faults += 1
            print(f"{python_names.FOLDER}: {name} of __init__.pyi has no docstring where it is defined")
    found = sum(map(len, reader.declarations.values()))
    if found < 800:
        sys.exit(f"only {found} declarations were found: the check itself is broken")
    print(f"{found} declarations in {len(reader.declarations)} headers, {faults} names without a comment")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
