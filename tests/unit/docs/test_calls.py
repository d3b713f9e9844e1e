"""Calls name their arguments, and the formatter formats every table."""

import ast
from collections.abc import Collection, Iterable

import pytest

from tests.unit.docs.docstrings import PRODUCT
from tests.unit.docs.pages import ROOT
from tests.unit.docs.source_files import FOLDERS, module_of, tree, written_files

MOST_POSITIONAL = 5
"""Arguments without names that a reader can keep apart. Ruff's PLR0913 bounds the parameters of functions."""


def variadic(trees: Iterable[ast.Module]) -> frozenset[str]:
    """Names of functions that take any number of arguments, such as those that pass them to C: these have no names."""
    functions = (node for parsed in trees for node in ast.walk(parsed) if isinstance(node, ast.FunctionDef))
    return frozenset(function.name for function in functions if function.args.vararg)


def unnamed(call: ast.Call) -> int:
    return sum(not isinstance(argument, ast.Starred) for argument in call.args)


def long_calls(parsed: ast.Module, any_number: Collection[str] = ()) -> list[str]:
    calls = (node for node in ast.walk(parsed) if isinstance(node, ast.Call) and unnamed(node) > MOST_POSITIONAL)
    named = [(call, ast.unparse(call.func)) for call in calls]
    return [
        f"line {call.lineno}: {name} with {unnamed(call)} arguments"
        for call, name in named
        if name.rpartition(".")[2] not in any_number
    ]


def test_a_call_with_six_arguments_names_them() -> None:
    trees = {module_of(file): tree(file) for package in PRODUCT for file in written_files(package)}
    any_number = variadic(trees.values())
    assert not {module: calls for module, parsed in trees.items() if (calls := long_calls(parsed, any_number))}


def test_a_call_with_six_arguments_without_names_is_found() -> None:
    assert long_calls(ast.parse("f(1, 2, 3, 4, 5, *rest, last=6)")) == []
    assert long_calls(ast.parse("a.f(1, 2, 3, 4, 5, 6)")) == ["line 1: a.f with 6 arguments"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_formatter_formats_everything(folder: str) -> None:
    switches = tuple(f"# fmt: {word}" for word in ("skip", "off"))
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in written_files(folder)}
    assert not [name for name, text in texts.items() if any(switch in text for switch in switches)]
