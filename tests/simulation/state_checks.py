"""What a controller knows must be what it would know after a restart, and every answer must follow from that alone.

Indexes and caches are kept up to date change by change. Here they are compared with those of a state that is built
anew from the API's objects, and by their answers: the node and the devices that each template's claim would get now.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from controller.allocation import Fleet, NodeReasons
from controller.allocation.selectors import CompiledSelectors
from controller.placement import Needs, Placement, PodDemand, find_place, needs_of
from controller.refusal import Refusal
from controller.state import DEVICE_TAINT_RULES_BETA, DecisionSettings, Decoded, PodView, State
from controller.state.devices import class_record_from
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
from driver.kube.objects import object_key
from driver.kube.reflector import Upserted
from driver.model import Allocation, Claim, Slice
from driver.settings import Settings
from driver.wire import claim_from, taint_rule_from
from simulation.kubernetes.scheduler import filter_reason
from tests.simulation.closed_nodes import closing_conditions
from tests.simulation.decision_checks import AllocationRules


@cache
def _selectors(*drivers: str) -> CompiledSelectors:
    """What an expression means does not depend on a state."""
    return CompiledSelectors(*drivers)


def rebuilt_state(api: Api, settings: Settings) -> State:
    """The state of a controller that starts now."""
    names, closing = settings.names, settings.controller.closing_node_conditions
    state = State(
        Fleet(names=names, selectors=_selectors(*names.allocated_drivers)),
        names,
        DecisionSettings(closing_node_conditions=tuple(closing)),
    )
    for resource in state.resources:
        try:
            objects = api.list(resource, limit=0).items
        except NotFound:
            continue
        for delta in (state.decode(Upserted(resource, obj)) for obj in objects):
            if not (isinstance(delta, Decoded) and isinstance(delta.value, PodView) and delta.value.terminal):
                state.apply(delta)
    return state


def differences(known: State, rebuilt: State) -> Iterator[str]:
    """Where the indexes of a state differ from those of one that was built anew."""
    pairs = {
        "devices in use": (known.devices.ledger.usage_snapshot(), rebuilt.devices.ledger.usage_snapshot()),
        "free counters": (known.devices.ledger.free_counters(), rebuilt.devices.ledger.free_counters()),
        "nodes": (list(known.nodes), list(rebuilt.nodes)),
        "classes": (dict(known.classes), dict(rebuilt.classes)),
        "pods": ({pod.key: pod for pod in known.pods.values()}, {pod.key: pod for pod in rebuilt.pods.values()}),
        "pods that await an allocation": (known.awaiting, rebuilt.awaiting),
        "pods that are not bound": (known.unbound, rebuilt.unbound),
        "protected nodes": (known.protections.known, rebuilt.protections.known),
        "templates on demand": (sorted(known.on_demand), sorted(rebuilt.on_demand)),
        "nodes protected by us": (known.protections.ours, rebuilt.protections.ours),
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


class Restarted:
    """What a controller that starts now would know and answer; one for all that are compared with it.

    Args:
        api: must not change meanwhile.
        slices: its slices, by name.
        seen: the API as controllers read it: with hostile objects, which nothing but a state looks at.
    """

    def __init__(self, api: Api, settings: Settings, slices: Mapping[str, Slice], seen: Api):
        self.state = rebuilt_state(seen, settings)
        self._names = settings.names
        self._closes = bool(settings.controller.closing_node_conditions)
        self._api = api
        self._seen = seen
        self._slices = slices
        self._answers: dict[str, RightAnswers] = {}

    @cached_property
    def probes(self) -> Mapping[str, Claim]:
        """A claim of each template, by the template's name."""
        return _probes(self._api)

    @cached_property
    def _rules(self) -> AllocationRules:
        return AllocationRules({**_defined(self._api, self._seen), RESOURCE_SLICES: self._slices}, self._names)

    def answers(self, name: str) -> "RightAnswers":
        """What a pod of the template would get now."""
        found = self._answers.get(name)
        if found is None:
            found = self._answers[name] = self._ask(name)
        return found

    def _ask(self, name: str) -> "RightAnswers":
        claim, devices, nodes = self.probes[name], self.state.devices, self.state.nodes
        placed = find_place(demand_of(name, claim), devices, nodes)
        by_node = {node: devices.allocate(node, nodes.labels_of(node), (claim,)) for node in nodes}
        problems = []
        for node, allocations in by_node.items():
            if isinstance(allocations, NodeReasons):
                continue
            wrong = self._rules.problems(claim, allocations[0])
            problems += [f"on {node}, a pod of {name} would get {allocations}: {one}" for one in wrong]
            if isinstance(placed, Refusal) and _takes(self._api, node, name, closes=self._closes):
                problems.append(f"a pod of {name} would get no node, though {node} has {allocations} for it")
        return RightAnswers(placed, by_node, tuple(problems))


@dataclass(frozen=True, slots=True)
class RightAnswers:
    """What a pod of one template would get now."""

    placed: Placement | Refusal[None]
    by_node: Mapping[str, tuple[Allocation, ...] | NodeReasons]
    problems: tuple[str, ...]
    """What is wrong with these answers themselves."""


def demand_of(name: str, claim: Claim) -> PodDemand:
    """What a pod with this claim alone wants."""
    return PodDemand(f"probe/{name}", _needs(name), (claim,))


@cache
def _needs(name: str) -> Needs:
    return needs_of(_pod(name))


def other_answers(known: State, restarted: Restarted, templates: Collection[str] | None = None) -> Iterator[str]:
    """Questions that get another answer than of a state that was built anew: who would get what now.

    Args:
        templates: names of those whose claims are asked for; None for all.
    """
    for name, claim in restarted.probes.items():
        if templates is not None and name not in templates:
            continue
        expected = restarted.answers(name)
        yield from expected.problems
        placed = find_place(demand_of(name, claim), known.devices, known.nodes)
        if placed != expected.placed:
            yield f"a pod of {name} would get {placed}, after a restart {expected.placed}"
        for node, should_be in expected.by_node.items():
            allocations = known.devices.allocate(node, restarted.state.nodes.labels_of(node), (claim,))
            if allocations != should_be:
                yield f"on {node}, a pod of {name} would get {allocations}, after a restart {should_be}"


def _defined(api: Api, seen: Api) -> Mapping[Resource, Mapping[str, Any]]:
    """What ``AllocationRules`` look at beside devices: rules count only while they are served."""
    found: dict[Resource, Mapping[str, Any]] = {
        DEVICE_CLASSES: {object_key(obj): class_record_from(obj) for obj in api.list(DEVICE_CLASSES, limit=0).items}
    }
    for kind in (DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA):
        with suppress(NotFound):
            found[kind] = {object_key(obj): taint_rule_from(obj) for obj in seen.list(kind, limit=0).items}
    return found


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


def _takes(api: Api, node: str, name: str, *, closes: bool) -> bool:
    """Whether kube-scheduler would let a pod without requests run on the node, and no condition closes it; on a hostile
    node, it lets none.
    """
    try:
        found = api.get(NODES, node)
    except NotFound:
        return False
    if closes and closing_conditions(found):
        return False
    pods = api.list(PODS, limit=0).items
    present = [pod for pod in pods if pod["spec"].get("nodeName") == node]
    return not filter_reason(_pod(name), found, present)
