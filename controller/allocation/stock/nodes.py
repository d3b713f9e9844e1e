"""Which nodes a slice or device can be used from."""

from collections.abc import Iterable, Mapping

from driver.model import NodeRequirement, NodeScope, NodeSelector, NodeSelectorTerm


def reaches(scope: NodeScope, node_name: str, labels: Mapping[str, str]) -> bool:
    """Whether devices of this scope can be used on the node."""
    if scope.all_nodes:
        return True
    if scope.node_name:
        return scope.node_name == node_name
    return scope.selector is not None and selects(scope.selector, node_name, labels)


def selects(selector: NodeSelector, node_name: str, labels: Mapping[str, str]) -> bool:
    """Whether at least one term holds for the node."""
    return any(_holds(term, node_name, labels) for term in selector.terms)


def _holds(term: NodeSelectorTerm, node_name: str, labels: Mapping[str, str]) -> bool:
    if not term.expressions and not term.fields:
        return False
    return all(_meets(item, labels) for item in term.expressions) and all(
        _meets(item, {"metadata.name": node_name}) for item in term.fields
    )


def _meets(requirement: NodeRequirement, values: Mapping[str, str]) -> bool:
    value = values.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
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


def merged(selectors: list[NodeSelector]) -> NodeSelector | None:
    """One selector for the nodes that all of ``selectors`` (of one term each, as slices have) select; None for any."""
    terms = [term for selector in selectors for term in selector.terms[:1]]
    expressions = _distinct(one for term in terms for one in term.expressions)
    fields = _distinct(one for term in terms for one in term.fields)
    if not expressions and not fields:
        return None
    return NodeSelector((NodeSelectorTerm(expressions, fields),))


def _distinct(requirements: Iterable[NodeRequirement]) -> tuple[NodeRequirement, ...]:
    """Each requirement once, whatever the order of its values."""
    found: dict[object, NodeRequirement] = {}
    for one in requirements:
        found.setdefault((one.key, one.operator, frozenset(one.values)), one)
    return tuple(found.values())
