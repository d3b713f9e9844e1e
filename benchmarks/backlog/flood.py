"""Measures how long pods that fit wait while another namespace's pods, each of another shape, flood the controller.

Nothing of the flood ever fits. Its selectors loop over long lists; kube-apiserver takes them. Some of its claims take
more work than one claim may and are refused for that; some of its pods are in gangs that never are complete.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import controlplane, fleet
from benchmarks.backlog import scenario
from benchmarks.backlog.measure import Plan, fitting, readiness, say, wait
from benchmarks.controlplane import Cluster, add_namespace, concurrently
from benchmarks.processes import cpu_seconds, free_port
from benchmarks.versions import CURRENT
from driver.kube.api import PODS, RESOURCE_CLAIMS
from driver.names import DEFAULT_DRIVER, Names
from driver.wire import Json

NAMESPACE = "flood"
GANG_EVERY = 10
"""Of so many pods, the first `MEMBERS` are in a gang that starts with `MINIMUM`: it never is complete."""
MEMBERS = 2
MINIMUM = 4
_ROUNDS = (4, 8, 30)
_SELECTORS = 8
_TYPE = f'device.attributes["{DEFAULT_DRIVER}"].type'
_NAMES = Names(DEFAULT_DRIVER)


@dataclass(frozen=True)
class Flood:
    """The results: sorted seconds from the creation of a pod that fits until its gate is removed, `inf` for never.

    ``core`` is the part of a core that the controller used meanwhile.
    """

    fits: Sequence[float]
    core: float


def measure(plan: Plan, pods: int) -> Flood:
    """Build a cluster with ``pods`` pods of the flood, start the controller, and create pods that fit at intervals."""
    with controlplane.cluster(fleet.models(plan.nodes), plan.delay) as cluster:
        say(f"{pods} pods of one namespace that wait")
        add_namespace(cluster.api, NAMESPACE)
        concurrently(lambda raw: cluster.api.create(RESOURCE_CLAIMS, raw), [claim(number) for number in range(pods)])
        concurrently(lambda raw: cluster.api.create(PODS, raw), [pod(number) for number in range(pods)])
        cluster.install(CURRENT, "controller-allocated")
        cluster.await_gate(scenario.fitting_pod("gated"))
        return _measure(cluster, plan)


def _measure(cluster: Cluster, plan: Plan) -> Flood:
    address = f"127.0.0.1:{free_port()}"
    with controlplane.controller(cluster.plane, CURRENT, observe=address) as controller:
        ready = wait(readiness(cluster.api, address), controller.check_alive, plan.limit)
        say(f"ready after {ready:.1f} s")
        used, began = cpu_seconds(controller.process.pid), time.perf_counter()
        fits = fitting(cluster.api, controller.check_alive, plan, "fits")
        core = (cpu_seconds(controller.process.pid) - used) / (time.perf_counter() - began)
        say(f"{core:.0%} of a core meanwhile")
        return Flood(fits, core)


def claim(number: int) -> Json:
    """The claim of a pod of the flood: selectors that are true after a long loop, and one that never is."""
    each = list(range(rounds(number)))
    selectors = [f'{each}.all(a, {each}.all(b, {_TYPE} != "flood-{number}-{index}"))' for index in range(_SELECTORS)]
    selectors.append(f'{each}.exists(a, {each}.exists(b, {_TYPE} == "flood-{number}"))')
    selected = [{"cel": {"expression": expression}} for expression in selectors]
    exactly = {"deviceClassName": f"gpu.{DEFAULT_DRIVER}", "selectors": selected}
    raw = _in_flood(scenario.claim(_name(number), {"name": "card", "exactly": exactly}))
    if number % GANG_EVERY < MEMBERS:
        gang = {"name": f"gang-{number // GANG_EVERY}", "minAvailable": MINIMUM}
        parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "gang": gang}
        raw["spec"]["devices"]["config"] = [{"opaque": {"driver": DEFAULT_DRIVER, "parameters": parameters}}]
    return raw


def rounds(number: int) -> int:
    """The sides of the square that each selector of a pod loops over."""
    return _ROUNDS[number % len(_ROUNDS)]


def pod(number: int) -> Json:
    """A pod of the flood, as it is after it was created: with our gate."""
    spec = {"schedulingGates": [{"name": _NAMES.gate}]}
    return _in_flood(controlplane.pod(_name(number), spec=spec, claim={"resourceClaimName": _name(number)}))


def _name(number: int) -> str:
    return f"flood-{number}"


def _in_flood(raw: Json) -> Json:
    return {**raw, "metadata": {**raw["metadata"], "namespace": NAMESPACE}}
