"""A Node that is watched is not read again; whatever is not known is read."""

from typing import Any

from driver.kube.api import NODES, PODS
from kubeletplugin.known_node import KnownNode
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock

WATCHED: dict[str, Any] = {"metadata": {"name": "n1", "uid": "u", "resourceVersion": "7", "labels": {"from": "watch"}}}


def labels(known: KnownNode, name: str) -> Any:
    return known.get(NODES, name)["metadata"].get("labels")


def test_the_node_of_the_plugin_is_answered_from_the_watch_once_it_is_known() -> None:
    api = MemoryApi(VirtualClock())
    for name in ("n1", "n2"):
        api.create(NODES, {"metadata": {"name": name, "labels": {"from": "api"}}})
    watched: list[Any] = [None]
    known = KnownNode(api, "n1", lambda: watched[-1])
    assert labels(known, "n1") == {"from": "api"}
    watched.append(WATCHED)
    assert labels(known, "n1") == {"from": "watch"}
    assert labels(known, "n2") == {"from": "api"}


def test_other_kinds_of_that_name_are_read() -> None:
    api = MemoryApi(VirtualClock())
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    api.create(PODS, {"metadata": {"name": "n1", "namespace": "default"}, "spec": spec}, "default")
    assert KnownNode(api, "n1", lambda: WATCHED).get(PODS, "n1", "default")["kind"] == "Pod"
