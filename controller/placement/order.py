"""In which order nodes are tried. Pure."""

from collections.abc import Iterable


def in_order(nodes: Iterable[str], policy: str = "firstFit") -> list[str]:
    """Node names in the order to try them; the first that takes the pod gets it.

    ``firstFit`` is by name: the same cluster gives the same answer, and nodes fill up one after another.

    Raises:
        ValueError: a policy this version does not have; ``driver.parameters`` and the settings admit none.
    """
    if policy != "firstFit":
        raise ValueError(f"placement policy {policy!r} is not known")
    return sorted(nodes)
