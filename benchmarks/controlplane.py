"""A real control plane with simulated nodes and an installed flavor of the driver, for benchmarks without kubelets.

Every call of kube-scheduler and of our controller takes a chosen time longer than the API server needs (testclusters'
forwarder). kube-controller-manager, which creates and frees claims for every flavor alike, is not delayed.
"""

import json
import os
import pstats
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import yaml

from benchmarks import fleet
from benchmarks.allocation.hardware import Model
from benchmarks.versions import Version
from driver.kinds import Offer
from driver.kube.api import NAMESPACES, NODES, RESOURCE_SLICES, Api, NotFound, Resource
from driver.kube.client import KubeClient
from driver.names import DEFAULT_DRIVER, Names
from driver.wire import Json
from testclusters.commands import start_process
from testclusters.controlplane import ControlPlane

T = TypeVar("T")
NAMESPACE = "bench"
SYSTEM = "lode-system"
ACCOUNT = f"system:serviceaccount:{SYSTEM}:lode-controller"
WRITERS = 8
"""Concurrent requests while objects are created."""
START_SECONDS = 60.0
PROFILED = 30
"""Lines of a profile that are printed."""
_SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
_GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}")
_RUNS_PODS = ("DaemonSet", "Deployment", "PodDisruptionBudget")
"""Kinds that are not installed: nothing runs pods here, and a pod of each daemon set would wait on every node."""


@dataclass(frozen=True)
class Cluster:
    """A control plane with nodes and published cards, and the API as administrator, without delay."""

    plane: ControlPlane
    api: Api

    def install(self, version: Version, flavor: str, without: str = "") -> None:
        """Install a flavor's manifests, without the programs and without the objects of one name.

        Raises `ValueError` if the flavor has no object of that name.
        """
        rendered = list(yaml.safe_load_all(self.plane.kubectl("kustomize", version.manifests(flavor)).stdout))
        if without and without not in {raw["metadata"]["name"] for raw in rendered}:
            raise ValueError(f"manifests/{flavor} has no object with the name {without}; see that it is spelled right")
        wanted = [raw for raw in rendered if raw["kind"] not in _RUNS_PODS and raw["metadata"]["name"] != without]
        self.plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(wanted))

    def await_gate(self, pod: Json) -> None:
        """Wait until a new pod like ``pod`` would get our scheduling gate."""

        def gated() -> bool:
            command = ("create", "-f", "-", "--dry-run=server", "-o", "json")
            created = json.loads(self.plane.kubectl(*command, input=json.dumps(pod)).stdout)
            return bool(created["spec"].get("schedulingGates"))

        wait_until("the gate is in force", gated)


