"""Installed with kustomize or Helm, used, uninstalled, and installed again: nothing is left in between."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testclusters.programs import helm_program
from tests.e2e import flavors, nodes
from tests.e2e.client import Client, Object, eventually
from tests.e2e.pods import pod, request, template

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "lode"
RELEASE = "lode"
HELM_VALUES = ("--set=hardware=simulated", "--set=image.pullPolicy=Never")
GATE = {"name": "lode.dev/allocation"}


def call(client: Client, *command: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    """Run a program that uses the cluster, in the cluster's network."""
    return client.cluster.docker.run(*command, f"--kubeconfig={client.cluster.kubeconfig}", check=check, timeout=300)


def install_with_helm(client: Client) -> None:
    call(client, str(helm_program()), "install", RELEASE, str(CHART), "--namespace=default", *HELM_VALUES)
    flavors.wait_until_installed(client)


def remove_with_helm(client: Client) -> None:
    call(client, str(helm_program()), "uninstall", RELEASE, "--namespace=default", "--wait")


def install_with_kustomize(client: Client) -> None:
    flavors.install(client, flavors.CONTROLLER_ALLOCATED)


def remove_with_kustomize(client: Client) -> None:
    folder = str(flavors.CONTROLLER_ALLOCATED)
    client.kubectl("delete", "--ignore-not-found", "-k", folder, timeout=180)


@pytest.fixture(autouse=True)
def installed_again(client: Client) -> Iterator[None]:
    """Whatever a test does, the default flavor is installed with kustomize afterwards."""
    yield
    call(client, str(helm_program()), "uninstall", RELEASE, "--namespace=default", "--ignore-not-found", "--wait")
    install_with_kustomize(client)


def left_in_the_cluster(client: Client) -> dict[str, list[str]]:
    """What there is of Lode outside of its nodes; empty if nothing is left."""
    found = {
        "gates": [
            it["metadata"]["name"] for it in client.list("pods") if GATE in it["spec"].get("schedulingGates", [])
        ],
        "slices": [
            it["metadata"]["name"] for it in client.list("resourceslices") if it["spec"]["driver"] == "lode.dev"
        ],
    }
    kinds = ("mutatingadmissionpolicies", "validatingadmissionpolicies", "deviceclasses", "clusterroles", "namespaces")
    for kind in kinds:
        printed = client.kubectl("get", kind, "--output=name", "--selector=app.kubernetes.io/part-of=lode")
        found[kind] = printed.split()
    return {kind: names for kind, names in found.items() if names}


def uninstall(client: Client) -> "subprocess.CompletedProcess[str]":
    return call(client, sys.executable, "-m", "cli", "uninstall", check=False)


@pytest.mark.parametrize(
    ("install", "remove"),
    [
        (install_with_kustomize, remove_with_kustomize),
        pytest.param(install_with_helm, remove_with_helm, marks=pytest.mark.release),
    ],
    ids=["kustomize", "Helm"],
)
def test_use_uninstall_and_install_again(
    client: Client, namespace: str, install: Callable[[Client], None], remove: Callable[[Client], None]
) -> None:
    if install is install_with_helm:
        assert uninstall(client).returncode == 0
        remove_with_kustomize(client)
    install(client)
    client.create(namespace, template("one", request()), pod("user", "one"))
    client.wait_until_ready(namespace)
    refused = uninstall(client)
    assert refused.returncode == 1, refused.stderr
    client.delete(namespace, "pod", "user")
    eventually("the claim is gone", lambda: not client.list("resourceclaims", namespace))
    client.create(namespace, template("many", request(count=30)), pod("waiting", "many"))
    eventually("the gate is there", lambda: GATE in client.get("pods", "waiting", namespace)["spec"]["schedulingGates"])
    assert uninstall(client).returncode == 0
    remove(client)
    eventually("nothing is left", lambda: not left_in_the_cluster(client))
    assert "schedulingGates" not in client.get("pods", "waiting", namespace)["spec"]
    assert not nodes.leftovers(client)
    assert not nodes.own_files(client)
    client.delete(namespace, "pod", "waiting")
    install_with_kustomize(client)
    client.create(namespace, pod("again", "one"))
    client.wait_until_ready(namespace)


RUNNING = {
    "whole": request(),
    "share": request("gpu-share", memory="4Gi"),
    "part": request("mig", selector='device.attributes["lode.dev"].profile == "1g.5gb"'),
}
"""Pods of several kinds that run, by name, with what each asks for."""
WAITING = {"many": request(count=30), "more": request(count=31)}
"""Pods that no node can take."""


def test_every_waiting_pod_is_let_go_and_every_kind_of_claim_works_again(client: Client, namespace: str) -> None:
    install_with_kustomize(client)
    client.create(namespace, *(template(name, it) for name, it in {**RUNNING, **WAITING}.items()))
    client.create(namespace, *(pod(name, name) for name in {**RUNNING, **WAITING}))
    client.wait_until_ready(namespace, *RUNNING)
    eventually("they wait", lambda: all(gates(client, name, namespace) == [GATE] for name in WAITING))
    refused = uninstall(client)
    assert refused.returncode == 1, refused.stderr
    assert f"devices of {len(RUNNING)} claims" in refused.stderr
    assert all(gates(client, name, namespace) == [GATE] for name in WAITING), "nothing was changed"
    client.delete(namespace, "pod", *RUNNING)
    eventually("their claims are gone", lambda: len(client.list("resourceclaims", namespace)) == len(WAITING))
    assert uninstall(client).returncode == 0
    remove_with_kustomize(client)
    eventually("nothing is left", lambda: not left_in_the_cluster(client))
    assert not any(gates(client, name, namespace) for name in WAITING)
    assert not nodes.leftovers(client)
    assert not nodes.own_files(client)
    client.delete(namespace, "pod", *WAITING)
    install_with_kustomize(client)
    client.create(namespace, *(pod(name, name) for name in RUNNING))
    client.wait_until_ready(namespace, *RUNNING)


def test_a_container_runs_soon_after_helm_install(
    client: Client, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The time is printed."""
    assert uninstall(client).returncode == 0
    remove_with_kustomize(client)
    eventually("nothing is left", lambda: not left_in_the_cluster(client))
    began = time.monotonic()
    call(client, str(helm_program()), "install", RELEASE, str(CHART), "--namespace=default", *HELM_VALUES)
    client.create(namespace, template("one", request()), pod("first", "one"))
    client.wait_until_ready(namespace, "first")
    seconds = round(time.monotonic() - began, 1)
    with capsys.disabled():
        print(f"\nfrom helm install to the first running container: {seconds} s")


def gates(client: Client, name: str, namespace: str) -> list[Object]:
    return list(client.get("pods", name, namespace)["spec"].get("schedulingGates", []))
