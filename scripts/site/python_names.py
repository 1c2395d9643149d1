"""Reads the public interface of the Python package: signatures from __init__.pyi, and docstrings from the definitions."""
import ast
import os
import re

FOLDER = "kernels/python/ptxbuilder"


def read(path):
    with open(path) as file:
        return file.read()


def introduction(source):
    return ast.get_docstring(ast.parse(read(f"{source}/{FOLDER}/__init__.py")), clean=False)


def docstrings(source):
    found = {}
    for top, _, names in sorted(os.walk(f"{source}/{FOLDER}")):
        for name in sorted(names):
            if not name.endswith(".py"):
                continue
            for node in ast.walk(ast.parse(read(f"{top}/{name}"))):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (text := ast.get_docstring(node, clean=False)):
                    found.setdefault(node.name, re.sub(rf"^ {{{node.col_offset + 4}}}", "", text, flags=re.M))
    return found


def public(source):
    """Returns each public name with the source of its signatures, and its docstring, which may be empty."""
    stub, documented, signatures = read(f"{source}/{FOLDER}/__init__.pyi"), docstrings(source), {}
    lines = stub.split("\n")
    activations = re.findall(r'"(\w+)"', re.search(r"^Activation = (.*)$", stub, re.M)[1])
    for node in ast.parse(stub).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            first = min([d.lineno for d in node.decorator_list] + [node.lineno])
            signatures.setdefault(node.name, []).append("\n".join(lines[first - 1:node.end_lineno]))
    return {name: ("\n".join(those), documented.get(name, "").replace("{activations}", ", ".join(activations)))
            for name, those in signatures.items()}
