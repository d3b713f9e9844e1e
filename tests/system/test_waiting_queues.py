"""A crowd of pods waits for two nodes: who comes first is served first, and waiting itself costs no writes.

``LODE_WAITING=n`` has ``n`` pods wait. Thousands take minutes.
"""

import os

import pytest

from controller.reporting import REMIND_SECONDS
from driver.kube.api import EVENTS, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_QUOTAS
from driver.kube.objects import pod_phase
from driver.settings import ControllerSettings, Settings
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.faults import FaultProfile, NetworkFaults
from tests.simulation.settled_checks import check_no_writes_without_news, check_settled
from tests.system.history import cards
from tests.system.objects import NAMESPACE, REQUESTS, device_classes, pod, template

WAITING = int(os.environ.get("LODE_WAITING", "120"))
NODE_COUNT = 2
CARDS = 2
FAULTS = {
    "no faults": FaultProfile(),
    "words cannot be written": FaultProfile(network=NetworkFaults(silence=1.0)),
}


def crowded_cluster() -> SimulatedCluster:
    """Cards for a few pods, all of which are taken, and a crowd of two shapes that waits."""
    cluster = SimulatedCluster(
        0,
        {f"n{number}": cards("h100x8", CARDS) for number in range(1, NODE_COUNT + 1)},
        classes=device_classes(),
        settings=Settings(controller=ControllerSettings(lease_seconds=100)),
    )
    for name in ("gpu-1", "gpu-2"):
        cluster.user.create(RESOURCE_CLAIM_TEMPLATES, template(name, REQUESTS[name]))
    cluster.settle()
    for number in range(NODE_COUNT):
        cluster.user.create(PODS, pod(f"first-{number}", template_name="gpu-2"))
    cluster.settle()
    for number in range(WAITING):
        name = "gpu-1" if number % 2 else "gpu-2"
        cluster.user.create(PODS, pod(f"p{number:04}", template_name=name, priority=number % 3))
    return cluster


def running(cluster: SimulatedCluster) -> set[str]:
    return {one["metadata"]["name"] for one in cluster.invariants.pods() if pod_phase(one) == "Running"}


@pytest.mark.parametrize("faults", FAULTS)
def test_those_of_the_highest_priority_that_came_first_get_what_is_freed(faults: str) -> None:
    cluster = crowded_cluster()
    cluster.faults = FAULTS[faults]
    cluster.advance(30)
    assert running(cluster) == {"first-0", "first-1"}
    cluster.user.delete(PODS, "first-0", NAMESPACE)
    cluster.advance(30)
    assert running(cluster) == {"first-1", "p0002"}
    cluster.user.delete(PODS, "first-1", NAMESPACE)
    cluster.advance(30)
    # p0008 wants both cards; one is taken by p0005, and p0011 can use the other.
    assert running(cluster) == {"p0002", "p0005", "p0011"}


def test_a_settled_crowd_writes_nothing() -> None:
    cluster = crowded_cluster()
    cluster.settle()
    check_settled(cluster)
    check_no_writes_without_news(cluster)


def test_a_pod_that_gets_devices_within_its_quota_later_is_news_for_the_others() -> None:
    """It is tried every five minutes: by then, only nodes with smaller cards are open."""
    layout = {"n1": cards("a100x4", 2), "n2": cards("t4x2", 2), "n3": cards("t4x2", 2)}
    cluster = SimulatedCluster(0, layout, classes=device_classes())
    for name in ("gpu-1", "gpu-2"):
        cluster.user.create(RESOURCE_CLAIM_TEMPLATES, template(name, REQUESTS[name]))
    quota = {"metadata": {"name": "cards", "namespace": NAMESPACE}, "spec": {"hard": {"lode.dev/memory": "20Gi"}}}
    cluster.user.create(RESOURCE_QUOTAS, quota)
    for node in ("n2", "n3"):
        cluster.user.patch(NODES, node, {"spec": {"unschedulable": True}})
    cluster.settle()
    cluster.user.create(PODS, pod("pair", template_name="gpu-2"))
    cluster.advance(10)
    cluster.user.create(PODS, pod("one", template_name="gpu-1"))
    cluster.advance(560)
    for node in layout:
        cluster.user.patch(NODES, node, {"spec": {"unschedulable": node == "n1"}})
    cluster.advance(10)
    assert running(cluster) == set()
    check_no_writes_without_news(cluster)
    assert running(cluster) == {"one"}


def test_a_crowd_is_told_again_why_it_waits_and_nothing_else_is_written() -> None:
    """An API server forgets an Event after an hour."""
    cluster = crowded_cluster()
    cluster.settle()
    written, said = cluster.log.total_writes, event_counts(cluster)
    assert len(said) >= WAITING
    hours = 3
    cluster.idle(hours * 3600)
    assert cluster.log.total_writes == written
    again = {name: count - said[name] for name, count in event_counts(cluster).items()}
    most = int(hours * 3600 / REMIND_SECONDS)
    # One at a time: while a cluster idles, its programs act every 20 seconds only.
    assert set(again.values()) <= {most - 1, most}


def event_counts(cluster: SimulatedCluster) -> dict[str, int]:
    return {event["metadata"]["name"]: event["count"] for event in cluster.api.list(EVENTS, limit=0).items}
