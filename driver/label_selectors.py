"""Label selectors of meta/v1, which select pods, nodes and other objects by their labels. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driver.model import NodeRequirement
from driver.node_selectors import holds


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A meta/v1 LabelSelector. All requirements must hold, so a selector without requirements selects everything.

    In place of a selector, None selects nothing.
    """

    requirements: tuple[NodeRequirement, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether the selector selects an object with these labels."""
        return all(holds(requirement, labels) for requirement in self.requirements)


def label_selector_from(raw: Mapping[str, Any] | None) -> LabelSelector | None:
    """A meta/v1 LabelSelector; None for one that is missing."""
    if raw is None:
        return None
    pairs = (NodeRequirement(key, "In", (value,)) for key, value in sorted((raw.get("matchLabels") or {}).items()))
    expressions = (
        NodeRequirement(item["key"], item["operator"], tuple(item.get("values") or ()))
        for item in raw.get("matchExpressions") or ()
    )
    return LabelSelector((*pairs, *expressions))
