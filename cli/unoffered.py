"""Pods that ask for resources of vendors' device plugins where nothing offers any: they would wait for good. Pure."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from driver.adoption import SOURCES, resources_of
from driver.errors import SENSELESS
from driver.kube.api import Object
from driver.limits import listed


def unoffered(pods: Mapping[str, Object], nodes: Iterable[Object], classes: Iterable[Object]) -> dict[str, str]:
    """Return why each of those pods waits, by the key of the pod.

    Some systems publish only one of their resources on nodes, so one that is offered is enough for all of a pod.

    Args:
        pods: by ``namespace/name``.
        nodes: those that exist. One that is only assumed offers everything.
        classes: the DeviceClasses. kube-scheduler makes claims for the resource that a class stands for.
    """
    offered = {name for node in nodes for name in _offered_by(node)} | {_stands_for(one) for one in classes}
    found = {}
    for key, pod in pods.items():
        asked = _asked(pod)
        if asked and not asked & offered:
            found[key] = (
                f"nothing offers {listed(sorted(asked))}: no node has it, and no DeviceClass stands for it; ask for a "
                "claim: lode convert writes the pod so, as admission does in namespaces that adopt such pods "
                "(docs/adoption.md)"
            )
    return found


def _asked(pod: Object) -> set[str]:
    with suppress(*SENSELESS):
        asked = resources_of(pod)
        return {it for source in SOURCES.values() for it in source.taken(asked)}
    return set()


def _offered_by(node: Object) -> Iterable[str]:
    with suppress(*SENSELESS):
        allocatable: Mapping[str, Any] = (node.get("status") or {}).get("allocatable") or {}
        return [name for name, amount in allocatable.items() if str(amount) != "0"]
    return ()


def _stands_for(device_class: Object) -> str:
    with suppress(*SENSELESS):
        return str((device_class.get("spec") or {}).get("extendedResourceName") or "")
    return ""
