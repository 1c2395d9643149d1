"""Writes a Markdown page for each public header: its opening comment, and its declarations with their comments."""
import os
import re
import textwrap

SPECIAL = re.compile(r"([\\*_<>\[\]|#])")
CODE = re.compile(r"(`[^`]+`)")
CALL = re.compile(r"(?<![\w`])((?:[A-Za-z_][\w:.]*)\(\)|\w+::\w[\w:]*|[a-z]+_[a-z0-9_]+|--[a-z][a-z-]+)(?![\w`])")


def escape(text):
    return SPECIAL.sub(r"\\\1", text)


def installed(name):
    """Returns the name that a program uses to include a header."""
    return name if name.startswith("ptxbuilder/") else "ptxbuilder/" + ("ptxb.h" if name.endswith("ptxb.h") else name)


def page_of(name):
    return "api/" + re.sub(r"\.(h|def)$", "", name) + ".md"


class Links:
    """Finds the page that the name of a file or of a type links to. Names of one word are not linked, because they are also English
    words."""

    def __init__(self, reader):
        self.types, self.files = {}, {}
        for name, declarations in reader.declarations.items():
            self.files[name] = page_of(name)
            for d in declarations:
                if d.kind in ("class", "enum") and re.fullmatch(r"[A-Z][a-z]+[A-Z]\w*", d.name):
                    self.types[d.name] = None if d.name in self.types else f"{page_of(name)}#{d.name.lower()}"

    def to(self, target, page):
        path, _, anchor = target.partition("#")
        return os.path.relpath(path, os.path.dirname(page)) + (f"#{anchor}" if anchor else "")

    def in_words(self, text, page):
        def link(match):
            target = self.types.get(match[0])
            return f"[{match[0]}]({self.to(target, page)})" if target and target.split("#")[0] != page else match[0]
        return re.sub(r"\b[A-Z][a-z]+[A-Z]\w*\b", link, text)


def prose(text, links, page):
    """Converts a comment to Markdown. Indented lines are code."""
    out, paragraph, code = [], [], []

    def flush():
        if paragraph:
            out.append(inline(" ".join(paragraph), links, page))
            paragraph.clear()
        if code:
            out.append("```cpp\n" + textwrap.dedent("\n".join(code)).rstrip() + "\n```")
            code.clear()

    for line in text.split("\n"):
        if line.startswith("  "):
            if paragraph:
                flush()
            code.append(line)
        elif not line.strip():
            code.append("") if code else flush()
        else:
            if code:
                flush()
            paragraph.append(line.strip())
    flush()
    return "\n\n".join(part for part in out if part)


def inline(text, links, page):
    parts = []
    for part in CODE.split(text):
        if CODE.fullmatch(part):
            parts.append(part)
            continue
        for at, word in enumerate(CALL.split(part)):
            parts.append(f"`{word}`" if at % 2 else links.in_words(escape(word), page))
    return "".join(parts)


def shown(d, without_body):
    """Returns the source of a declaration without its body, but with the trailing comment."""
    text = textwrap.dedent(d.text).replace("PTXB_API ", "")
    if d.kind != "function" or re.match(r"[A-Z_]+\(", text):
        return text
    beside = re.search(r"\S\s*(//(?! *NOLINT).*)$", text.split("\n")[-1])
    return without_body(re.sub(r"\s*//.*$", "", text, flags=re.M) if "//" in text else text) + (f"  {beside[1]}" if beside else "")


def is_plain(d):
    """Returns whether a type has only values, so that its source describes it best."""
    return d.kind == "enum" or all(m.kind in ("value", "type", "enum") or m.is_special or m.name.startswith("operator") or
                                   m.kind == "class" and is_plain(m) for m in d.members)


def head_of(d):
    return textwrap.dedent(d.text).split("{")[0].rstrip() + ";"


def groups(declarations):
    """Groups declarations that share one comment."""
    made = []
    for d in declarations:
        if made and not d.comment and made[-1][-1].last >= d.first - 1 and (is_plain(d) if d.kind == "class" else True) \
                and not (made[-1][-1].kind == "class" and not is_plain(made[-1][-1])):
            made[-1].append(d)
        else:
            made.append([d])
    return made


def title_of(group):
    names = list(dict.fromkeys(re.sub(r"^operator\s*", "operator ", d.name).split("<")[0] if d.kind != "class" else d.name for d in group))
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")


def section(group, level, links, page, without_body):
    first, out = group[0], []
    out.append(f"{'#' * level} {escape(title_of(group))} {{#{anchor_of(group)}}}")
    if others := [d.name.lower() for d in group[1:] if links.types.get(d.name)]:
        out.append("".join(f'<a id="{name}"></a>' for name in others))
    is_class = first.kind == "class" and not is_plain(first) and len(group) == 1
    text = head_of(first) if is_class else "\n".join(textwrap.dedent(d.text) if d.kind in ("class", "enum") else shown(d, without_body)
                                                     for d in group)
    out.append(f"```cpp\n{text}\n```")
    if first.comment:
        out.append(prose(first.comment, links, page))
    if is_class:
        for inner in groups(first.members):
            out.append(section(inner, min(level + 1, 4), links, page, without_body))
    return "\n\n".join(out)


def anchor_of(group):
    return re.sub(r"\W+", "-", group[0].name.split("<")[0].lower()).strip("-") or "operators"


def cpp_page(name, reader, links, without_body):
    page, header = page_of(name), reader.files[name]
    out = [f"# {os.path.basename(name)}", f"```cpp\n#include <{installed(name)}>\n```", prose(header.introduction(), links, page)]
    introduction = header.introduction()
    for group in groups(reader.declarations[name]):
        if group[0].comment == introduction:
            group[0].comment = ""
        out.append(section(group, 2, links, page, without_body))
    return "\n\n".join(out) + "\n"
