"""The Job of docs/nvlink-domains.md on a rack of two nodes, beside a stand-in of NVIDIA's driver for ComputeDomains.

Each pod has two claims: cards, which Lode allocates, and the IMEX channel of its node, which kube-scheduler allocates
until Lode is told to. After every event of a claim, the watcher looks whether a device is in two claims.
"""

import pytest

from tests.compute_domains import DRIVER, claim_template, job_of_the_page
from tests.e2e.client import Client, Object, eventually, eventually_none, names, results
from tests.e2e.container import container_view
from tests.e2e.nodes import leftovers
from tests.e2e.nvlink.conftest import IN_CONTAINER
from tests.e2e.pods import SLEEP, pod
from tests.e2e.test_single_allocator import allocated_by
from tests.e2e.watcher import Watcher

HOSTNAME = "kubernetes.io/hostname"
CARDS = 4
"""Of each node, and of each pod of a gang."""


def gang(pods: int, name: str = "gang") -> list[Object]:
    """The page's Job with an image that is on the nodes."""
    objects = job_of_the_page(pods, name)
    spec = objects[-1]["spec"]["template"]["spec"]
    spec["terminationGracePeriodSeconds"] = 1
    spec["containers"][0] |= {"image": "lode-test/busybox:1", "imagePullPolicy": "IfNotPresent", "command": SLEEP}
    return objects


def daemons(client: Client) -> list[Object]:
    """What NVIDIA's driver starts for a ComputeDomain: a daemon on each node, here without waiting for its pods."""
    workers = client.cluster.workers
    pods = [pod(f"daemon-{at}", "any-daemon", nodeSelector={HOSTNAME: node}) for at, node in enumerate(workers)]
    return [claim_template("any", "daemon"), *pods]


def members(client: Client, namespace: str, name: str = "gang") -> dict[str, str]:
    """The node of each pod of a gang; "" for one that is not bound."""
    listed = client.list("pods", namespace, labels=f"batch.kubernetes.io/job-name={name}")
    return {it["metadata"]["name"]: it["spec"].get("nodeName", "") for it in listed}


def started(client: Client, namespace: str, name: str = "gang") -> dict[str, str]:
    """Wait until both pods of a gang run; returns their nodes."""

    found = eventually("its pods exist", lambda: pair if len(pair := members(client, namespace, name)) == 2 else {})
    client.wait_until_ready(namespace, *found)
    return members(client, namespace, name)


def told(client: Client, namespace: str, name: str = "gang") -> str:
    """What the pods of a gang are told."""
    return "\n".join(client.messages(namespace, one) for one in members(client, namespace, name))


def check(client: Client, namespace: str, pods: dict[str, str], channels_by: str) -> None:
    """Each container sees all cards of its node, and the channel, which this program has allocated to it."""
    claims = client.claims(namespace)
    for name, node in pods.items():
        gpus, channel = claims[name]["gpus"], claims[name]["channel"]
        devices = {it["device"] for it in results(gpus)}
        assert devices == container_view(client, namespace, name, "main").devices
        assert {it["pool"].split("/")[0] for it in results(gpus)} == {node}
        assert len(devices) == CARDS
        assert [(it["driver"], it["pool"], it["device"]) for it in results(channel)] == [(DRIVER, node, "channel-0")]
        assert (allocated_by(gpus), allocated_by(channel)) == ("lode", channels_by)
        (config,) = channel["status"]["allocation"]["devices"]["config"]
        assert config["opaque"]["parameters"]["domainID"].startswith("uid-")
        assert client.exec(namespace, name, "main", "ls", IN_CONTAINER).strip() == IN_CONTAINER


def test_a_gang_has_the_cards_and_channels_of_one_rack_and_the_next_is_told_why_it_waits(
    client: Client, namespace: str, watcher: Watcher
) -> None:
    rack = set(client.cluster.workers[:2])
    client.create(namespace, *gang(2))
    eventually("it is bound", lambda: set(members(client, namespace).values()) == rack)
    assert {it["status"]["phase"] for it in client.list("pods", namespace)} == {"Pending"}
    client.create(namespace, *daemons(client))
    pods = started(client, namespace)
    check(client, namespace, pods, "kube-scheduler")
    client.create(namespace, *gang(2, "next"))
    eventually("it is told why", lambda: "1 of 2 members fit" in told(client, namespace, "next"))
    assert set(members(client, namespace, "next").values()) == {""}
    assert len(watcher.held(namespace)) == 2 * (CARDS + 1) + 3
    client.delete(namespace, "job", "gang")
    pods = started(client, namespace, "next")
    assert set(pods.values()) == rack
    check(client, namespace, pods, "kube-scheduler")


def test_a_rack_with_one_free_channel_takes_no_gang_of_two(client: Client, namespace: str, watcher: Watcher) -> None:
    """The other free channel is in another rack."""
    first, second, _ = client.cluster.workers
    holder = pod("holder", "held-channel", nodeSelector={HOSTNAME: first})
    client.create(namespace, *daemons(client), claim_template("held"), holder)
    client.wait_until_ready(namespace, "holder")
    client.create(namespace, *gang(2))
    eventually("it is told why", lambda: "devices of other drivers on 1 node" in told(client, namespace))
    assert len(watcher.held(namespace)) == 3 + 1
    client.delete(namespace, "pod", "holder")
    pods = started(client, namespace)
    assert set(pods.values()) == {first, second}
    check(client, namespace, pods, "kube-scheduler")


def test_a_gang_that_ends_before_its_channels_are_prepared_leaves_nothing(client: Client, namespace: str) -> None:
    """No daemon starts; the cards may be prepared already."""
    client.create(namespace, *gang(2))
    eventually("it is bound", lambda: "" not in members(client, namespace).values())
    eventually("a channel was refused", lambda: "needs daemon-0" in told(client, namespace))
    client.delete(namespace, "job", "gang")
    eventually_none("its pods are gone", lambda: names(client.list("pods", namespace)))
    eventually_none("nothing is left on the nodes", lambda: leftovers(client))


@pytest.mark.usefixtures("named")
def test_channels_and_daemons_are_allocated_by_lode_once_their_driver_is_named(client: Client, namespace: str) -> None:
    client.create(namespace, *daemons(client), *gang(2))
    pods = started(client, namespace)
    assert set(pods.values()) == set(client.cluster.workers[:2])
    check(client, namespace, pods, "lode")
    client.wait_until_ready(namespace)
    daemon_claims = [it for name, it in client.claims(namespace).items() if name.startswith("daemon-")]
    assert {allocated_by(one) for claims in daemon_claims for one in claims.values()} == {"lode"}
    client.create(namespace, *gang(2, "next"))
    eventually("it is told why", lambda: "1 of 2 members fit" in told(client, namespace, "next"))
