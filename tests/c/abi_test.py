"""Compares the binary interface of ptxb.h with kernels/c/abi.txt. An ABI version may only add to that list: abi_test.py HEADER CC [--bless]

The list has functions, values, and the offsets of structs' fields. ptxb_exports compares the exports of libptxbuilder.so with the header.
--bless writes additions, or the whole list if ptxbuilder/version.h has a new ABI version.
"""

import os
import re
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../project"))
import shipped

header, cc = sys.argv[1:3]
LIST = f"{os.path.dirname(os.path.abspath(header))}/abi.txt"


def plain(text):
    """Returns the text without comments, with a single blank for each sequence of blanks and line ends."""
    return re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.S)).strip()


def fields_of(body):
    """Yields the name and type of each field in the body of a struct; text in braces is the type of the name after it."""
    for declaration in re.findall(r"((?:[^;{]|\{[^}]*\})+);", body):
        base, first, *others = re.fullmatch(r"\s*(.*?[\s}])((?:\*\s*)*\w+(?:\[\w+\])?)((?:\s*,[^,{}]+)*)\s*", declaration, re.S).groups()
        for declarator in [first, *others[0].split(",")[1:]]:
            stars, name, array = re.fullmatch(r"\s*([*\s]*)(\w+)(.*)", declarator).groups()
            yield name, plain(base) + stars.strip() + array


def measured(expressions):
    """Returns the values of the expressions, in order, according to the compiler."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/abi.c", "w") as file:
            lines = "".join(f'  printf("%lld\\n", (long long)({x}));\n' for x in expressions)
            file.write(f'#include "{os.path.abspath(header)}"\n#include <stdio.h>\nint main(void) {{\n{lines}  return 0;\n}}\n')
        subprocess.run([cc, f"{folder}/abi.c", "-o", f"{folder}/abi"], check=True)
        return [int(line) for line in subprocess.run([f"{folder}/abi"], check=True, capture_output=True, text=True).stdout.split()]


def interface():
    """Returns a dictionary from the subject of each line of the list to the line's description."""
    with open(header) as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    found = {}
    for declaration in re.findall(r"^PTXB_API (.*?);", text, re.S | re.M):
        # Names of parameters may change.
        found[re.search(r"(\w+)\(", declaration)[1] + "()"] = re.sub(r"(?<=[\w*]) \w+(?=(\[\d+\])?[,)])", "", plain(declaration))
    asked = []  # the subject, the expressions and the form of each line
    for body in re.findall(r"typedef enum \w+ \{(.*?)\}", text, re.S):
        asked += [(name, [name], "{}") for name in re.findall(r"(\w+) =", body)]
    for body, struct in re.findall(r"typedef struct \w+ \{(.*?)\n\} (\w+);", text, re.S):
        grows = ", and may grow" if next(fields_of(body)) == ("size", "size_t") else ""
        asked.append((struct, [f"sizeof({struct})"], f"{{}} bytes{grows}"))
        asked += [(f"{struct}.{name}", [f"offsetof({struct}, {name})", f"sizeof((({struct}*)0)->{name})"], f"from {{}} on, {{}} bytes: "
                                                                                  f"{type}"
                   .replace("{ ", "{{ ").replace(" }", " }}")) for name, type in fields_of(body)]
    values = iter(measured([x for _, expressions, _ in asked for x in expressions]))
    for about, expressions, form in asked:
        found[about] = form.format(*(next(values) for _ in expressions))
    return found


def written():
    with open(LIST) as file:
        version, *lines = file.read().splitlines()
    return version, dict(line.split("  ", 1) for line in lines)


def number(text):
    return int(re.search(r"\d+", text)[0])


def breaks(before, now):
    """Returns the changes that break programs that were built with the list's header."""
    for about, said in before.items():
        grown = "may grow" in said and "may grow" in now.get(about, "") and number(now[about]) >= number(said)
        if now.get(about) != said and not grown:
            yield f"{about} was: {said}\n  and is: {now.get(about, 'not there')}"
    for about in now.keys() - before.keys():
        struct = about.split(".")[0]
        if struct in before and number(now[about]) < number(before[struct]):
            yield f"{about} is within the {number(before[struct])} bytes that {struct} had, where older programs have anything"


version, now = f"PTXBUILDER_{shipped.abi_version()}", interface()
if len(now) < 100:
    sys.exit(f"{header} has {len(now)} functions, values and fields")
before_version, before = written() if os.path.exists(LIST) else ("nothing", {})
broken = sorted(breaks(before, now)) if version == before_version else []
if broken:
    print("\n".join(broken))
    sys.exit(f"This breaks programs that were built with {version}: leave it as it was and add next to it (kernels/c/README.md), or raise "
             "PTXBUILDER_VERSION_MINOR, from 1.0 on PTXBUILDER_VERSION_MAJOR, in ptxbuilder/version.h, with which libptxbuilder.so and "
             "its symbols get another version.")
if sys.argv[3:] == ["--bless"]:
    with open(LIST, "w") as file:
        file.write("".join(f"{line}\n" for line in [version, *(f"{about}  {said}" for about, said in now.items())]))
elif (version, now) != (before_version, before):
    print("\n".join(f"{about}: {said}" for about, said in now.items() if before.get(about) != said))
    sys.exit(f"{LIST} is of {before_version} and lacks this: nothing of {version} breaks; write it down by\n"
             f"  {sys.executable} {os.path.relpath(__file__)} {os.path.relpath(header)} {cc} --bless")
print(f"{version}: {len(now)} functions, values and fields")
