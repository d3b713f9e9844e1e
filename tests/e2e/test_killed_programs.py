"""Programs are killed, and a node loses its power, while pods come and go: what is pending completes, nothing is held
twice (the watcher looks at every event), nothing leaks (the namespace's end looks everywhere).
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from testclusters import KindCluster
from tests.e2e.client import Client, eventually
from tests.e2e.container import Published, seen
from tests.e2e.controller import LABEL, SYSTEM, leader, usage_is_what_the_claims_say
from tests.e2e.flavours import wait_until_installed
from tests.e2e.nodes import prepared, thaw
from tests.e2e.pods import pod, request, template
from tests.e2e.watcher import Watcher

PLUGINS = "app.kubernetes.io/name=lode-kubeletplugin"


@contextmanager
def pods_come_and_go(client: Client, space: str, seconds: float) -> Iterator[None]:
    """Pods with claims of every kind are made and deleted from a thread, until ``seconds`` after entering at least and
    the end of the block; then as many are left as the cards can hold.
    """
    requests = {
        "whole": request("gpu"),
        "pair": request("gpu", count=2),
        "share": request("gpu-share", memory="8Gi"),
        "mig": request("mig", selector='device.attributes["lode.dev"].profile == "1g.5gb"'),
        "npu": request("npu"),
        "vnpu": request("vnpu", selector='device.attributes["lode.dev"].profile == "vir02"'),
    }
    client.apply(space, *(template(name, it) for name, it in requests.items()))
    done = threading.Event()
    failures: list[BaseException] = []
    thread = threading.Thread(target=_churn, args=(client, space, list(requests), done, failures))
    began = time.monotonic()
    thread.start()
    try:
        yield
        done.wait(max(0.0, seconds - (time.monotonic() - began)))
    finally:
        done.set()
        thread.join()
    assert not failures, failures


def _churn(client: Client, space: str, kinds: list[str], done: threading.Event, failures: list[BaseException]) -> None:
    """Two waves of each kind live at once; the older goes when a newer comes."""
    try:
        for wave in itertools.count():
            if done.is_set():
                return
            fresh = [pod(f"{kind}-{wave}", kind) for kind in kinds]
            _insist(lambda fresh=fresh: client.apply(space, *fresh))  # type: ignore[misc]
            if wave >= 2:
                old = [f"{kind}-{wave - 2}" for kind in kinds]
                _insist(lambda old=old: client.delete(space, "pods", *old, wait=False))  # type: ignore[misc]
            done.wait(2)
    except BaseException as error:
        failures.append(error)
        raise


def _insist(command: Callable[[], None]) -> None:
    """Repeat a command while the API server is away."""

    def succeeds() -> bool:
        command()
        return True

    eventually("the API server takes a command", succeeds)


def all_is_well(client: Client, space: str, watcher: Watcher) -> None:
    """Every pod that is left runs and sees what it holds; the controller's memory is right."""
    client.wait_until_ready(space, help_on=lambda: thaw(client))
    published = Published.read(client)
    for name, claims in client.claims(space).items():
        assert seen(client, space, name, "main") == published.expected(claims)
    usage_is_what_the_claims_say(client, watcher)


def kill_in_containers(client: Client, label: str) -> None:
    """SIGKILL the program of every container of these pods, on its node."""
    kill = ("ctr", "-n", "k8s.io", "task", "kill", "-s", "KILL")
    for it in client.list("pods", SYSTEM, "-l", label):
        for status in it["status"].get("containerStatuses", []):
            if identity := status.get("containerID", "").removeprefix("containerd://"):
                client.cluster.node_exec(it["spec"]["nodeName"], *kill, identity, check=False)


@pytest.mark.parametrize("victims", [LABEL, PLUGINS], ids=["controllers", "plugins"])
def test_our_own_programs_are_killed(client: Client, space: str, watcher: Watcher, victims: str) -> None:
    with pods_come_and_go(client, space, seconds=14):
        for _ in range(2):
            time.sleep(4)
            kill_in_containers(client, victims)
    wait_until_installed(client)
    all_is_well(client, space, watcher)


def test_the_plugin_is_killed_in_the_middle_of_a_rolling_update(client: Client, space: str, watcher: Watcher) -> None:
    with pods_come_and_go(client, space, seconds=10):
        client.kubectl("-n", SYSTEM, "rollout", "restart", "daemonset/lode-kubeletplugin")
        time.sleep(2)
        kill_in_containers(client, PLUGINS)
    wait_until_installed(client)
    all_is_well(client, space, watcher)


@pytest.mark.parametrize("program", ["kubelet", "containerd"])
def test_a_node_program_is_killed_on_every_worker(
    client: Client, cluster: KindCluster, space: str, watcher: Watcher, program: str
) -> None:
    with pods_come_and_go(client, space, seconds=10):
        time.sleep(3)
        for node in cluster.workers:
            cluster.kill(node, program)
    cluster.wait_ready()
    wait_until_installed(client)
    all_is_well(client, space, watcher)


def test_the_api_server_is_killed(client: Client, cluster: KindCluster, space: str, watcher: Watcher) -> None:
    with pods_come_and_go(client, space, seconds=12):
        time.sleep(3)
        cluster.kill(cluster.control_plane, "kube-apiserver")
    wait_until_installed(client)
    all_is_well(client, space, watcher)


def test_a_node_loses_its_power(client: Client, cluster: KindCluster, space: str, watcher: Watcher) -> None:
    client.create(space, template("pair", request(count=2)), pod("survivor", "pair", profile="a100x4"))
    client.wait_until_ready(space)
    (node,) = {it["spec"]["nodeName"] for it in client.list("pods", space)}
    (uid,) = prepared(client, node)
    before = boot_id(cluster, node)
    cluster.restart_node(node)
    eventually("the survivor was started again", lambda: _restarted(client, space, "survivor"))
    assert boot_id(cluster, node) != before
    assert prepared(client, node)[uid]["bootId"] == boot_id(cluster, node)
    wait_until_installed(client)
    all_is_well(client, space, watcher)


def boot_id(cluster: KindCluster, node: str) -> str:
    return cluster.node_exec(node, "cat", "/run/lode/boot-id").stdout.strip()


def _restarted(client: Client, space: str, name: str) -> bool:
    (status,) = client.get("pod", name, space)["status"]["containerStatuses"]
    return bool(status["ready"] and status["restartCount"] > 0)


def test_the_leader_changes_while_pods_come_and_go(client: Client, space: str, watcher: Watcher) -> None:
    with pods_come_and_go(client, space, seconds=20):
        first = leader(client)
        # Its lease is taken from it and it goes on running: a deposed leader must not write.
        give_lease_away(client)
        second = eventually("there is a leader again", lambda: leader(client))
        client.kubectl("-n", SYSTEM, "delete", "pod", second, "--wait=false")
        third = eventually("another one leads", lambda: other_leader(client, second))
    assert len({first, second, third}) > 1
    wait_until_installed(client)
    all_is_well(client, space, watcher)


def give_lease_away(client: Client) -> None:
    """Write somebody into the lease who does not exist; it runs out and the replicas compete for it."""
    patch = '{"spec":{"holderIdentity":"nobody"}}'
    client.kubectl("-n", SYSTEM, "patch", "lease", "lode-controller", "--type=merge", "-p", patch)


def other_leader(client: Client, before: str) -> str:
    now = leader(client)
    assert now != before
    return now
