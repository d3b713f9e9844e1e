"""What docstrings of modules say about imports: "Pure.", "Only home of ``library``.", and the maps of packages.

CONTRIBUTING.md says what each of them means. The functions here compare them with the imports. Each returns the faults
as sentences; without any, what the docstrings say holds.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Set

import grimp

from tests.unit.docs.pages import ROOT
from tests.unit.docs.source_files import module_of, tree

Docs = Mapping[str, str]
"""Module to its docstring; the module of a package is its ``__init__``."""

PRODUCT = ("driver", "controller", "kubeletplugin", "memoryapi", "simulation", "cli")
PACKAGES = (*PRODUCT, "testclusters", "charts", "docsite")
GENERATED = "kubeletplugin.proto"

_PURE = re.compile(r"(?<!\S)Pure\.(?!\S)")
_ALMOST_PURE = re.compile(r"\bpure\b", re.IGNORECASE)
_HOME = re.compile(r"Only home of ((?:``\w+``(?:, | and )?)+)")
_MAP_LINE = re.compile(r"^(\| )?(\w+) {2,}\S", re.MULTILINE)

LIBRARIES_OF_PURE_MODULES = {
    *(
        "abc",
        "bisect",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "fnmatch",
    ),
    *("fractions", "functools", "graphlib", "hashlib", "heapq", "ipaddress", "itertools", "json", "math", "operator"),
    *("posixpath", "re", "string", "types", "typing", "uuid", "weakref", "zlib", "zoneinfo"),
    *("msgspec", "pydantic", "pydantic_core", "re2"),
}
"""What a pure module can import besides modules of this repository: nothing here does I/O by being imported."""
_IMPURE_CALLS = {
    *("open", "input", "print", "datetime.now", "datetime.today", "datetime.utcnow", "date.today"),
    *("uuid.uuid1", "uuid.uuid4"),
}
"""What the libraries of pure modules and builtins have that a pure module must not call."""


def sources() -> dict[str, ast.Module]:
    """Module to its syntax tree."""
    return {module_of(file): tree(file) for package in PACKAGES for file in (ROOT / package).rglob("*.py")}


def docstrings(trees: Mapping[str, ast.Module]) -> Docs:
    return {module: ast.get_docstring(tree) or "" for module, tree in trees.items()}


def lineage(module: str) -> Iterator[str]:
    """The module, its package, the package of that, and so on."""
    while module:
        yield module
        module = module.rpartition(".")[0]


def is_pure(module: str, docs: Docs) -> bool:
    """Whether its own docstring or that of a package around it says "Pure."."""
    return any(_PURE.search(docs.get(name, "")) for name in lineage(module))


def loosely_pure(docs: Docs) -> list[str]:
    """Docstrings that say "pure" in another way, which nothing would check."""
    return [f'{module}: write "Pure."' for module, doc in docs.items() if _ALMOST_PURE.search(_PURE.sub("", doc))]


def impure_imports(graph: grimp.ImportGraph, docs: Docs) -> list[str]:
    """Imports of libraries that pure modules may not use, directly or over other modules of ours."""
    for_whom = {module: module for module in docs if is_pure(module, docs)}
    open_modules = list(for_whom)
    found = []
    while open_modules:
        module = open_modules.pop()
        for name in sorted(graph.find_modules_directly_imported_by(module)):
            if name not in docs:
                if name not in LIBRARIES_OF_PURE_MODULES:
                    found.append(f"{module} imports {name}: {for_whom[module]}, which says Pure., depends on it")
            elif name not in for_whom:
                for_whom[name] = for_whom[module]
                open_modules.append(name)
    return found


def impure_calls(trees: Mapping[str, ast.Module], docs: Docs) -> list[str]:
    """Calls in pure modules that do I/O or read a clock with nothing but builtins and the libraries allowed."""
    return [
        f"{module}:{node.lineno} calls {ast.unparse(node.func)}, and says Pure."
        for module, tree in trees.items()
        if is_pure(module, docs)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _IMPURE_CALLS
    ]


def homes(docs: Docs) -> list[tuple[str, str]]:
    """Each library of which a docstring says "Only home of", with that module or package."""
    return [
        (library, module)
        for module, doc in docs.items()
        for libraries in _HOME.findall(doc)
        for library in re.findall(r"\w+", libraries.replace(" and ", " "))
    ]


def imports_outside_the_home(graph: grimp.ImportGraph, docs: Docs) -> list[str]:
    """Imports by the product of a library whose home is elsewhere."""
    return [
        f"{module} imports {library}, whose only home is {home}"
        for library, home in homes(docs)
        for module in sorted(graph.find_modules_that_directly_import(library))
        if home not in lineage(module) and module.startswith(PRODUCT)
    ]


def layers_of(doc: str) -> list[list[str]]:
    """The names in a map, from top to bottom; those of one layer are beside each other."""
    layers: list[list[str]] = []
    for beside, name in _MAP_LINE.findall(doc):
        if beside and layers:
            layers[-1].append(name)
        else:
            layers.append([name])
    return layers


def packages_with_map(docs: Docs) -> dict[str, set[str]]:
    """Each package with more than one module or package inside, and the names of these."""
    inside: dict[str, set[str]] = {}
    for module in docs:
        package, _, name = module.rpartition(".")
        if package and GENERATED not in lineage(package):
            inside.setdefault(package, set()).add(name)
    return {package: names for package, names in inside.items() if len(names) > 1}


def wrong_map(doc: str, names: Set[str]) -> list[str]:
    """The names that a map lacks, has for no module, or has twice."""
    drawn = [name for layer in layers_of(doc) for name in layer]
    return sorted({name for name in {*drawn, *names} if drawn.count(name) != 1 or name not in names})


def imports_against_the_map(graph: grimp.ImportGraph, docs: Docs, package: str) -> list[str]:
    """Imports up the map, or between modules beside each other, also over modules of other packages."""
    layers = [grimp.Layer(*names, independent=True) for names in layers_of(docs[package])]
    return [
        f"{dependency.importer} is not above {dependency.imported} in the map of {package}: "
        + " -> ".join([min(route.heads), *route.middle, min(route.tails)])
        for dependency in graph.find_illegal_dependencies_for_layers(layers=layers, containers={package})
        for route in dependency.routes
    ]