@contextmanager
def cluster(
    cards: Sequence[Model],
    delay: float,
    *,
    offer: Sequence[Offer] = fleet.WHOLE,
    flags: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[Cluster]:
    """A cluster with a node for each entry of ``cards``; the driver is not installed yet.

    ``delay`` is what each call of kube-scheduler takes longer, in seconds; ``offer`` is what the cards are offered as;
    ``flags`` are for the programs of the control plane.
    """
    with ControlPlane(delay=delay, delayed=["kube-scheduler"], flags=flags) as plane:
        client = KubeClient.from_environment(str(plane.kubeconfig()))
        try:
            # Slices first: after the manifests are installed, only the plugin can write them.
            concurrently(lambda raw: client.create(NODES, raw), [fleet.node(number) for number in range(len(cards))])
            concurrently(lambda raw: client.create(RESOURCE_SLICES, raw), fleet.slices(cards, offer))
            add_namespace(client, NAMESPACE)
            yield Cluster(plane, client)
        finally:
            client.close()


def add_namespace(api: Api, name: str) -> None:
    """Create a namespace, and wait until pods can be created in it."""

    def has_service_account() -> bool:
        try:
            return bool(api.get(_SERVICE_ACCOUNTS, "default", name))
        except NotFound:
            return False

    api.create(NAMESPACES, {"metadata": {"name": name}})
    wait_until("pods can be created", has_service_account)


@dataclass(frozen=True)
class RunningController:
    """The process of a controller."""

    process: "subprocess.Popen[bytes]"
    log: Callable[[], str] = field(repr=False)

    def check_alive(self) -> None:
        """Raises `RuntimeError` with the end of its log if the controller has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the controller ended with status {self.process.returncode}:\n{self.log()[-2000:]}")


@contextmanager
def controller(
    plane: ControlPlane,
    version: Version,
    *,
    observe: str = "",
    profile: bool = False,
    chosen: Json | None = None,
    name: str = "controller",
) -> Iterator[RunningController]:
    """A running controller whose calls are delayed, with the ``chosen`` settings of its own section.

    It serves its metrics at the address ``observe``, "" for none. Its log has its ``name``. With ``profile`` its main
    thread is profiled, and the profile is printed to standard error at the end.
    """
    settings, stats = plane.folder / f"{name}.yaml", plane.folder / f"{name}.prof"
    settings.write_text(json.dumps({"observeAddress": observe, "controller": chosen or {}}))
    kubeconfig = plane.kubeconfig(ACCOUNT, _GROUPS, delayed=True)
    # -P: modules come from the version's tree, whatever the current folder is.
    python = [sys.executable, "-P", *(["-m", "cProfile", "-o", str(stats)] if profile else [])]
    own = ["-m", "controller", "--settings", str(settings), "--kubeconfig", str(kubeconfig)]
    environment = {**os.environ, "PYTHONPATH": str(version.root)}
    process = start_process([*python, *own], plane.folder / f"{name}.log", environment)
    try:
        yield RunningController(process, lambda: plane.log(name))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(START_SECONDS)
        if profile and stats.exists():
            pstats.Stats(str(stats), stream=sys.stderr).sort_stats("cumulative").print_stats(PROFILED)


def _nothing() -> None:
    return None


def wait_until(
    condition: str,
    holds: Callable[[], bool],
    check_alive: Callable[[], None] = _nothing,
    seconds: float = START_SECONDS,
) -> None:
    """Wait until ``holds`` returns true; raises `TimeoutError` after ``seconds``, and what ``check_alive`` raises."""
    deadline = time.monotonic() + seconds
    while not holds():
        check_alive()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{condition}: not within {seconds:.0f} s")
        time.sleep(0.1)


def concurrently(write: Callable[[T], object], objects: Sequence[T]) -> None:
    """Call ``write`` for every object, with several calls at once; raises what the first failed call raised."""
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, objects))


def list_all(api: Api, resource: Resource, namespace: str = "") -> Iterator[Json]:
    """Every object of a kind in a namespace, or in all namespaces if it is "", page by page."""
    page = api.list(resource, namespace=namespace)
    yield from page.items
    while page.continue_token:
        page = api.list(resource, namespace=namespace, continue_token=page.continue_token)
        yield from page.items


def pod(name: str, *, spec: Json, claim: Json, requests: Mapping[str, str] | None = None) -> Json:
    """A pod with one claim; ``claim`` says where it comes from, such as ``{"resourceClaimName": "c"}``."""
    resources = {"claims": [{"name": "card"}], "requests": requests or {}}
    container = {"name": "main", "image": "none", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"resourceClaims": [{"name": "card", **claim}], "containers": [container], **spec},
    }


def held_status(node: str, results: Sequence[Json], pod: str, uid: str) -> Json:
    """The status of a claim that is allocated on a node, and reserved for the pod with ``uid``.

    ``results`` are without driver and pool.
    """
    place = {"driver": DEFAULT_DRIVER, "pool": Names(DEFAULT_DRIVER).pool(node)}
    on_node = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "allocation": {
            "devices": {"results": [{**place, **result} for result in results]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [on_node]}]},
        },
        "reservedFor": [{"resource": "pods", "name": pod, "uid": uid}],
    }
