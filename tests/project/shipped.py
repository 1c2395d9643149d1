"""Helpers for tests that compare the names, the symbols and the symbol versions of shipped libraries and programs with the sources."""

import os
import re
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def said_by(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def version_numbers():
    with open(f"{TOP}/ptxbuilder/version.h") as file:
        return re.findall(r"#define PTXBUILDER_VERSION_\w+ (\d+)", file.read())


def abi_version():
    """Returns the ABI version. A minor version breaks programs while the major version is 0; later, only a major version does."""
    major, minor, _ = version_numbers()
    return f"0.{minor}" if major == "0" else major


def soname_of(path):
    found = re.search(r"SONAME.*\[(.*)\]", said_by("readelf", "-d", path))
    return found[1] if found else None


def needed_by(path):
    return set(re.findall(r"NEEDED.*\[(.*)\]", said_by("readelf", "-d", path)))


def exports_of(path):
    """Returns (name, version) of each defined symbol, where the version may be None."""
    lines = [line.split() for line in said_by("objdump", "-T", path).splitlines()]
    return {(words[-1], words[-2] if len(words) > 6 else None) for words in lines
            if len(words) >= 6 and "*UND*" not in words and "*ABS*" not in words}


def oldest_glibc():
    with open(f"{TOP}/CMakeLists.txt") as file:
        return re.search(r"^set\(oldest_glibc ([\d.]+)\)", file.read(), re.M)[1]


def newer_than_oldest_glibc(path):
    """Returns (symbol, version) of symbols that the oldest glibc lacks. The symbol is None if the file as a whole needs the version, as
    with packed relocations. A file that names no glibc at all is an error."""
    def numbers(version):  # a version in words, such as ABI_DT_RELR, is newer than any allowed one
        return [int(part) for part in version.split(".")] if re.fullmatch(r"[\d.]+", version) else [999]

    def is_newer(version):
        return numbers(version) > numbers(oldest_glibc())

    wanted = set(re.findall(r"\bGLIBC_(\S+)$", said_by("objdump", "-p", path), re.M))
    if not wanted:
        raise ValueError(f"{path} wants no version of glibc")
    symbols = re.findall(r"\(GLIBC_(\S+)\) (\w+)$", said_by("objdump", "-T", path), re.M)
    newer = [(symbol, f"GLIBC_{version}") for version, symbol in symbols if is_newer(version)]
    return newer + [(None, f"GLIBC_{version}") for version in sorted(wanted - {version for version, _ in symbols}) if is_newer(version)]


def problems_of_licenses(text_of):
    """Returns the missing licences of linked libraries. text_of("NAME.txt") returns a licence's text, or raises."""
    problems = []
    for name, words in {"LLVM": "LLVM Exceptions to the Apache 2.0 License", "CLI11": "University of Cincinnati",
                        "fmt": "Victor Zverovich", "nlohmann-json": "Niels Lohmann", "zlib": "Jean-loup Gailly",
                        "zstd": "Meta Platforms", "libstdc++": "GCC RUNTIME LIBRARY EXCEPTION"}.items():
        try:
            if words not in text_of(f"{name}.txt"):
                problems.append(f"{name}.txt does not say '{words}'")
        except (KeyError, OSError) as error:
            problems.append(f"{name}.txt: {error}")
    return problems
