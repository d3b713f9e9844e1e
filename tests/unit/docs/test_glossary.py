"""The glossary's table of refusals names every type that says no, and where it is."""

import ast
import re
from importlib import import_module

from tests.unit.docs.pages import page
from tests.unit.docs.source_files import module_of, tree, written_files

SAYS_NO = re.compile(
    r"(Costly|Ended|Exclusion|Explanations?|Failure|Faults?|Problem|Reasons?|Refusals?|RefusalMemory|Shortage"
    r"|Unallocatable|NodeReasons|Verdicts?|Wait)\Z"
)


def listed() -> list[tuple[str, str]]:
    """Type and module of each row."""
    section = page("docs/glossary.md").partition("## Which no is which")[2]
    return re.findall(r"^\| `(\w+)` \| `([\w.]+)` \|", section, re.MULTILINE)


def test_every_type_of_the_table_exists_in_its_module() -> None:
    assert len(listed()) > 10
    assert [entry for entry in listed() if not hasattr(import_module(entry[1]), entry[0])] == []


def test_every_public_type_that_says_no_is_in_the_table() -> None:
    found = set()
    for path in written_files("controller"):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                raised = any(
                    isinstance(base, ast.Name) and base.id.endswith(("Error", "Exception")) for base in node.bases
                )
                if raised or SAYS_NO.search(node.name):
                    found.add((node.name, module_of(path)))
    missing = found - set(listed())
    assert not missing, f'add rows for {sorted(missing)} to docs/glossary.md, under "Which no is which"'


def test_no_type_is_listed_twice() -> None:
    assert len(set(listed())) == len(listed())
