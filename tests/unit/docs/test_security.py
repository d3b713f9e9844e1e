"""docs/security.md shows the table that the contract tests ask a real API server about, and every policy."""

import re
from itertools import chain
from pathlib import Path

import pytest
import yaml

from controller.policies import expected_policies
from tests.contract.security.attacked import FLAVORS, Flavor
from tests.contract.security.table import TABLES, as_markdown
from tests.unit.docs.pages import ROOT, page

PAGE = page("docs/security.md")
OF_COMPONENTS = ("manifests/nvidia-dra-names-scheduler-allocated/nvidia-shares-policy.yaml",)
"""Policies that not every installation has."""
CELLS = {cell for table in TABLES.values() for cells in table.values() for cell in cells}


@pytest.mark.parametrize("flavor", FLAVORS)
def test_the_table_is_that_of_the_tests(flavor: Flavor) -> None:
    assert as_markdown(flavor) in PAGE


def test_every_policy_is_listed() -> None:
    """Those that adopt pods are on the page about that."""
    of_components = [yaml.safe_load_all((ROOT / name).read_text()) for name in OF_COMPONENTS]
    names = {policy["metadata"]["name"] for policy in chain(expected_policies(), *of_components)}
    listed = set(re.findall(r"^\| `([a-z-]+\.lode\.dev)` \|", PAGE, re.MULTILINE))
    assert not names - listed, f"docs/security.md: add rows for {sorted(names - listed)}"
    assert not listed - names, f"docs/security.md: remove {sorted(listed - names)}, which are no policies"


def test_every_reason_is_explained() -> None:
    reasons = {cell.removeprefix("yes: ") for cell in CELLS if cell.startswith("yes: ")}
    table = PAGE.partition("| reason | meaning |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| (\w[\w ]*) \|", table, re.MULTILINE)) == reasons


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`((?:contract|unit)/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 10
    for path, test in named:
        source = (Path(__file__).parents[2] / path).read_text()
        assert not test or f"def {test}(" in source, f"{path} has no {test}"
