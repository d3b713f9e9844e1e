"""Label selectors of meta/v1, which select pods, nodes and other objects by their labels. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driver.model import NodeRequirement
from driver.node_selectors import holds
from driver.wire.fields import text, text_map, texts


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
    """A meta/v1 LabelSelector; None for one that is missing.

    Raises:
        AttributeError, KeyError, TypeError: it cannot be decoded.
    """
    if raw is None:
        return None
    pairs = (NodeRequirement(key, "In", (value,)) for key, value in sorted(text_map(raw.get("matchLabels")).items()))
    expressions = (
        NodeRequirement(text(item["key"]), text(item["operator"]), texts(item.get("values")))
        for item in raw.get("matchExpressions") or ()
    )
    return LabelSelector((*pairs, *expressions))
