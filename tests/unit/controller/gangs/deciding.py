"""Decisions about gangs, and words for the domains of the cluster."""

from collections.abc import Callable

from controller.gangs import GangPlan, TriedDomains
from controller.refusal import Refusal

A, B = {"ib": "a"}, {"ib": "b"}


def leaf(cluster: str, name: str) -> dict[str, str]:
    return {"ib": cluster, "leaf": name}


Decide = Callable[..., GangPlan | Refusal[TriedDomains]]
