"""Reads the messages of kube-scheduler about pods that it does not bind. Pure."""

import re
from typing import Final

_NODES: Final = re.compile(r"0/\d+ nodes are available: (?P<clauses>.*?)(?:\.(?:\s|\Z)|\Z)", re.DOTALL)
"""The first sentence (k8s.io/kube-scheduler framework, FitError); what follows is about preemption."""
_BETWEEN: Final = re.compile(r"[,;] (?=\d+ |node\(s\)|[A-Z])")
_COUNT: Final = re.compile(r"\d+ ")
_FROM_THE_ALLOCATION: Final = ("resourceclaim not available on the node", "cannot allocate all claims")
"""Clauses of the plugin DynamicResources about all nodes but the one that the allocation names."""
_ABOUT_OTHER_NODES: Final = (
    "node(s) had untolerated taint",
    "node(s) were unschedulable",
    "node(s) didn't match Pod's node affinity/selector",
)
"""Clauses about rules that the controller checks itself, so that no node of its choice can have caused them."""
_MOST_CHARACTERS: Final = 300


def relevant_reason(message: str) -> str:
    """Return the part of kube-scheduler's message that is about the node of the pod's allocation.

    The message counts the reasons of all nodes: ``0/6 nodes are available: 1 node(s) didn't match pod anti-affinity
    rules, 5 resourceclaim not available on the node. preemption: ...``. The allocation itself rules out all nodes but
    one. So clauses that say so are left out, and with them the numbers and the rules that the controller has checked
    itself. A message in another form is returned as it is.
    """
    found = _NODES.match(message)
    if found is None:
        return _cut(message)
    clauses = [_COUNT.sub("", clause, count=1) for clause in _BETWEEN.split(found["clauses"])]
    others = [clause for clause in clauses if clause not in _FROM_THE_ALLOCATION]
    useful = [clause for clause in others if not clause.startswith(_ABOUT_OTHER_NODES)]
    return _cut(", ".join(useful or others or clauses))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
