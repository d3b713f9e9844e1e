"""The Python files of this repository; each is parsed once for all tests of a process."""

import ast
from functools import cache
from pathlib import Path

from tests.unit.docs.pages import ROOT

FOLDERS = sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").exists())
"""The packages at the top."""


@cache
def written_files(folder: str) -> list[Path]:
    """The files that people write: those without generated code."""
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if "_pb2" not in path.name]


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def module_of(file: Path) -> str:
    """The module of a file; that of an ``__init__`` is its package."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def classes(file: Path) -> frozenset[str]:
    """The names of all classes in a file."""
    return frozenset(node.name for node in ast.walk(tree(file)) if isinstance(node, ast.ClassDef))
