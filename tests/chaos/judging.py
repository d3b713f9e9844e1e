"""What is wrong in a reading of the world, and what has lasted too long. Pure.

The invariants are those of the simulation, where a reading has what they ask: `simulation.invariants` for claims, pods,
slices and containers, and a controller's own decisions on what a controller that starts now would know.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from controller.explaining.messages import HELD_BACK
from controller.gangs import SearchOptions, choose
from controller.reconcile import decide, decide_gang, known_gang
from controller.reconcile.decisions import LetGo, PlacePod
from controller.state import State
from driver.errors import OperatorFault
from driver.kube.api import (
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiCall,
    NotFound,
    Object,
    Page,
    Resource,
)
from driver.kube.objects import claim_name, is_deleting, is_terminal, object_key, pod_phase
from driver.model import Claim, Result
from driver.parameters import main_request
from driver.settings import Settings
from driver.wire import claim_from
from kubeletplugin.hardware.actions import action_from
from kubeletplugin.prepare.checkpoint import Checkpoint, CorruptCheckpoint
from kubeletplugin.prepare.storage import ClaimStorage
from simulation.invariants import Catalogue, Holding, Violation
from simulation.node import Container
from tests.chaos.world import CHECKPOINT, ContainerReading, NodeReading, Reading
from tests.simulation.node import MemoryNode
from tests.simulation.settled_invariants import SettledInvariants
from tests.simulation.state_checks import rebuilt_state

BOUND_SECONDS: Final = 180.0
"""After a fault has ended, everything is as it should be within this time."""
_ENOUGH_STEPS: Final = 1_000_000
_PREVIOUS: Final = f".{CHECKPOINT.rpartition('/')[2]}."
"""Begins the name of the previous checkpoint, which stays until a claim is prepared again (``Files.write``)."""
_READY: Final = {"type": "Ready", "status": "True"}


class Level(IntEnum):
    """How long something may be wrong."""

    NEVER = 0
    """Not in two readings, one after the other. It may be in one, which is not of one moment."""
    FOR_A_WHILE = 1
    """For `BOUND_SECONDS` after a fault."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong in a reading."""

    level: Level
    text: str


@dataclass
class Patience:
    """Which problems have lasted too long. Each is told once while it lasts."""

    bound: float = BOUND_SECONDS
    told: set[str] = field(default_factory=set)
    _since: dict[str, float] = field(default_factory=dict)
    _before: frozenset[Problem] = frozenset()

    def calm(self) -> None:
        """A fault has ended: what has been wrong so far may be wrong as long again."""
        self._since.clear()

    def look(self, problems: Iterable[Problem], at: float) -> Sequence[str]:
        """What has become a finding with the problems of a reading at that time, in seconds of any clock."""
        now = frozenset(problems)
        self._since = {it.text: self._since.get(it.text, at) for it in now}
        never = {it.text for it in now & self._before if it.level == Level.NEVER}
        late = {it.text for it in now if it.level == Level.FOR_A_WHILE and at - self._since[it.text] >= self.bound}
        self._before = now
        self.told &= self._since.keys()
        found = sorted((never | late) - self.told)
        self.told.update(found)
        return found

    def unresolved(self) -> Sequence[str]:
        """What is wrong in the last reading and no finding yet, sorted."""
        return sorted({it.text for it in self._before} - self.told)


class ReadObjects(Api):
    """The objects of a reading as an API that never changes."""

    def __init__(self) -> None:
        self.objects: Mapping[Resource, Sequence[Object]] = {}

    def call(self, call: ApiCall) -> Any:
        """See ``Api``; lists and watches alone have an answer."""
        if call.verb == "watch":
            return iter(())
        if call.verb != "list" or call.resource not in self.objects:
            raise NotFound(f"{call}: not read", status=404)
        return Page(self.objects[call.resource], "1")


