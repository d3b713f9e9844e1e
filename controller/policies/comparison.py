"""Compares an admission policy or binding with the one that is expected, as far as it matters. Pure.

Any difference in the spec counts, because whether an expression still refuses as much cannot be told from its text.
These do not count: labels, annotations, white space, defaults that the API server fills in, messages to users, and the
selection of namespaces in a mutating policy. Which pods wait for the controller is the operator's choice, and a pod
without the gate is only served later.
"""

from collections.abc import Mapping
from typing import Any, Final

from driver.kube.api import Object

_DEFAULTS: Final[Mapping[str, Any]] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "reinvocationPolicy": "Never",
    "scope": "*",
}
"""Values that the API server takes for missing fields (admissionregistration.k8s.io/v1)."""
_MESSAGES: Final = frozenset({"auditAnnotations", "message", "messageExpression", "reason"})


def deviation(expected: Object, actual: Object) -> str:
    """Return the first field of the spec of ``actual`` that is not as expected, and both values; "" if all are."""
    return _difference("spec", _essence(expected), _essence(actual))


def _essence(obj: Object) -> Any:
    spec = dict(obj.get("spec") or {})
    if obj["kind"].startswith("Mutating") and "matchConstraints" in spec:
        spec["matchConstraints"] = {**spec["matchConstraints"], "namespaceSelector": None}
    if "Deny" in (spec.get("validationActions") or ()):
        # More actions, such as Audit, take nothing away.
        spec["validationActions"] = ["Deny"]
    return _canonical(spec)


def _canonical(value: Any) -> Any:
    match value:
        case Mapping():
            parts = {name: _canonical(part) for name, part in value.items() if name not in _MESSAGES}
            return {
                name: part
                for name, part in parts.items()
                if part not in (None, "", [], {}) and _DEFAULTS.get(name) != part
            }
        case list():
            return [_canonical(part) for part in value]
        case str():
            return " ".join(value.split())
    return value


def _difference(path: str, expected: Any, actual: Any) -> str:
    if isinstance(expected, dict) and isinstance(actual, dict):
        names = sorted({*expected, *actual})
        found = (_difference(f"{path}.{name}", expected.get(name), actual.get(name)) for name in names)
        return next(filter(None, found), "")
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return next(filter(None, (_difference(f"{path}[{at}]", one, other) for at, (one, other) in pairs)), "")
    if expected == actual:
        return ""
    return f"{path}: {_text(actual)} in the place of {_text(expected)}"


def _text(value: Any) -> str:
    return "nothing" if value is None else str(value)
