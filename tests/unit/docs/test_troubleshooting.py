"""docs/troubleshooting.md quotes what the programs really say, and has every reason for which a pod waits."""

import ast
import re
from functools import cache

import pytest
import yaml

from controller.reconcile.decisions import Reason
from tests.unit.docs.pages import ROOT, page
from tests.unit.docs.source_files import tree, written_files

SEEN = [
    row.split(" | ")[0].removeprefix("| ") for row in page("docs/troubleshooting.md").splitlines() if row[:2] == "| "
]
"""The first column of all tables."""
QUOTED = sorted({quote for cell in SEEN for quote in re.findall(r"`([^`]+)`", cell)})
MESSAGES = [quote for quote in QUOTED if " " in quote and not quote.startswith("lode ")]
OF_KUBERNETES = {"Terminating"}
NOT_TOLD = {Reason.UNUSED, Reason.EVALUATING}
"""Only counted: they pass by themselves."""
VALUE = "\0"
"""Stands for a value in a message of the code."""
PLACEHOLDER = re.compile(r"\s*(?:\.\.\.|\b(?:N|[A-Z]{4,})\b)\s*")


def text_of(node: ast.AST) -> str:
    """A text of the code, with values left out; "" for everything else."""
    match node:
        case ast.Constant(value=str(text)):
            return re.sub(r"\{\w*\}", VALUE, text)
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) or VALUE for part in parts)
    return ""


def texts(module: ast.Module) -> set[str]:
    """The texts of a module, but not what stands alone: docstrings."""
    alone = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    return {text_of(node) for node in ast.walk(module) if id(node) not in alone}


def messages_of_policies() -> list[str]:
    """The expressions of the admission policies for messages, with what is no text in them left out."""
    found = []
    for file in (ROOT / "manifests").rglob("*.yaml"):
        if "messageExpression" in (text := file.read_text()):
            specs = [it["spec"] for it in yaml.safe_load_all(text) if it["kind"].endswith("AdmissionPolicy")]
            found += [rule.get("messageExpression", "") for spec in specs for rule in spec.get("validations", ())]
    return [re.sub(r'"\s*\+.*?\+\s*"', VALUE, message, flags=re.DOTALL) for message in found]


@cache
def said() -> str:
    """Everything that the programs and the policies can say, a line each."""
    found = {*messages_of_policies()}
    for package in ("cli", "controller", "driver", "kubeletplugin"):
        for file in written_files(package):
            found |= texts(tree(file))
    return "\n".join(re.sub(r"\s+", " ", text) for text in found)


@pytest.mark.parametrize("quote", MESSAGES)
def test_a_message_is_one_of_the_programs(quote: str) -> None:
    found = re.search(".*".join(map(re.escape, PLACEHOLDER.split(quote))), said())
    assert found, f"docs/troubleshooting.md: no program says {quote!r}; quote what it says now"


def test_every_reason_for_which_a_pod_waits_is_there() -> None:
    missing = {str(reason) for reason in Reason} - {*QUOTED} - NOT_TOLD
    assert not missing, f"docs/troubleshooting.md: add rows for the reasons {sorted(missing)}"


def test_a_word_that_looks_like_a_reason_is_one() -> None:
    words = {quote for quote in QUOTED if re.fullmatch(r"[A-Z][a-z]+(?:[A-Z][a-z]+)*", quote)}
    assert words - {str(reason) for reason in Reason} <= OF_KUBERNETES
