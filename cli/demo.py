"""``lode demo``: the main job from end to end on this machine, over a Kubernetes API in memory.

Controller and kubelet plugins are the real programs with their threads, gRPC sockets, checkpoints and CDI files. The
rest is simulated: the API server is in memory; kube-scheduler, kubelet and the built-in controllers are fakes that call
the programs as the real ones do.
"""

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from cli.resource_classes import class_of, published
from cli.shipped import device_classes, examples
from cli.tables import claims_table, pods_table, table
from cli.ui.questions import ClusterQuestions
from cli.ui.run import served
from driver.errors import LodeError
from driver.kube.api import (
    DEVICE_CLASSES,
    EVENTS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    NotFound,
    Object,
)
from driver.kube.objects import claim_name, name_key, pod_phase
from driver.names import DEFAULT_DRIVER, NUMA_NODE, Names
from driver.observe import configure_logs
from driver.wire import claim_from
from memoryapi import JOBS
from simulation.invariants import Violation
from simulation.realtime import RealTimeCluster

NAMES = Names()
NODES = {
    "gpu-1": ("h100x8", {f"{DEFAULT_DRIVER}/ib-cluster": "ib-a"}),
    "gpu-2": ("a100x4", {f"{DEFAULT_DRIVER}/ib-cluster": "ib-b"}),
    "npu-1": ("ascend310px4", {}),
}
"""Node to its hardware profile and its other labels. The examples use all eight cards of the first."""
BRIDGED_NODE = {"amd-1": ("mi300x8", dict[str, str]())}
"""A node whose devices vendors' device plugins serve."""
Nodes = Mapping[str, tuple[str, Mapping[str, str]]]
KINDS = {"ResourceClaimTemplate": RESOURCE_CLAIM_TEMPLATES, "ResourceClaim": RESOURCE_CLAIMS, "Pod": PODS, "Job": JOBS}
INTRODUCTION = """\
The Kubernetes API below is in memory: no cluster is needed, and none is touched. Controller and kubelet plugins are the
real programs, with their threads, gRPC sockets, checkpoints and CDI files (in a folder that is removed at the end).
kube-scheduler, the kubelets and the built-in controllers are fakes that call them as the real ones do."""
NAMESPACE = "default"
SHOWN = "share-4gi"
OF_DEVICE_PLUGINS = "of-device-plugins"
TOO_MANY = "one-too-many"
PATIENCE_SECONDS = 30.0


