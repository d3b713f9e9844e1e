"""Matches NodeSelectors of core/v1 and their requirements with nodes. Pure."""

from collections.abc import Mapping

from driver.model import NodeRequirement, NodeSelector, NodeSelectorTerm


def selects(selector: NodeSelector, node_name: str, labels: Mapping[str, str]) -> bool:
    """True if at least one term of ``selector`` matches the node.

    All requirements of a term must hold. A term without requirements matches no node, and an operator that core/v1
    does not define never holds.
    """
    return any(_term_matches(term, node_name, labels) for term in selector.terms)


def _term_matches(term: NodeSelectorTerm, node_name: str, labels: Mapping[str, str]) -> bool:
    if not term.expressions and not term.fields:
        return False
    fields = {"metadata.name": node_name}
    return all(holds(item, labels) for item in term.expressions) and all(holds(item, fields) for item in term.fields)


def holds(requirement: NodeRequirement, values: Mapping[str, str]) -> bool:
    """True if the requirement holds for these labels or fields. Label selectors (meta/v1) use the first four."""
    value = values.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, requirement)
    return False


def _compares(value: str | None, requirement: NodeRequirement) -> bool:
    try:
        left, right = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return left > right if requirement.operator == "Gt" else left < right
