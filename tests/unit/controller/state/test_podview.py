"""Pods as others write them: whatever stands in a field, the pod is decoded to values of the right types, or is not."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from controller.state import ClaimReference, Condition, PodView, pod_from
from driver.errors import LodeError

ODD: tuple[Any, ...] = ([], {}, ["a"], {"a": "b"}, "odd", 7, 1.5, True, None)
POD: dict[str, Any] = {
    "metadata": {
        "namespace": "default",
        "name": "p",
        "uid": "u",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
        "labels": {"lode.dev/gang": "g"},
    },
    "spec": {
        "nodeName": "n",
        "priority": 5,
        "priorityClassName": "high",
        "activeDeadlineSeconds": 60,
        "terminationGracePeriodSeconds": 5,
        "schedulingGates": [{"name": "lode.dev/allocation"}],
        "resourceClaims": [{"name": "a", "resourceClaimName": "b"}, {"name": "c", "resourceClaimTemplateName": "d"}],
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
    },
    "status": {
        "phase": "Pending",
        "startTime": "2026-01-01T00:00:00Z",
        "nominatedNodeName": "n",
        "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "e"}],
        "conditions": [
            {"type": "lode.dev/Allocated", "status": "False", "reason": "x", "message": "y", "lastProbeTime": None},
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"},
        ],
    },
}
TYPES: dict[type, dict[str, type | tuple[type, ...]]] = {
    PodView: {
        "namespace": str,
        "name": str,
        "uid": str,
        "node_name": str,
        "unschedulable": str,
        "nominated": str,
        "created": str,
        "priority": int,
        "grace_seconds": int,
        "priority_class": str,
        "started": str,
        "asked_to_end": str,
        "limit_seconds": (int, type(None)),
        "rank": (int, type(None)),
    },
    Condition: dict.fromkeys(("status", "reason", "message"), str),
    ClaimReference: dict.fromkeys(("entry", "claim", "template"), str),
}


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _paths(inner, (*path, key))


def _replaced(path: tuple[Any, ...], odd: Any) -> Any:
    pod = deepcopy(POD)
    at: Any = pod
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = odd
    return pod


@pytest.mark.parametrize("path", list(_paths(POD)), ids=lambda path: ".".join(map(str, path)))
def test_a_pod_with_an_odd_value_in_any_place_is_a_view_of_the_right_types_or_refused(path: tuple[Any, ...]) -> None:
    for odd in ODD:
        try:
            view = pod_from(_replaced(path, odd), "lode.dev/Allocated")
        except (LodeError, KeyError, TypeError, ValueError, AttributeError):
            continue
        parts = [view, *view.references, *([view.allocated] if view.allocated else [])]
        wrong = [
            f"{name} of {type(part).__name__}: {getattr(part, name)!r}"
            for part in parts
            for name, wanted in TYPES[type(part)].items()
            if not isinstance(getattr(part, name), wanted)
        ]
        assert not wrong, f"{odd!r} at {path}"
        assert all(isinstance(gate, str) for gate in view.gates)
