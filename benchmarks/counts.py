"""How large the product is, and how many concepts and names a reader has to tell apart. Nothing is run.

    make bench-counts

What counts is what people write: generated code does not. A line of code is one that is neither blank nor a comment nor
part of a docstring. A type refuses if it is a class of the controller whose name has one of the words of ``REFUSING``,
so that a new name for "no" is found without a list of the old ones.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.allocation.table import lines

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("driver", "controller", "kubeletplugin", "cli", "simulation", "memoryapi", "charts", "testclusters")
"""The packages that are counted."""
EXPLAINED = (
    "controller/gangs",
    "controller/allocation/search",
    "controller/preemption",
    "controller/cluster.py",
    "kubeletplugin/prepare",
)
"""The folders with the hard steps, whose comments say why."""
REFUSING = re.compile(
    r"(?:^|(?<=[a-z]))(?:"
    "No(?=[A-Z])|Not(?=[A-Z])|Nobody|Beyond|Denied|Deposed|Ended|Excluded|Exclusion|Exclusions|Explanation|Explanations"
    "|Failure|Fault|Faulty|Impossible|OutOf|Reason|Reasons|Refusal|Refusals|Refuse|Refused|Shortage|Shortages|TooCostly"
    "|Unallocatable|Unfit|Unhealthy|Unreadable|Unsatisfiable|Unusable|Verdict|Verdicts|Wait"
    ")(?![a-z])"
)
"""The words by which a name says no, or why not."""
METHODS = ("of", "put", "note", "look", "room")
"""Methods that should mean one thing each, so be in one class each or in the classes that stand for one port."""


@dataclass(frozen=True)
class Source:
    """A file that people write.

    Attributes:
        path: from the root of the repository.
    """

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """What it says."""
        return ast.parse(self.text)

    @cached_property
    def docstrings(self) -> frozenset[int]:
        """The lines of docstrings: texts that stand as a statement of their own."""
        found: set[int] = set()
        for node in ast.walk(self.tree):
            match node:
                case ast.Expr(value=ast.Constant(value=str())):
                    found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return frozenset(found)

    @cached_property
    def comments(self) -> int:
        """Lines that are comments."""
        return sum(line.startswith("#") for line in self._beside_docstrings())

    @cached_property
    def code(self) -> int:
        """Lines of code."""
        return sum(bool(line) and not line.startswith("#") for line in self._beside_docstrings())

    @cached_property
    def classes(self) -> Sequence[ast.ClassDef]:
        """The classes at the top of the file."""
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef)]

    def _beside_docstrings(self) -> Iterator[str]:
        numbered = enumerate(self.text.splitlines(), 1)
        return (line.strip() for number, line in numbered if number not in self.docstrings)


def sources(folders: Iterable[str], root: Path = ROOT) -> list[Source]:
    """Return the files in these folders of a checkout."""
    return [
        Source(path.relative_to(root).as_posix(), path.read_text())
        for folder in folders
        for path in ([root / folder] if folder.endswith(".py") else sorted((root / folder).rglob("*.py")))
        if "_pb2" not in path.name
    ]


def refusing(files: Iterable[Source]) -> list[str]:
    """Return the names of classes that say no."""
    return sorted({node.name for file in files for node in file.classes if REFUSING.search(node.name)})


def ambiguous(files: Iterable[Source]) -> Mapping[str, Sequence[str]]:
    """Return the public names that classes of several modules have, each with its files."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in files:
        for node in file.classes:
            if not node.name.startswith("_"):
                places[node.name].append(file.path)
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


def methods(files: Iterable[Source]) -> Mapping[str, Sequence[str]]:
    """Return the classes that have a method of each name."""
    found: dict[str, list[str]] = {name: [] for name in METHODS}
    for file in files:
        for owner in file.classes:
            for node in owner.body:
                if isinstance(node, ast.FunctionDef) and node.name in found:
                    found[node.name].append(owner.name)
    return found


def main() -> int:
    """Print the counts."""
    files = sources(PRODUCT)
    rows = [_row(package, [file for file in files if file.path.startswith(f"{package}/")]) for package in PRODUCT]
    header = ["package", "files", "lines of code", "comments", "docstrings"]
    print(lines(header, [*rows, _row("all", files)]))
    commented = [_row(folder, sources([folder])) for folder in EXPLAINED if (ROOT / folder).exists()]
    shares = [(*row, _share(int(row[3]), sum(map(int, row[2:])))) for row in commented]
    print("\n" + lines(["hard steps", *header[1:], "comments, %"], shares))
    controller = [file for file in files if file.path.startswith("controller/")]
    print(f"\nFiles in controller/: {len(controller)}")
    _print_names("Types that refuse", refusing(controller))
    _print_names("Class names that mean several things", [f"{n} ({', '.join(p)})" for n, p in ambiguous(files).items()])
    for name, owners in methods(files).items():
        _print_names(f"Methods `{name}`", owners)
    return 0


def _row(name: str, files: Sequence[Source]) -> tuple[str, ...]:
    counts = (len(files), sum(file.code for file in files), sum(file.comments for file in files))
    return (name, *map(str, counts), str(sum(len(file.docstrings) for file in files)))


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else ""


def _print_names(title: str, names: Sequence[str]) -> None:
    print(f"\n{title}: {len(names)}")
    for name in names:
        print(f"  {name}")


if __name__ == "__main__":
    sys.exit(main())
