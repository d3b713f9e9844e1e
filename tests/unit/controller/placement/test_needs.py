"""A pod's requests are counted as kube-scheduler counts them."""

from typing import Any

import pytest

from controller.placement import needs_of
from controller.placement.needs import HostPort, requests_of
from driver.quantity import NANO


def container(name: str = "main", **requests: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}}


def sidecar(name: str, **requests: str) -> dict[str, Any]:
    return {**container(name, **requests), "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container(cpu="1"), container("b", cpu="500m")]}, 1.5),
        ({"containers": [container(cpu="1")], "initContainers": [container("i", cpu="3")]}, 3),
        ({"containers": [container(cpu="2")], "initContainers": [container("i", cpu="1")]}, 2),
        ({"containers": [container(cpu="2")], "initContainers": [container("i")]}, 2),
        ({"containers": [container()], "initContainers": [container("i", cpu="1")]}, 1),
        (
            {"containers": [container(cpu="1")], "initContainers": [container("i", cpu="1"), container("j", cpu="2")]},
            2,
        ),
        ({"containers": [container(cpu="1")], "initContainers": [sidecar("s", cpu="1")]}, 2),
        (
            {"containers": [container(cpu="1")], "initContainers": [sidecar("s", cpu="1"), container("i", cpu="3")]},
            4,
        ),
        (
            {"containers": [container(cpu="1")], "initContainers": [container("i", cpu="3"), sidecar("s", cpu="1")]},
            3,
        ),
        ({"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, 1.25),
        ({"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "4"}}}, 4),
        (
            {
                "containers": [container(cpu="1")],
                "resources": {"requests": {"cpu": "4"}},
                "overhead": {"cpu": "1"},
            },
            5,
        ),
        ({"containers": [{"name": "main"}]}, 0),
    ],
)
def test_cpu_of_a_pod(spec: dict[str, Any], cpu: float) -> None:
    assert requests_of({"spec": spec}).get("cpu", 0) == cpu * NANO


def test_other_resources_count_alike_and_nothing_asked_is_left_out() -> None:
    spec = {"containers": [container(memory="1Gi", **{"example.com/x": "2", "ephemeral-storage": "0"})]}
    assert requests_of({"spec": spec}) == {"memory": 2**30 * NANO, "example.com/x": 2 * NANO}


def test_after_a_resize_the_larger_of_asked_and_granted_counts() -> None:
    statuses = [{"name": "main", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}]
    pod = {"spec": {"containers": [container(cpu="1")]}, "status": {"containerStatuses": statuses}}
    assert requests_of(pod)["cpu"] == 3 * NANO


def test_host_ports_of_containers_and_sidecars() -> None:
    main = {"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81}]}
    side = {
        "name": "s",
        "restartPolicy": "Always",
        "ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}],
    }
    once = {"name": "i", "ports": [{"hostPort": 99}]}
    needs = needs_of({"spec": {"containers": [main], "initContainers": [side, once]}})
    assert needs.ports == (HostPort("TCP", "0.0.0.0", 80), HostPort("UDP", "10.0.0.1", 53))


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        (("TCP", "0.0.0.0", 80), ("TCP", "10.0.0.1", 80), True),
        (("TCP", "10.0.0.1", 80), ("TCP", "10.0.0.1", 80), True),
        (("TCP", "10.0.0.1", 80), ("TCP", "10.0.0.2", 80), False),
        (("TCP", "0.0.0.0", 80), ("UDP", "0.0.0.0", 80), False),
        (("TCP", "0.0.0.0", 80), ("TCP", "0.0.0.0", 81), False),
    ],
)
def test_host_ports_clash(one: tuple[str, str, int], other: tuple[str, str, int], clash: bool) -> None:
    assert HostPort(*one).clashes(HostPort(*other)) == clash
    assert HostPort(*other).clashes(HostPort(*one)) == clash
