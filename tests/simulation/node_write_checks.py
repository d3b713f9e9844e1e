"""What a controller may change of nodes: the annotation that keeps autoscalers away, and only if it has set that."""

from collections.abc import Iterator, Mapping
from typing import Final

from driver.kube.api import Object
from driver.names import Names

DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
_VOLATILE: Final = frozenset({"annotations", "resourceVersion", "generation", "managedFields"})


def node_problems(before: Object | None, after: Object, names: Names) -> Iterator[str]:
    """Yield what is wrong with a controller's write of a node."""
    if before is None:
        yield "a node is made"
        return
    if _rest(before) != _rest(after):
        yield "more is changed than annotations"
    was, now = _annotations(before), _annotations(after)
    ours = {DO_NOT_DISRUPT, names.protection}
    if changed := sorted(key for key in (was.keys() | now.keys()) - ours if was.get(key) != now.get(key)):
        yield f"annotations of others are changed: {changed}"
    value, new = was.get(DO_NOT_DISRUPT), now.get(DO_NOT_DISRUPT)
    if value != new and value is not None and not (value == "true" and names.protection in was):
        yield f"{DO_NOT_DISRUPT} is {new}, but somebody else has set {value}"
    if value != new and (new is not None) != (names.protection in now):
        yield f"{DO_NOT_DISRUPT} is {new}, and our annotation does not say so"
    if new != value and new not in (None, "true"):
        yield f"{DO_NOT_DISRUPT} is {new}"


def _rest(node: Object) -> Object:
    metadata = {key: value for key, value in node["metadata"].items() if key not in _VOLATILE}
    return {**node, "metadata": metadata}


def _annotations(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("annotations") or {}