class Judge:
    """Says what is wrong in readings of one cluster, one after the other. Devices that were published once are known.

    Args:
        settings: those of Lode's programs.
        other_drivers: drivers whose devices kube-scheduler allocates, and no two claims may have either.
    """

    def __init__(self, settings: Settings, other_drivers: Sequence[str] = ()):
        self._settings = settings
        self._names = settings.names
        everybody = replace(settings.names, also_allocates=(*settings.names.also_allocates, *other_drivers))
        self._api = ReadObjects()
        self._nodes: dict[str, MemoryNode] = {}
        self._catalogue = Catalogue(everybody)
        self._drivers = everybody.allocated_drivers
        self._invariants: SettledInvariants | None = None

    def problems(self, reading: Reading, now: float) -> Sequence[Problem]:
        """Everything that is wrong.

        Args:
            now: epoch seconds.
        """
        claims = {claim.uid: claim for claim in map(claim_from, reading.objects[RESOURCE_CLAIMS])}
        known = {node.name: _claims_of(node, self._settings) for node in reading.nodes}
        held = {node.name: list(_held(node, known[node.name], claims)) for node in reading.nodes}
        self._take(reading, held)
        never = [*self._violations(quiet=False), *self._prepared_twice(known), *_bridged_twice(reading)]
        for node in reading.nodes:
            never += _unknown_claims(node, known[node.name])
            never += self._other_devices(node, held[node.name])
        lasting = [
            *self._violations(quiet=True),
            *self._held_and_allocated(held, claims.values()),
            *_pod_problems(reading, claims.values()),
            *_unready(reading),
            *_unused(reading, self._names.on_demand),
            *self._waiting_in_vain(now),
        ]
        for node in reading.nodes:
            lasting += _left_on(node, known[node.name], _without_containers(reading, claims.values()))
        texts = dict.fromkeys(never, Level.NEVER)
        return [Problem(texts.get(text, Level.FOR_A_WHILE), text) for text in dict.fromkeys([*never, *lasting])]

    def _take(self, reading: Reading, held: Mapping[str, Sequence["_Hand"]]) -> None:
        self._api.objects = reading.objects
        for raw in reading.objects[RESOURCE_SLICES]:
            if raw["spec"]["driver"] in self._drivers:
                self._catalogue.learn(raw)
        self._nodes.clear()
        for node, hands in held.items():
            by_pod: dict[str, dict[tuple[str, str, str], tuple[str, Result]]] = defaultdict(dict)
            for hand in hands:  # containers of a pod may have a device of one claim together
                by_pod[hand.pod][hand.claim, hand.result.device.device, hand.result.share_id] = hand.claim, hand.result
            containers = {pod: Container(pod, tuple(devices.values())) for pod, devices in by_pod.items()}
            self._nodes[node] = MemoryNode(node, containers=containers)
        if self._invariants is None:
            self._invariants = SettledInvariants(self._api, self._names, self._nodes.values())
        self._invariants.read_anew()

    def _violations(self, *, quiet: bool) -> Sequence[str]:
        assert self._invariants
        try:
            (self._invariants.check_quiet if quiet else self._invariants.check)()
        except Violation as violation:
            return str(violation).splitlines()
        return ()

    def _prepared_twice(self, known: Mapping[str, Checkpoint | None]) -> Iterator[str]:
        for node, checkpoint in known.items():
            prepared = [
                Holding(f"claim {uid}", result)
                for uid, claim in (checkpoint.claims if checkpoint else {}).items()
                for result in claim.plan.results
            ]
            yield from (f"prepared on {node}: {conflict}" for conflict in self._catalogue.conflicts(prepared))

    def _held_and_allocated(self, held: Mapping[str, Sequence["_Hand"]], claims: Iterable[Claim]) -> Iterator[str]:
        """After an older snapshot, devices in the hands of containers are free in the API."""
        everybody = {
            (claim.uid, result.device, result.share_id): Holding(f"claim {claim.uid}", result)
            for claim in claims
            for result in (claim.allocation.results if claim.allocation else ())
        }
        for hands in held.values():
            for hand in hands:
                key = (hand.claim, hand.result.device, hand.result.share_id)
                everybody.setdefault(key, Holding(f"claim {hand.claim}", hand.result))
        yield from (f"held or allocated: {it}" for it in self._catalogue.conflicts(everybody.values()))

    def _other_devices(self, node: NodeReading, hands: Sequence["_Hand"]) -> Iterator[str]:
        """What a container sees of simulated cards is what its claims have."""
        for container in node.containers:
            own = [hand.result for hand in hands if hand.container is container]
            if not all(result.device in self._catalogue.devices for result in own):
                continue
            kinds = {result.device: self._kind(result) for result in own}
            wanted = {result.device.device.removesuffix("-share") for result in own if kinds[result.device] != "device"}
            if own and container.devices != wanted:
                yield (
                    f"{node.name}: containers of pod {container.pod} see {sorted(container.devices)}, "
                    f"their claims have {sorted(wanted)}"
                )

    def _kind(self, result: Result) -> object:
        return self._catalogue.devices[result.device].attributes.get(self._names.attribute("kind"))

    def _waiting_in_vain(self, now: float) -> Iterator[str]:
        """Pods at our gate that a controller that starts now would give a place, or let go as they are."""
        state = rebuilt_state(self._api, self._settings)
        said = {object_key(pod): _said(pod) for pod in self._api.objects[PODS]}
        for gang in state.gangs:
            known = known_gang(state, gang)
            decided = decide_gang(state, known, now, lambda it: choose(it, state.cluster, SearchOptions(_ENOUGH_STEPS)))
            held_back = any(HELD_BACK in said.get(member.pod, "") for member in known.members)
            if not held_back and any(isinstance(one, PlacePod) for one in decided.members.values()):
                yield f"gang {gang} waits, but could go"
        for raw in self._api.objects[PODS]:
            key = object_key(raw)
            if _waits_alone(raw, state, key) and isinstance(decide(state, key, now), PlacePod | LetGo):
                yield f"pod {key} waits, but could go"


