"""Calls name their arguments, and the formatter formats every table."""

import ast
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from tests.unit.docs.docstrings import PRODUCT, sources
from tests.unit.docs.pages import ROOT

MOST_POSITIONAL = 5
"""Arguments without names that a reader can keep apart. Ruff's PLR0913 bounds the parameters of functions."""
TREES = {
    module: tree
    for module, tree in sources().items()
    if module.partition(".")[0] in PRODUCT and not module.startswith("kubeletplugin.proto")
}


def variadic(trees: Iterable[ast.Module]) -> frozenset[str]:
    """Names of functions that take any number of arguments, such as those that pass them to C: these have no names."""
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return frozenset(function.name for function in functions if function.args.vararg)


def unnamed(call: ast.Call) -> int:
    return sum(not isinstance(argument, ast.Starred) for argument in call.args)


def long_calls(tree: ast.Module, any_number: Collection[str] = ()) -> list[str]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and unnamed(node) > MOST_POSITIONAL)
    named = [(call, ast.unparse(call.func)) for call in calls]
    return [
        f"line {call.lineno}: {name} with {unnamed(call)} arguments"
        for call, name in named
        if name.rpartition(".")[2] not in any_number
    ]


def test_a_call_with_six_arguments_names_them() -> None:
    any_number = variadic(TREES.values())
    assert not {module: calls for module, tree in TREES.items() if (calls := long_calls(tree, any_number))}


def test_a_call_with_six_arguments_without_names_is_found() -> None:
    assert long_calls(ast.parse("f(1, 2, 3, 4, 5, *rest, last=6)")) == []
    assert long_calls(ast.parse("a.f(1, 2, 3, 4, 5, 6)")) == ["line 1: a.f with 6 arguments"]


@pytest.mark.parametrize("folder", sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()))
def test_the_formatter_formats_everything(folder: str) -> None:
    switches = tuple(f"# fmt: {word}" for word in ("skip", "off"))
    files: list[Path] = [file for file in (ROOT / folder).rglob("*.py") if "proto" not in file.parts]
    assert not [str(file.relative_to(ROOT)) for file in files if any(switch in file.read_text() for switch in switches)]