class DemoFailed(LodeError):
    """Something is not as the demo expects."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if everything was as expected, 1 otherwise."""
    parser = argparse.ArgumentParser("lode demo", description="Run the whole system over an API in memory.")
    parser.add_argument("--verbose", action="store_true", help="show what the programs log")
    parser.add_argument(
        "--device-plugins", action="store_true", help="add a node whose devices vendors' device plugins serve"
    )
    parser.add_argument("--ui", action="store_true", help="serve the page of lode ui while all pods run, until Ctrl-C")
    parser.add_argument("--port", type=int, default=0, metavar="NUMBER", help="of that page; default: one that is free")
    arguments = parser.parse_args(argv)
    configure_logs("info" if arguments.verbose else "error", "console")
    started = time.monotonic()
    nodes = NODES | (BRIDGED_NODE if arguments.device_plugins else {})
    folder = Path(tempfile.mkdtemp(prefix="lode-"))
    try:
        problems = _run(folder, nodes, partial(_serve, arguments.port) if arguments.ui else _look_at_nothing)
    except (LodeError, Violation) as error:
        problems = [str(error)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for problem in problems:
        print(f"\nFAILED: {problem}", file=sys.stderr)
    if not problems:
        print(f"\nEverything as expected, in {time.monotonic() - started:.1f} s.")
        if not arguments.ui:
            print("To look at this fleet in a browser: lode demo --ui (in a checkout: make demo ARGS=--ui)")
    return 1 if problems else 0


def _look_at_nothing(_: Api) -> None:
    """Do not stop while the pods run."""


def _serve(port: int, api: Api) -> None:
    """Serve the page of the cluster until the user interrupts it."""
    _title("lode ui")
    with served(ClusterQuestions(api, NAMES, NAMESPACE), port) as address, suppress(KeyboardInterrupt):
        # A reader may interrupt as soon as it has the line, before the call that prints it returns.
        print(f"The fleet of the demo is at {address}\nInterrupt (Ctrl-C) to go on.", flush=True)
        threading.Event().wait()


def _run(folder: Path, nodes: Nodes, look: Callable[[Api], None]) -> list[str]:
    print(INTRODUCTION)
    _title(f"A cluster of {len(nodes)} nodes with simulated cards")
    labels = {name: {f"{DEFAULT_DRIVER}/simulated-profile": profile, **more} for name, (profile, more) in nodes.items()}
    cluster = RealTimeCluster(folder, labels, device_classes())
    try:
        _Demo(cluster, nodes, look).show()
    finally:
        problems = cluster.close()
    return problems


class _Demo:
    def __init__(self, cluster: RealTimeCluster, nodes: Nodes, look: Callable[[Api], None]):
        self._cluster = cluster
        self._nodes = nodes
        self._look = look
        self._api = cluster.user

    def show(self) -> None:
        before = self._publish()
        self._apply()
        self._look_at_claims()
        self._look_into_a_container()
        if self._nodes.keys() & BRIDGED_NODE.keys():
            self._use_device_plugins()
        self._one_too_many()
        self._delete_everything(before)

    def _publish(self) -> dict[str, tuple[Object, ...]]:
        self._wait_until("every node publishes its cards and every kubelet knows its plugin", self._all_published)
        rows = [(node, profile, self._kinds(node)) for node, (profile, _) in self._nodes.items()]
        print(table(("NODE", "PROFILE", "DEVICES OFFERED"), rows))
        return self._cluster.invariants.pools()

    def _all_published(self) -> bool:
        pools = self._cluster.invariants.pools()
        specs = [pools.get(NAMES.pool(node), ()) for node in self._nodes]
        complete = all(found and len(found) == found[0]["pool"]["resourceSliceCount"] for found in specs)
        return complete and not any(node.plugin.ready() for node in self._cluster.nodes.values())

    def _kinds(self, node: str) -> str:
        count: dict[str, int] = {}
        for part in self._api.list(RESOURCE_SLICES, field_selector=f"spec.nodeName={node}").items:
            for device in part["spec"].get("devices") or []:
                kind = device["attributes"]["kind"]["string"]
                count[kind] = count.get(kind, 0) + 1
        return ", ".join(f"{number} {kind}" for kind, number in sorted(count.items()))

    def _apply(self) -> None:
        _title("kubectl apply -k manifests/examples/requests")
        for objects in examples().values():
            for obj in objects:
                self._api.create(KINDS[obj["kind"]], obj, NAMESPACE)
                print(f"{obj['kind'].lower()}/{obj['metadata']['name']} created")

    def _look_at_claims(self) -> None:
        self._wait_until("every pod runs", self._all_run)
        self._cluster.invariants.check()
        _title("kubectl get resourceclaims")
        print(claims_table(self._claims(), time.time()))
        _title("kubectl get pods -o wide")
        print(pods_table(self._pods(), time.time()))
        _title("Which pod holds what")
        print(table(("POD", "REQUEST", "DEVICE", "CONSUMES"), self._holdings()))

    def _holdings(self) -> Iterable[tuple[str, ...]]:
        claims = {claim["metadata"]["name"]: claim_from(claim) for claim in self._claims()}
        for pod in self._pods():
            for entry in pod["spec"].get("resourceClaims") or []:
                claim = claims.get(claim_name(pod, entry))
                for result in claim.allocation.results if claim and claim.allocation else ():
                    consumed = ", ".join(f"{name} {amount}" for name, amount in sorted(result.consumed.items()))
                    where = f"{result.device.pool.split('/')[0]}/{result.device.device}"
                    yield pod["metadata"]["name"], result.request, where, consumed or "all of it"

    def _look_into_a_container(self) -> None:
        pod = self._pod(SHOWN)
        view = self._cluster.nodes[pod["spec"]["nodeName"]].view(pod)
        _title(f"What the container of pod {SHOWN} finds")
        print("\n".join(f"{path} (a simulated card: the null device)" for path in sorted(view.devices)))
        print("\n".join(f"{name}={value}" for name, value in sorted(view.environment.items())))
        _require(bool(view.devices and view.environment and view.mounts), f"pod {SHOWN} sees its devices")
        for inside, outside in sorted(view.mounts.items()):
            text = Path(outside).read_text().strip()
            print(f"{inside}:\n{text[:700]}{' ...' if len(text) > 700 else ''}")

    def _use_device_plugins(self) -> None:
        """A pod with two cards of one device plugin, on one NUMA node, and a slot of an adapter of another one."""
        _title("lode classes | kubectl apply -f -")
        names = []
        for resource in published(self._api.list(RESOURCE_SLICES).items, NAMES):
            made = class_of(resource, NAMES, by_scheduler=False)
            self._api.create(DEVICE_CLASSES, yaml.safe_load(made.manifest()))
            names.append(made.name)
            print(f"deviceclass/{made.name} created: {made.comment}")
        cards, adapter = names
        requests = [
            {"name": "cards", "exactly": {"deviceClassName": cards, "count": 2}},
            {"name": "adapter", "exactly": {"deviceClassName": adapter}},
        ]
        numa = {"requests": ["cards"], "matchAttribute": NUMA_NODE}
        spec = {"devices": {"requests": requests, "constraints": [numa]}}
        pod = next(obj for obj in examples()["whole-card"] if obj["kind"] == "Pod")
        claims = [{**entry, "resourceClaimTemplateName": OF_DEVICE_PLUGINS} for entry in pod["spec"]["resourceClaims"]]
        named = {"metadata": {"name": OF_DEVICE_PLUGINS}}
        self._api.create(RESOURCE_CLAIM_TEMPLATES, {**named, "spec": {"spec": spec}}, NAMESPACE)
        self._api.create(PODS, {**pod, **named, "spec": {**pod["spec"], "resourceClaims": claims}}, NAMESPACE)
        self._wait_until(f"pod {OF_DEVICE_PLUGINS} runs", lambda: self._runs(OF_DEVICE_PLUGINS))
        self._cluster.invariants.check()
        rows = [row for row in self._holdings() if row[0] == OF_DEVICE_PLUGINS]
        print(table(("POD", "REQUEST", "DEVICE", "CONSUMES"), rows))

    def _one_too_many(self) -> None:
        _title("One pod more than there are H100s")
        pod = next(obj for obj in examples()["whole-card"] if obj["kind"] == "Pod")
        self._api.create(PODS, {**pod, "metadata": {"name": TOO_MANY}}, NAMESPACE)
        self._wait_until("the pod says why it waits", lambda: bool(self._reason(TOO_MANY)))
        print(f"pod/{TOO_MANY}: {self._reason(TOO_MANY)}")
        _require(pod_phase(self._pod(TOO_MANY)) == "Pending", f"pod {TOO_MANY} waits")
        self._look(self._api)
        print("\nkubectl delete pod whole-card")
        self._api.delete(PODS, "whole-card", NAMESPACE)
        self._wait_until(f"pod {TOO_MANY} runs on the card that is free now", lambda: self._runs(TOO_MANY))
        self._cluster.invariants.check()

    def _reason(self, pod: str) -> str:
        conditions: list[Object] = self._pod(pod).get("status", {}).get("conditions") or []
        return next((str(c.get("message", "")) for c in conditions if c["type"].startswith(NAMES.driver)), "")

    def _delete_everything(self, before: Mapping[str, tuple[Object, ...]]) -> None:
        _title("kubectl delete jobs,pods,resourceclaims --all")
        for resource in (JOBS, PODS, RESOURCE_CLAIMS):
            for obj in self._api.list(resource).items:
                try:
                    self._api.delete(resource, obj["metadata"]["name"], NAMESPACE)
                except NotFound:
                    # It was deleted together with its owner.
                    continue
        self._wait_until("nothing is left", lambda: not self._remaining())
        print(claims_table(self._claims(), time.time()))
        _require(self._cluster.invariants.pools() == before, "the slices are as they were")
        print("No claim, no allocation, no checkpoint entry, no CDI or metadata file; the slices are as they were.")

    def _remaining(self) -> list[str]:
        remaining = [f"pod {pod['metadata']['name']}" for pod in self._pods()]
        remaining += [f"claim {claim['metadata']['name']}" for claim in self._claims()]
        for name, node in self._cluster.nodes.items():
            remaining += [f"{name}: claim {uid}" for uid in node.remaining_claims()]
        return remaining

    def _claims(self) -> list[Object]:
        return list(self._api.list(RESOURCE_CLAIMS).items)

    def _pods(self) -> list[Object]:
        return sorted(self._api.list(PODS).items, key=name_key)

    def _pod(self, name: str) -> Object:
        return self._api.get(PODS, name, NAMESPACE)

    def _runs(self, name: str) -> bool:
        return pod_phase(self._pod(name)) == "Running"

    def _all_run(self) -> bool:
        wanted: int = sum(
            obj["spec"].get("completions", 1) for objects in examples().values() for obj in objects if _makes_pods(obj)
        )
        return sum(pod_phase(pod) == "Running" for pod in self._pods()) == wanted

    def _wait_until(self, state: str, reached: Callable[[], bool]) -> None:
        print(f"... until {state}", end="", flush=True)
        started = time.monotonic()
        while not reached():
            if time.monotonic() - started > PATIENCE_SECONDS:
                print()
                raise DemoFailed(f"not within {PATIENCE_SECONDS:g} s: {state}\n{self._reports()}")
            time.sleep(0.02)
        print(f": {time.monotonic() - started:.2f} s")

    def _reports(self) -> str:
        """Conditions and Events of the pods that do not run."""
        waiting = {pod["metadata"]["name"]: pod for pod in self._pods() if pod_phase(pod) != "Running"}
        events = [event for event in self._api.list(EVENTS).items if event["involvedObject"]["name"] in waiting]
        reports = [
            f"{event['involvedObject']['name']}: {event.get('reason')}: {event.get('message')}" for event in events
        ]
        return "\n".join([*(f"{name}: {self._reason(name)}" for name in waiting), *reports])


def _makes_pods(obj: Mapping[str, Any]) -> bool:
    return obj["kind"] in ("Pod", "Job")


def _require(holds: bool, expectation: str) -> None:
    if not holds:
        raise DemoFailed(f"not as expected: {expectation}")


def _title(text: str) -> None:
    print(f"\n== {text}")
