"""A live pod or claim explained: read what may be read, decide as the controller would, and say what is not known."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from cli.live import DECIDING, MissingRight, NoRights, get_one, list_all, stored
from cli.outcomes import DEVICE_HEADER, Json, Outcome, Verdict, device_rows
from cli.tables import age, table
from cli.trial import Trial, order
from cli.world import World, world
from controller.pods import Condition, PodView, pod_from
from driver.errors import OperatorFault
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    Object,
    Resource,
)
from driver.names import Names

_WITHOUT: Final = {
    NODES: "nodes that ResourceSlices name are assumed to be ready and to have room",
    PODS: "what pods of other namespaces take on the nodes is not counted",
    RESOURCE_CLAIMS: "devices that claims of other namespaces hold look free",
    DEVICE_TAINT_RULES: "devices tainted by a DeviceTaintRule look untainted",
}
"""What it means for the answer that a kind cannot be listed."""
_NEEDED: Final = (RESOURCE_SLICES, DEVICE_CLASSES)
"""Kinds without which there is no answer."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What becomes of a live object, what the controller said about it, and what the answer could not consider."""

    outcome: Outcome
    said: Condition | None = None
    """The controller's condition on the pod."""
    notes: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether it has no devices and would get none now."""
        return not self.outcome.placed

    def to_json(self) -> Json:
        """With the keys of docs/simulate.md."""
        raw = self.outcome.to_json()
        if self.said:
            said = self.said
            raw["controller"] = {
                "status": said.status,
                "reason": said.reason,
                "message": said.message,
                "since": said.since,
            }
        return {**raw, "notes": list(self.notes)}

    def text(self, now: float) -> str:
        """For people; ages count from ``now`` (seconds since the epoch)."""
        parts = [self._verdict()]
        if self.said and self.said.status == "False":
            told = "just that" if self.said.message == self.outcome.told.message else self.said.message
            parts.append(f"The controller says, since {_ago(self.said.since, now)} ({self.said.reason}):\n  {told}")
        if self.outcome.claims:
            parts.append(table((*DEVICE_HEADER, "HELD BY"), device_rows(self.outcome.claims, holders=True)))
        parts += _statuses(self.outcome)
        return "\n\n".join(parts)

    def _verdict(self) -> str:
        one = self.outcome
        subject = f"{one.kind} {one.namespace}/{one.name}"
        where = f"on node {one.node}" if one.node else "reachable from several nodes"
        match one.result:
            case "allocated":
                return f"{subject} has its devices, {where}."
            case "placed":
                return f"{subject} has no devices yet; nothing stands in its way, and it would get these now, {where}."
            case "others":
                return f"{subject} asks for no devices of this driver; kube-scheduler decides about it."
        return one.why()


def _ago(since: str, now: float) -> str:
    try:
        return age(now - datetime.fromisoformat(since).timestamp())
    except ValueError:
        return "<unknown>"


def _statuses(outcome: Outcome) -> Iterator[str]:
    """What drivers report about devices that they prepared, condition by condition."""
    for claim in outcome.claims:
        for device in claim.devices:
            for condition in device.get("status", {}).get("conditions") or ():
                why = ": ".join(part for part in (condition.get("reason"), condition.get("message")) if part)
                told = f"{condition['type']} is {condition['status']}" + (f" ({why})" if why else "")
                yield f"Device {device['device']} of pool {device['pool']}: {told}"


class Explainer:
    """Explains objects of one namespace with the rights that ``api`` has.

    Args:
        now: seconds since the epoch.
    """

    def __init__(self, api: Api, names: Names, namespace: str, now: float):
        self._api = api
        self._names = names
        self._namespace = namespace
        self._now = now

    def explain(self, kind: str, name: str) -> Explanation:
        """Explain the ``Pod`` or ``ResourceClaim`` of that name; whichever there is if ``kind`` is "".

        Raises:
            OperatorFault: there is none, there are both, or what has to be read cannot be; the message says what to do.
        """
        wanted = [resource for resource in (PODS, RESOURCE_CLAIMS) if kind in ("", resource.kind)]
        found = [(resource, obj) for resource in wanted if (obj := get_one(self._api, resource, name, self._namespace))]
        if not found:
            kinds = " and no ".join(resource.kind for resource in wanted)
            raise OperatorFault(f"no {kinds} {name} in namespace {self._namespace}; choose another namespace with -n")
        if len(found) > 1:
            raise OperatorFault(f"there is a pod and a claim {name}; write pod/{name} or claim/{name}")
        resource, obj = found[0]
        return self._pod(obj) if resource == PODS else self._claim(obj)

    def _pod(self, raw: Object) -> Explanation:
        pod = self._view(raw)
        names = dict.fromkeys(reference.claim for reference in pod.references if reference.claim)
        claims = [claim for name in names if (claim := get_one(self._api, RESOURCE_CLAIMS, name, self._namespace))]
        settled = len(claims) == len(pod.references) and all(map(_is_allocated, claims)) and not pod.gates
        ended = ["the pod has ended" if pod.terminal else "the pod is being deleted"]
        notes = ended if pod.terminal or pod.deleting else []
        try:
            made = self._world({PODS: [raw], RESOURCE_CLAIMS: claims}, complete=not (settled or notes))
        except NoRights as error:
            return self._as_said(pod, error)
        outcome = Trial(made, self._now).pod(pod.key)
        return Explanation(outcome, pod.allocated, (*notes, *made.notes))

    def _claim(self, raw: Object) -> Explanation:
        allocated = _is_allocated(raw)
        made = self._world({RESOURCE_CLAIMS: [raw]}, complete=not allocated)
        trial, key = Trial(made, self._now), f"{self._namespace}/{raw['metadata']['name']}"
        notes = ["the claim is being deleted"] if raw["metadata"].get("deletionTimestamp") else []
        if allocated:
            return Explanation(trial.held(key), None, (*notes, *made.notes))
        users = [made.state.pods[user] for user in made.state.pods_of(key)]
        alive = sorted((pod for pod in users if not (pod.terminal or pod.deleting)), key=order)
        if not alive:
            notes.append("no pod uses the claim; this is what one would get that asks for nothing else")
            return Explanation(trial.claim(key), None, (*notes, *made.notes))
        pod = alive[0]
        notes.append(f"it is allocated together with what else its pod {pod.name} asks for")
        outcome = trial.pod(pod.key)
        own = tuple(claim for claim in outcome.claims if claim.name == raw["metadata"]["name"])
        told = replace(outcome, kind="ResourceClaim", name=raw["metadata"]["name"], claims=own)
        return Explanation(told, pod.allocated, (*notes, *made.notes))

    def _as_said(self, pod: PodView, error: NoRights) -> Explanation:
        """What the controller said, where nothing can be decided for lack of rights."""
        said = pod.allocated
        if said is None or said.status != "False":
            raise error
        outcome = Outcome("Pod", pod.namespace, pod.name, "waiting", "", (), Verdict(said.reason, said.message))
        return Explanation(outcome, said, (f"{error}; until then this is only what the controller said",))

    def _view(self, raw: Object) -> PodView:
        return pod_from(raw, f"{self._names.driver}/Allocated")

    def _world(self, known: dict[Resource, list[Object]], *, complete: bool) -> World:
        """The state with the objects ``known``, and if ``complete`` with everything a decision depends on.

        Raises:
            NoRights: something without which nothing can be decided may not be listed.
        """
        missing: list[MissingRight] = []
        objects = dict(known)
        for resource in DECIDING if complete else ():
            try:
                objects[resource] = list_all(self._api, resource)
            except NoRights as error:
                missing += error.missing
                if resource.namespaced:
                    objects[resource] = self._nearby(resource, known)
        if any(right.resource in _NEEDED for right in missing):
            raise NoRights(missing)
        given = [one for resource, found in objects.items() for one in stored(resource, found)]
        made = world(given, self._names, nodes=any(right.resource == NODES for right in missing))
        made.notes += [f"{right}: {_WITHOUT[right.resource]}" for right in missing]
        return made

    def _nearby(self, resource: Resource, known: dict[Resource, list[Object]]) -> list[Object]:
        try:
            return list_all(self._api, resource, self._namespace)
        except NoRights:
            return known.get(resource, [])


def _is_allocated(claim: Object) -> bool:
    return (claim.get("status") or {}).get("allocation") is not None
