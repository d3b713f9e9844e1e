"""What a controller knows must be what it would know after a restart, and every answer must follow from that alone.

Indexes and caches are kept up to date change by change. Here they are compared with those of a state that is built
anew from the API's objects, and by their answers: the node and the devices that each template's claim would get now.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from controller.allocation import Fleet, Unsatisfiable
from controller.placement import PodDemand, Refusal, needs_of, plan
from controller.state import State
from controller.state.classes import class_record_from
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    Api,
    NotFound,
    Object,
    Resource,
)
from driver.kube.objects import is_terminal, object_key
from driver.kube.reflector import Upserted
from driver.model import Claim
from driver.names import Names
from driver.wire import claim_from, slice_from, taint_rule_from
from simulation.decision_checks import AllocationRules
from simulation.kubernetes.scheduler import filter_reason


def rebuilt_state(api: Api, names: Names) -> State:
    """The state of a controller that starts now."""
    state = State(Fleet(names=names), names)
    for resource in state.resources:
        try:
            objects = api.list(resource, limit=0).items
        except NotFound:
            continue
        for obj in objects:
            if resource != PODS or not is_terminal(obj):
                state.apply(state.decode(Upserted(resource, obj)))
    return state


def differences(known: State, rebuilt: State) -> Iterator[str]:
    """Where the indexes of a state differ from those of one that was built anew."""
    pairs = {
        "devices in use": (known.devices.usage_snapshot(), rebuilt.devices.usage_snapshot()),
        "free counters": (known.devices.free_counters(), rebuilt.devices.free_counters()),
        "nodes": (list(known.nodes), list(rebuilt.nodes)),
        "classes": (dict(known.classes), dict(rebuilt.classes)),
        "pods": ({pod.key: pod for pod in known.pods.values()}, {pod.key: pod for pod in rebuilt.pods.values()}),
        "pods that await an allocation": (known.awaiting, rebuilt.awaiting),
    }
    for what, (is_now, should_be) in pairs.items():
        if is_now != should_be:
            yield f"{what}: {_first_difference(is_now, should_be)}"
    for name in rebuilt.nodes:
        was, now = known.nodes.view(name), rebuilt.nodes.view(name)
        if (was.facts, dict(was.held()), +was.used, was.ports) != (now.facts, dict(now.held()), +now.used, now.ports):
            yield f"node {name}: counts {dict(was.held())}, should count {dict(now.held())}"


def _first_difference(is_now: object, should_be: object) -> str:
    if isinstance(is_now, dict) and isinstance(should_be, dict):
        keys = [key for key in {**is_now, **should_be} if is_now.get(key) != should_be.get(key)]
        return f"{keys[0]}: is {is_now.get(keys[0])}, should be {should_be.get(keys[0])}"
    return f"is {is_now}, should be {should_be}"


def other_answers(known: State, rebuilt: State, api: Api, templates: Collection[str] | None = None) -> Iterator[str]:
    """Questions that get another answer than of a state that was built anew: who would get what now.

    Args:
        templates: names of those whose claims are asked for; None for all.
    """
    rules = AllocationRules(_published(api))
    probes = {name: claim for name, claim in _probes(api).items() if templates is None or name in templates}
    for name, claim in probes.items():
        demand = PodDemand(f"probe/{name}", needs_of(_pod(name)), (claim,))
        is_now = plan([demand], known.devices, known.nodes)
        should_be = plan([demand], rebuilt.devices, rebuilt.nodes)
        if is_now != should_be:
            yield f"a pod of {name} would get {is_now}, after a restart {should_be}"
        for node in rebuilt.nodes:
            labels = rebuilt.nodes.labels_of(node)
            allocations = known.devices.allocate(node, labels, (claim,))
            expected = rebuilt.devices.allocate(node, labels, (claim,))
            if allocations != expected:
                yield f"on {node}, a pod of {name} would get {allocations}, after a restart {expected}"
            if not isinstance(expected, Unsatisfiable):
                problems = rules.problems(claim, expected[0])
                yield from (f"on {node}, a pod of {name} would get {expected}: {problem}" for problem in problems)
            if isinstance(should_be, Refusal) and not isinstance(expected, Unsatisfiable) and _takes(api, node, name):
                yield f"a pod of {name} would get no node, though {node} has {expected} for it"


def _published(api: Api) -> Mapping[Resource, Mapping[str, Any]]:
    """What ``AllocationRules`` look at."""
    decode: Mapping[Resource, Callable[[Object], Any]] = {
        DEVICE_CLASSES: class_record_from,
        DEVICE_TAINT_RULES: taint_rule_from,
        RESOURCE_SLICES: slice_from,
    }
    return {kind: {object_key(o): read(o) for o in api.list(kind, limit=0).items} for kind, read in decode.items()}


def _probes(api: Api) -> dict[str, Claim]:
    """A claim of each template."""
    found = {}
    for template in api.list(RESOURCE_CLAIM_TEMPLATES, limit=0).items:
        name = template["metadata"]["name"]
        metadata = {"name": name, "namespace": "probe", "uid": f"probe-{name}", "resourceVersion": "1"}
        found[name] = claim_from({"metadata": metadata, "spec": template["spec"]["spec"]})
    return found


def _pod(name: str) -> Object:
    return {"metadata": {"name": name, "namespace": "probe", "uid": name}, "spec": {"containers": []}}


def _takes(api: Api, node: str, name: str) -> bool:
    """Whether kube-scheduler would let a pod without requests run on the node."""
    pods = api.list(PODS, limit=0).items
    present = [pod for pod in pods if pod["spec"].get("nodeName") == node]
    return not filter_reason(_pod(name), api.get(NODES, node), present)