def _waits_alone(pod: Object, state: State, key: str) -> bool:
    gated = {"name": state.names.gate} in (pod["spec"].get("schedulingGates") or ())
    return gated and not is_deleting(pod) and not state.gangs.gang_of(key) and HELD_BACK not in _said(pod)


def _said(pod: Object) -> str:
    return " ".join(it.get("message") or "" for it in (pod.get("status") or {}).get("conditions") or ())


@dataclass(frozen=True, slots=True)
class _Hand:
    """A device in the hands of a container."""

    container: ContainerReading
    claim: str
    """Its uid."""
    result: Result

    @property
    def pod(self) -> str:
        return self.container.pod


def _claims_of(node: NodeReading, settings: Settings) -> Checkpoint | None:
    """What the plugin knows; None if it cannot be read."""
    try:
        return _storage(node, settings).load()
    except (CorruptCheckpoint, OperatorFault):
        return None


def _storage(node: NodeReading, settings: Settings) -> ClaimStorage:
    files = MemoryNode(node.name).files
    for path in node.files:
        files.disk.lose(path, b"{}")
    files.disk.lose(CHECKPOINT, node.checkpoint or None)
    return ClaimStorage(files, settings)


def _held(node: NodeReading, known: Checkpoint | None, claims: Mapping[str, Claim]) -> Iterator[_Hand]:
    """What the containers of a node have, by what was prepared for the claims, else by what the API says of them."""
    prepared = known.claims if known else {}
    for container in node.containers:
        for uid, request in sorted(container.requests):
            results: Sequence[Result] = prepared[uid].plan.results if uid in prepared else ()
            if not results and uid in claims and (allocation := claims[uid].allocation):
                results = allocation.results
            yield from (_Hand(container, uid, it) for it in results if main_request(it.request) == request)


def _unknown_claims(node: NodeReading, known: Checkpoint | None) -> Iterator[str]:
    for container in node.containers:
        for uid in sorted(container.claims - (known.claims.keys() if known else set())):
            yield f"{node.name}: containers of pod {container.pod} have claim {uid}, which the plugin does not know"


def _bridged_twice(reading: Reading) -> Iterator[str]:
    for node in reading.nodes:
        owners: dict[str, set[frozenset[str]]] = defaultdict(set)
        for container in node.containers:
            for card in container.bridged:
                owners[card].add(container.claims)
        for card, claims in sorted(owners.items()):
            if len(claims) > 1:
                yield f"{node.name}: {card} of a device plugin is with {sorted(map(sorted, claims))}"


def _left_on(node: NodeReading, known: Checkpoint | None, others: Collection[str]) -> Iterator[str]:
    """Exactly the claims that containers have are prepared, and have files and what they need on the cards.

    Args:
        others: the uids of claims whose containers another driver keeps from being made.
    """
    if known is None:
        yield f"{node.name}: the checkpoint cannot be read"
        return
    used = {claim for container in node.containers for claim in container.claims} | set(others)
    for uid, claim in sorted(known.claims.items()):
        if claim.state != "completed":
            yield f"{node.name}: claim {uid} is {claim.state}"
        if uid not in used and claim.plan.results:
            yield f"{node.name}: claim {uid} is prepared, but no container has it"
    for path in node.files:
        name = path.rpartition("/")[2]
        if (path.endswith(".tmp") and not name.startswith(_PREVIOUS)) or (
            (uid := _uid_of(path, name)) and uid not in known.claims
        ):
            yield f"{node.name}: file {path} is left"
    recorded = {key for claim in known.claims.values() for key in claim.keys}
    on_cards = json.loads(node.hardware)["existing"] if node.hardware else ()
    for key in sorted({action_from(it["action"]).key for it in on_cards} - recorded):
        yield f"{node.name}: {key} is on a card, but no claim has it"


