"""In which order nodes are tried. Pure."""

from collections.abc import Iterable


def in_order(nodes: Iterable[str]) -> list[str]:
    """Node names in natural order: by name. The first that takes the pod gets it, unless the pod prefers another.

    The same cluster gives the same answer, and nodes fill up one after another. What a pod prefers is in its claims
    (``controller.allocation.policies.ranking``).
    """
    return sorted(nodes)
