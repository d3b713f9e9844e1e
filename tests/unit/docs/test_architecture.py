"""The drawing in docs/architecture.md shows the packages and the imports between them as they are.

A node's id is a package or module. Level one has the top-level packages, and each subgraph is a level of its own with
the parts of one package. On each level the arrows are the fewest that lead from every importer to everything it
imports, over other nodes of the level where possible (the transitive reduction of the imports).
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import pairwise

import pytest

from tests.unit.docs.docstrings import docstrings, is_pure, sources
from tests.unit.docs.pages import ROOT, page
from tests.unit.docs.source_files import module_of, tree

Arrow = tuple[str, str]

NOT_PRODUCT = {"tests", "benchmarks", "charts", "docsite"}
GENERATED = {"kubeletplugin.proto"}
THREAD_STARTERS = {"start_thread", "SpareThreads", "Thread", "ThreadPoolExecutor", "Timer"}


@dataclass(frozen=True)
class Drawing:
    levels: Mapping[str, Set[str]]
    """The nodes of each level; the key is the package of a subgraph, or "" for level one."""
    arrows: frozenset[Arrow]
    pure: Set[str]
    """The nodes that are marked as pure."""


def drawing(text: str) -> Drawing:
    (chart,) = re.findall(r"```mermaid\nflowchart TD\n(.*?)```", text, re.DOTALL)
    levels: dict[str, set[str]] = {"": set()}
    arrows: set[Arrow] = set()
    pure: set[str] = set()
    level = ""
    for line in (line.strip() for line in chart.splitlines()):
        if match := re.match(r"subgraph ([\w.]+)", line):
            level = match[1]
            levels[""].add(level)
            levels[level] = set()
        elif line == "end":
            level = ""
        elif "-->" in line:
            stops = [re.findall(r"[\w.]+", stop) for stop in line.split("-->")]
            arrows |= {(a, b) for start, end in pairwise(stops) for a in start for b in end}
        elif match := re.match(r"([\w.]+)\[", line):
            levels[level].add(match[1])
            if "(pure)" in line:
                pure.add(match[1])
    return Drawing(levels, frozenset(arrows), pure)


def imports(package: str) -> Iterator[Arrow]:
    """Every module of a package with every name that it imports, such as ``controller.state.State``."""
    for file in sorted((ROOT / package).rglob("*.py")):
        module = module_of(file)
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Import):
                yield from ((module, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{file}: relative import"
                yield from ((module, f"{node.module}.{alias.name}") for alias in node.names)


def node_of(name: str, nodes: Set[str]) -> str:
    """The node that a module or name belongs to; "" if none is drawn."""
    return next((node for node in nodes if f"{name}.".startswith(f"{node}.")), "")


def imports_between(nodes: Set[str]) -> set[Arrow]:
    packages = {node.partition(".")[0] for node in nodes}
    pairs = {
        (node_of(module, nodes), node_of(name, nodes)) for package in packages for module, name in imports(package)
    }
    return {(importer, imported) for importer, imported in pairs if importer and imported and importer != imported}


def reachable(start: str, arrows: Set[Arrow]) -> set[str]:
    found: set[str] = set()
    waiting = {start}
    while waiting:
        nodes = {end for begin, end in arrows if begin in waiting}
        waiting = nodes - found
        found |= nodes
    return found


def fewest(arrows: set[Arrow]) -> set[Arrow]:
    """The transitive reduction of imports without a cycle."""
    cycle = sorted({start for start, _ in arrows if start in reachable(start, arrows)})
    assert not cycle, f"import cycle between {', '.join(cycle)}"
    return {(start, end) for start, end in arrows if end not in reachable(start, arrows - {(start, end)})}


DRAWN = drawing(page("docs/architecture.md"))


def lines(arrows: Set[Arrow]) -> list[str]:
    return [f"{start} --> {end}" for start, end in sorted(arrows)]


@pytest.mark.parametrize("level", sorted(DRAWN.levels), ids=lambda level: level or "top level")
def test_the_arrows_of_a_level_are_the_imports(level: str) -> None:
    nodes = DRAWN.levels[level]
    actual = fewest(imports_between(nodes))
    drawn = {arrow for arrow in DRAWN.arrows if set(arrow) <= nodes}
    missing, wrong = lines(actual - drawn), lines(drawn - actual)
    assert not missing + wrong, f"docs/architecture.md: add the arrows {missing}, remove the arrows {wrong}"


def test_every_arrow_is_between_nodes_of_one_level() -> None:
    across = {arrow for arrow in DRAWN.arrows if not any(set(arrow) <= nodes for nodes in DRAWN.levels.values())}
    assert not across, f"docs/architecture.md: arrows between levels or to nodes that are not drawn: {lines(across)}"


def test_every_top_level_package_is_drawn() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert DRAWN.levels[""] == set(project["tool"]["importlinter"]["root_packages"]) - NOT_PRODUCT


@pytest.mark.parametrize("package", sorted(DRAWN.levels.keys() - {""}))
def test_every_part_of_a_subgraph_exists_and_no_package_is_missing(package: str) -> None:
    drawn = DRAWN.levels[package]
    folders = {f"{package}.{init.parent.name}" for init in (ROOT / package).glob("*/__init__.py")} - GENERATED
    modules = {f"{package}.{file.stem}" for file in (ROOT / package).glob("*.py")}
    assert drawn <= folders | modules, f"docs/architecture.md: remove {sorted(drawn - folders - modules)}"
    assert folders <= drawn, f"docs/architecture.md: draw {sorted(folders - drawn)}"


def test_the_parts_that_are_drawn_as_pure_are_those_that_say_it() -> None:
    docs = docstrings(sources())
    parts = {node for level, nodes in DRAWN.levels.items() if level for node in nodes}
    assert DRAWN.pure == {part for part in parts if is_pure(part, docs)}


def starts_threads(parsed: ast.Module) -> bool:
    calls = (node.func for node in ast.walk(parsed) if isinstance(node, ast.Call))
    return any(ast.unparse(call).rpartition(".")[2] in THREAD_STARTERS for call in calls)


def test_the_modules_that_start_threads_are_named() -> None:
    (sentence,) = re.findall(r"Threads are started in (.*?)\bnowhere else\.", page("docs/architecture.md"), re.DOTALL)
    product = DRAWN.levels[""] - {"testclusters"}
    starters = {
        module
        for module, parsed in sources().items()
        if module.partition(".")[0] in product and module != "driver.threads" and starts_threads(parsed)
    }
    assert set(re.findall(r"`([\w.]+)`", sentence)) == starters
