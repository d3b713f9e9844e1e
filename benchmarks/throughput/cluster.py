"""A control plane with nodes, published cards and, for our flavor, the controller beside kube-scheduler."""

import json
import pstats
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from random import Random

import yaml

from benchmarks.allocation.hardware import CARDS, MODELS, NODES_PER_FABRIC, Model
from driver.kinds import Offer
from driver.kube.api import NAMESPACES, NODES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, Api
from driver.kube.client import KubeClient
from driver.names import DEFAULT_DRIVER, Names
from driver.wire import Json, slice_spec_to
from kubeletplugin.hardware.simulated import Profile, load_profile
from kubeletplugin.inventory import Fabric, build_inventory
from kubeletplugin.publish.slices import build_slices
from simulation.files import MemoryFiles
from testclusters import ControlPlane, start_process

NAMESPACE = "bench"
TEMPLATE = "one"
WRITERS = 8
"""Concurrent requests while objects are created."""
START_SECONDS = 60.0
PROFILED = 30
"""Lines of a profile that are printed."""
_WHOLE: tuple[Offer, ...] = ("whole",)
_SYSTEM = "lode-system"
_ACCOUNT = f"system:serviceaccount:{_SYSTEM}:lode-controller"
_GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{_SYSTEM}")
_RUNS_PODS = ("DaemonSet", "Deployment", "PodDisruptionBudget")
"""Kinds that are not installed: nothing runs pods here, and a pod of each daemon set would wait on every node."""


@dataclass(frozen=True)
class Flavor:
    """Who allocates; ``manifests`` is the folder that an operator installs for it."""

    name: str
    manifests: str
    with_controller: bool


FLAVORS = (
    Flavor("lode controller", "manifests/controller-allocated", True),
    Flavor("kube-scheduler", "manifests/scheduler-allocated", False),
)


@contextmanager
def cluster(flavor: Flavor, nodes: int, *, profile: bool) -> Iterator[tuple[Api, Callable[[], None]]]:
    """The API as administrator after everything is set up, and a check that the controller runs.

    The check raises `RuntimeError` if the controller has ended. With ``profile`` the controller's main thread is
    profiled, and the profile is printed to standard error at the end.
    """
    with ExitStack() as ending:
        plane = ending.enter_context(ControlPlane())
        api = KubeClient.from_environment(str(plane.kubeconfig()))
        ending.callback(api.close)
        # Slices first: after the manifests are installed, only the plugin can write them.
        _concurrently(lambda node: api.create(NODES, node), [_node(number) for number in range(nodes)])
        _concurrently(lambda part: api.create(RESOURCE_SLICES, part), _slices(nodes))
        rendered = yaml.safe_load_all(plane.kubectl("kustomize", flavor.manifests).stdout)
        wanted = [raw for raw in rendered if raw["kind"] not in _RUNS_PODS]
        plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(wanted))
        api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        api.create(RESOURCE_CLAIM_TEMPLATES, _template(), NAMESPACE)
        if flavor.with_controller:
            yield api, ending.enter_context(_controller(plane, profile=profile))
        else:
            yield api, lambda: None


@contextmanager
def _controller(plane: ControlPlane, *, profile: bool) -> Iterator[Callable[[], None]]:
    settings, stats = plane.folder / "settings.yaml", plane.folder / "controller.prof"
    settings.write_text('observeAddress: ""\n')
    profiler = ["-m", "cProfile", "-o", str(stats)] if profile else []
    kubeconfig = plane.kubeconfig(_ACCOUNT, _GROUPS)
    own = ["-m", "controller", "--settings", str(settings), "--kubeconfig", str(kubeconfig)]
    process = start_process([sys.executable, *profiler, *own], plane.folder / "controller.log")

    def check_alive() -> None:
        if process.poll() is not None:
            log = plane.log("controller")[-2000:]
            raise RuntimeError(f"the controller ended with status {process.returncode}:\n{log}")

    try:
        wait_until("the gate is in force", lambda: _gated(plane), check_alive)
        yield check_alive
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(START_SECONDS)
        if profile and stats.exists():
            pstats.Stats(str(stats), stream=sys.stderr).sort_stats("cumulative").print_stats(PROFILED)


def _gated(plane: ControlPlane) -> bool:
    created = plane.kubectl("create", "-f", "-", "--dry-run=server", "-o", "json", input=json.dumps(pod("gated")))
    return bool(json.loads(created.stdout)["spec"].get("schedulingGates"))


def wait_until(
    condition: str, holds: Callable[[], bool], check_alive: Callable[[], None], seconds: float = START_SECONDS
) -> None:
    """Wait until ``holds`` returns true; raises `TimeoutError` after ``seconds``, and what ``check_alive`` raises."""
    deadline = time.monotonic() + seconds
    while not holds():
        check_alive()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{condition}: not within {seconds:.0f} s")
        time.sleep(0.1)


def _concurrently(write: Callable[[Json], object], objects: Sequence[Json]) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, objects))


def pod(name: str) -> Json:
    """A pod with a claim from the template, for one card by type and memory."""
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "card"}]}}
    spec = {"resourceClaims": [{"name": "card", "resourceClaimTemplateName": TEMPLATE}], "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _template() -> Json:
    attributes, capacity = (f'device.{kind}["{DEFAULT_DRIVER}"]' for kind in ("attributes", "capacity"))
    expression = f'{attributes}.type == "H100" && {capacity}.memory.compareTo(quantity("40Gi")) >= 0'
    exactly = {"deviceClassName": f"gpu.{DEFAULT_DRIVER}", "selectors": [{"cel": {"expression": expression}}]}
    spec = {"devices": {"requests": [{"name": "card", "exactly": exactly}]}}
    return {"metadata": {"name": TEMPLATE}, "spec": {"spec": spec}}


def _node_name(number: int) -> str:
    return f"node-{number:05}"


def _node(number: int) -> Json:
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    name = _node_name(number)
    conditions = [{"type": "Ready", "status": "True", "reason": "Benchmark"}]
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": conditions},
    }


def _slices(nodes: int) -> list[Json]:
    """The slices of nodes with eight whole cards of one model each, as the plugin publishes them."""
    weights = [model.weight for model in MODELS]
    models = Random("throughput").choices(MODELS, weights, k=nodes)
    profile = load_profile("h100x8", MemoryFiles())
    return [_slice(profile, number, model) for number, model in enumerate(models)]


def _slice(profile: Profile, number: int, model: Model) -> Json:
    names, node = Names(DEFAULT_DRIVER), _node_name(number)
    memory = model.gibibytes * 1024
    cards = [
        replace(card, type=model.type, architecture=model.architecture, memory_mib=memory, uuid=f"{node}-{card.index}")
        for card in profile.cards[:CARDS]
    ]
    offered = build_inventory(cards, Fabric(f"fabric-{number // NODES_PER_FABRIC}"), _WHOLE, 1, names)
    (part,) = build_slices(offered.devices, offered.counter_sets, node, names)
    return {"metadata": {"name": part.name}, "spec": slice_spec_to(replace(part, generation=1))}