def _uid_of(path: str, name: str) -> str:
    """The claim that a file of ours is of; "" for others."""
    if "/dra-device-metadata/" in path:
        return name.partition("_")[0]
    return name.removeprefix("lode.dev-claim_").removesuffix(".json") if name.startswith("lode.dev-claim_") else ""


def _pod_problems(reading: Reading, claims: Iterable[Claim]) -> Iterator[str]:
    by_key = {claim.key: claim for claim in claims}
    for pod in reading.objects[PODS]:
        key, entries = object_key(pod), pod["spec"].get("resourceClaims") or []
        if is_deleting(pod):
            yield f"pod {key} is still being deleted"
        if is_deleting(pod) or is_terminal(pod) or not entries:
            continue
        own = [by_key.get(f"{pod['metadata']['namespace']}/{claim_name(pod, entry)}") for entry in entries]
        runs, bound = pod_phase(pod) == "Running", pod["spec"].get("nodeName")
        if bound and not runs and all(claim and claim.allocation for claim in own):
            yield f"pod {key} is bound to {bound} and has devices, but does not run"
        elif not bound and not pod["spec"].get("schedulingGates"):
            yield f"pod {key} has no gate, but is not bound: {_said(pod)[:300]}"
        elif runs and not _is_ready(pod) and not _lacks_a_spec_of_others(pod):
            yield f"pod {key} runs, but is not ready"
        elif runs and any(it["type"].endswith("/Allocated") and it["status"] == "False" for it in _conditions(pod)):
            yield f"pod {key} runs, but its condition says that it waits"


def _lacks_a_spec_of_others(pod: Object) -> bool:
    """Whether a container cannot be made again because the CDI spec of another driver is gone.

    The example driver (v0.4.0) writes none again for what it has prepared before the node started anew.
    """
    states = [it.get("state") or {} for it in (pod.get("status") or {}).get("containerStatuses") or ()]
    messages = [str((state.get("waiting") or {}).get("message")) for state in states]
    return any("unresolvable CDI devices" in it and "lode.dev" not in it for it in messages)


def _without_containers(reading: Reading, claims: Iterable[Claim]) -> Collection[str]:
    """The uids of the claims of pods that lack a CDI spec of another driver."""
    uids = {claim.key: claim.uid for claim in claims}
    stuck = [pod for pod in reading.objects[PODS] if _lacks_a_spec_of_others(pod)]
    keys = [
        f"{pod['metadata']['namespace']}/{claim_name(pod, entry)}"
        for pod in stuck
        for entry in pod["spec"].get("resourceClaims") or ()
    ]
    return {uids[key] for key in keys if key in uids}


def _unused(reading: Reading, on_demand: str) -> Iterator[str]:
    """Claims that do not end, and templates that were made on demand and that no pod names any more."""
    for claim in reading.objects[RESOURCE_CLAIMS]:
        if is_deleting(claim):
            yield f"claim {object_key(claim)} is still being deleted"
    named = {
        (pod["metadata"].get("namespace"), entry.get("resourceClaimTemplateName"))
        for pod in reading.objects[PODS]
        for entry in pod["spec"].get("resourceClaims") or ()
    }
    for template in reading.objects[RESOURCE_CLAIM_TEMPLATES]:
        metadata = template["metadata"]
        made_on_demand = on_demand in (metadata.get("labels") or {})
        if made_on_demand and (metadata.get("namespace"), metadata["name"]) not in named:
            yield f"template {object_key(template)} was made on demand, but no pod names it"


def _conditions(obj: Object) -> Sequence[Object]:
    return (obj.get("status") or {}).get("conditions") or ()


def _is_ready(obj: Object) -> bool:
    return any(_READY.items() <= it.items() for it in _conditions(obj))


def _unready(reading: Reading) -> Iterator[str]:
    """Nodes, and the programs of Lode."""
    for node in reading.objects[NODES]:
        if not _is_ready(node):
            yield f"node {object_key(node)} is not ready"
    for pod in reading.objects[PODS]:
        own = (pod["metadata"].get("labels") or {}).get("app.kubernetes.io/part-of") == "lode"
        if own and not _is_ready(pod) and not is_deleting(pod):
            yield f"pod {object_key(pod)} of Lode is not ready"
    read = {node.name for node in reading.nodes}
    for node in reading.objects[NODES]:
        if "node-role.kubernetes.io/control-plane" not in (node["metadata"].get("labels") or {}):
            name = node["metadata"]["name"]
            if name not in read:
                yield f"node {name} does not answer"
