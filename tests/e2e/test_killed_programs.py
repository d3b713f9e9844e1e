"""Programs are killed, and a node is powered off, while pods are created and deleted.

Pending work completes, no device is allocated twice (the watcher checks every event), and nothing is left (the
namespace fixture checks that).
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from testclusters.kind import KindCluster
from tests.e2e.client import Client, eventually
from tests.e2e.container import Published, container_view
from tests.e2e.controller import LABEL, SYSTEM, check_usage_matches_claims, leader
from tests.e2e.flavors import wait_until_installed
from tests.e2e.nodes import PLUGIN_NAMESPACE, PLUGINS, node_states, thaw
from tests.e2e.pods import pod, request, template
from tests.e2e.watcher import Watcher


@contextmanager
def churning_pods(client: Client, namespace: str, seconds: float) -> Iterator[None]:
    """Create and delete pods with claims of every kind in a thread during the block, for at least ``seconds``.

    Afterwards, as many pods are left as fit on the cards.
    """
    requests = {
        "whole": request("gpu"),
        "pair": request("gpu", count=2),
        "share": request("gpu-share", memory="8Gi"),
        "mig": request("mig", selector='device.attributes["lode.dev"].profile == "1g.5gb"'),
        "npu": request("npu"),
        "vnpu": request("vnpu", selector='device.attributes["lode.dev"].profile == "vir02"'),
    }
    client.apply(namespace, *(template(name, it) for name, it in requests.items()))
    done = threading.Event()
    failures: list[BaseException] = []
    thread = threading.Thread(target=_churn, args=(client, namespace, list(requests), done, failures))
    began = time.monotonic()
    thread.start()
    try:
        yield
        done.wait(max(0.0, seconds - (time.monotonic() - began)))
    finally:
        done.set()
        thread.join()
    assert not failures, failures


def _churn(
    client: Client, namespace: str, kinds: list[str], done: threading.Event, failures: list[BaseException]
) -> None:
    """Keep two waves of pods: when a new wave is created, the oldest is deleted."""
    try:
        for wave in itertools.count():
            if done.is_set():
                return
            new = [pod(f"{kind}-{wave}", kind) for kind in kinds]
            _retry(lambda new=new: client.apply(namespace, *new))  # type: ignore[misc]
            if wave >= 2:
                old = [f"{kind}-{wave - 2}" for kind in kinds]
                _retry(lambda old=old: client.delete(namespace, "pods", *old, wait=False))  # type: ignore[misc]
            done.wait(2)
    except BaseException as error:
        failures.append(error)
        raise


def _retry(command: Callable[[], None]) -> None:
    """Repeat a command until it succeeds, while the API server is not available."""

    def succeeds() -> bool:
        command()
        return True

    eventually("the API server accepts a command", succeeds)


def check_everything(client: Client, namespace: str, watcher: Watcher) -> None:
    """Every remaining pod runs and sees its devices, and the controller's usage is correct."""
    client.wait_until_ready(namespace, before_check=lambda: thaw(client))
    published = Published.read(client)
    for name, claims in client.claims(namespace).items():
        assert container_view(client, namespace, name, "main") == published.expected(claims)
    check_usage_matches_claims(client, watcher)


def kill_in_containers(client: Client, label: str) -> None:
    """SIGKILL the program of every container of these pods, on its node."""
    kill = ("ctr", "-n", "k8s.io", "task", "kill", "-s", "KILL")
    for it in client.list("pods", labels=label):
        for status in it["status"].get("containerStatuses", []):
            if identity := status.get("containerID", "").removeprefix("containerd://"):
                client.cluster.node_exec(it["spec"]["nodeName"], *kill, identity, check=False)


@pytest.mark.parametrize("victims", [LABEL, PLUGINS], ids=["controllers", "plugins"])
def test_our_own_programs_are_killed(client: Client, namespace: str, watcher: Watcher, victims: str) -> None:
    with churning_pods(client, namespace, seconds=14):
        for _ in range(2):
            time.sleep(4)
            kill_in_containers(client, victims)
    wait_until_installed(client)
    check_everything(client, namespace, watcher)


def test_the_plugin_is_killed_in_the_middle_of_a_rolling_update(
    client: Client, namespace: str, watcher: Watcher
) -> None:
    with churning_pods(client, namespace, seconds=10):
        client.kubectl("-n", PLUGIN_NAMESPACE, "rollout", "restart", "daemonset/lode-kubeletplugin")
        time.sleep(2)
        kill_in_containers(client, PLUGINS)
    wait_until_installed(client)
    check_everything(client, namespace, watcher)


@pytest.mark.parametrize("program", ["kubelet", "containerd"])
def test_a_node_program_is_killed_on_every_worker(
    client: Client, cluster: KindCluster, namespace: str, watcher: Watcher, program: str
) -> None:
    with churning_pods(client, namespace, seconds=10):
        time.sleep(3)
        for node in cluster.workers:
            cluster.kill(node, program)
    cluster.wait_ready()
    wait_until_installed(client)
    check_everything(client, namespace, watcher)


def test_the_api_server_is_killed(client: Client, cluster: KindCluster, namespace: str, watcher: Watcher) -> None:
    with churning_pods(client, namespace, seconds=12):
        time.sleep(3)
        cluster.kill(cluster.control_plane, "kube-apiserver")
    wait_until_installed(client)
    check_everything(client, namespace, watcher)


def test_a_node_is_powered_off_and_on(client: Client, cluster: KindCluster, namespace: str, watcher: Watcher) -> None:
    client.create(namespace, template("pair", request(count=2)), pod("survivor", "pair", profile="a100x4"))
    client.wait_until_ready(namespace)
    (node,) = {it["spec"]["nodeName"] for it in client.list("pods", namespace)}
    (uid,) = node_states(client)[node].prepared
    before = boot_id(cluster, node)
    cluster.restart_node(node)
    eventually("the pod was restarted", lambda: _restarted(client, namespace, "survivor"))
    assert boot_id(cluster, node) != before
    assert node_states(client)[node].prepared[uid]["bootId"] == boot_id(cluster, node)
    wait_until_installed(client)
    check_everything(client, namespace, watcher)


def boot_id(cluster: KindCluster, node: str) -> str:
    return cluster.node_exec(node, "cat", "/run/lode/boot-id").stdout.strip()


def _restarted(client: Client, namespace: str, name: str) -> bool:
    (status,) = client.get("pods", name, namespace)["status"]["containerStatuses"]
    return bool(status["ready"] and status["restartCount"] > 0)


def test_the_leader_changes_while_pods_are_created_and_deleted(
    client: Client, namespace: str, watcher: Watcher
) -> None:
    with churning_pods(client, namespace, seconds=20):
        first = leader(client)
        # The leader loses its lease but still runs: it must not write any more.
        give_lease_away(client)
        second = eventually("there is a leader again", lambda: leader(client))
        client.kubectl("-n", SYSTEM, "delete", "pod", second, "--wait=false")
        third = eventually("another replica leads", lambda: other_leader(client, second))
    assert len({first, second, third}) > 1
    wait_until_installed(client)
    check_everything(client, namespace, watcher)


def give_lease_away(client: Client) -> None:
    """Set a holder of the lease that does not exist; when it expires, the replicas compete for it."""
    patch = '{"spec":{"holderIdentity":"nobody"}}'
    client.kubectl("-n", SYSTEM, "patch", "lease", "lode-controller", "--type=merge", "-p", patch)


def other_leader(client: Client, before: str) -> str:
    now = leader(client)
    assert now != before
    return now
