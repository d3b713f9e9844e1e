"""What the docstrings of modules say about imports is so.

Imports are read by grimp, also those inside functions. CONTRIBUTING.md has the rules.
"""

import ast
from copy import deepcopy
from functools import cache

import grimp
import pytest

from tests.unit.docs.docstrings import (
    PACKAGES,
    docstrings,
    homes,
    imports_against_the_map,
    imports_outside_the_home,
    impure_calls,
    impure_imports,
    layers_of,
    loosely_pure,
    packages_with_map,
    sources,
    wrong_map,
)

TREES = sources()
DOCS = docstrings(TREES)
INSIDE = packages_with_map(DOCS)


@cache
def imports() -> grimp.ImportGraph:
    """The imports of today; not to be changed. Only a process that runs one of these tests reads them."""
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


def test_pure_is_written_in_the_way_that_is_checked() -> None:
    assert not loosely_pure(DOCS)


def test_a_pure_module_reaches_no_library_that_does_io_or_reads_a_clock() -> None:
    assert not impure_imports(imports(), DOCS)


def test_a_pure_module_calls_nothing_that_does_io_or_reads_a_clock() -> None:
    assert not impure_calls(TREES, DOCS)


def test_a_library_has_one_home_at_most() -> None:
    libraries = [library for library, _ in homes(DOCS)]
    assert len(libraries) == len(set(libraries)), homes(DOCS)


def test_a_library_is_imported_in_its_only_home_alone() -> None:
    assert not imports_outside_the_home(imports(), DOCS)


@pytest.mark.parametrize("package", sorted(INSIDE))
def test_the_map_of_a_package_has_each_of_its_modules_once(package: str) -> None:
    wrong = wrong_map(DOCS[package], INSIDE[package])
    assert not wrong, f"the map in the docstring of {package}: missing, twice or without a module: {wrong}"


@pytest.mark.parametrize("package", sorted(INSIDE))
def test_imports_inside_a_package_go_down_its_map(package: str) -> None:
    assert not imports_against_the_map(imports(), DOCS, package)


# Each check finds what it is for: the imports of today and one more.


def with_import(importer: str, imported: str) -> grimp.ImportGraph:
    graph = deepcopy(imports())
    if imported not in graph.modules:
        graph.add_module(imported, is_squashed=True)
    graph.add_import(importer=importer, imported=imported)
    return graph


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("kubeletplugin.hardware.remembered_cards", "pynvml"),
        ("kubeletplugin.inventory", "pynvml"),
        ("driver.settings", "structlog"),
        ("controller.election", "kubernetes"),
        ("memoryapi.server", "msgspec"),
        ("cli.tables", "prometheus_client"),
    ],
)
def test_an_import_outside_the_home_of_a_library_is_found(importer: str, imported: str) -> None:
    assert [fault.split(",")[0] for fault in imports_outside_the_home(with_import(importer, imported), DOCS)] == [
        f"{importer} imports {imported}"
    ]


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("controller.state.versions", "time"),
        ("controller.state.versions", "random"),
        ("controller.waiting.held", "os"),
        ("controller.allocation.fleet", "threading"),  # its package says it
        ("driver.wire.fields", "requests"),
        ("driver.kube.reflector", "time"),  # says nothing, and pure modules import it
    ],
)
def test_an_impure_import_of_a_pure_module_is_found(importer: str, imported: str) -> None:
    assert [fault.split(":")[0] for fault in impure_imports(with_import(importer, imported), DOCS)] == [
        f"{importer} imports {imported}"
    ]


@pytest.mark.parametrize("call", ["open('x')", "datetime.now()", "print(1)"])
def test_an_impure_call_of_a_pure_module_is_found(call: str) -> None:
    assert impure_calls({"a.b": ast.parse(call)}, {"a": "What is pure. Pure.", "a.b": ""})


@pytest.mark.parametrize(
    ("package", "importer", "imported"),
    [
        ("controller.state", "controller.state.pods", "controller.state.state"),
        ("kubeletplugin.hardware", "kubeletplugin.hardware.ascend.cards", "kubeletplugin.hardware.nvidia.schemes"),
        ("kubeletplugin", "kubeletplugin.prepare.plan", "kubeletplugin.publish.slices"),
    ],
)
def test_an_import_against_the_map_is_found(package: str, importer: str, imported: str) -> None:
    assert imports_against_the_map(with_import(importer, imported), DOCS, package)


def test_a_map_is_read_line_by_line() -> None:
    doc = "The package. Pure.\n\ntop      what it is\n| aside  the same\nbelow    text\n"
    assert layers_of(doc) == [["top", "aside"], ["below"]]
    assert wrong_map(doc, {"top", "below", "new"}) == ["aside", "new"]


@pytest.mark.parametrize("text", ["Pure: no I/O.", "deciding (pure)", "Pure, without state.", "It is pure"])
def test_pure_written_otherwise_is_found(text: str) -> None:
    assert loosely_pure({"a": text})
