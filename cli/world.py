"""Given objects made into the state the controller decides from, with what it takes for granted filled in.

Every object gets a uid and a version; workloads get their pods, pods the claims of their templates. Where nothing says
which nodes or device classes there are, the obvious ones are assumed, and a note says so.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cli.checks import WORKLOADS, Given, Key, damage
from cli.documents import LIVE, BadInput, InputFault
from cli.expand import MAX_PODS, claims_of, owned_claims, pods_of, uid_of, wanted_pods
from controller.allocation import Fleet
from controller.state import State
from driver.errors import Fault
from driver.kube.api import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Object,
    Resource,
)
from driver.kube.objects import is_deleting, is_terminal
from driver.kube.reflector import Synced
from driver.names import Names
from memoryapi.admission import gate_pod

_ROOM: Final = "1E"
"""Of everything, on a node that is assumed."""
_NAMED: Final = 3
"""Things a note names before it counts the rest."""


@dataclass(slots=True)
class World:
    """The state, and how it differs from what was given.

    Attributes:
        pods: the pods as objects, by ``namespace/name``.
        version: the last one given out.
    """

    state: State
    notes: list[str] = field(default_factory=list)
    pods: dict[str, Object] = field(default_factory=dict)
    version: int = 0

    def put(self, resource: Resource, obj: Object) -> None:
        """Take in an object that was just "written"."""
        self.version += 1
        self.state.put(resource, {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}})


def world(given: Sequence[Given], names: Names, classes: Sequence[Object] = (), *, nodes: bool = True) -> World:
    """The world of the given objects.

    Args:
        classes: DeviceClasses to assume if none is given.
        nodes: whether to assume those that ResourceSlices name if none is given.

    Raises:
        BadInput: stored objects that cannot be understood; carries every fault.
    """
    tables = _tables(given)
    notes = [*_make_pods(given, tables), *_assume_classes(tables, classes)]
    notes += _assume_nodes(tables) if nodes else ()
    _admit(tables, names)
    _make_claims(tables)
    pods = {f"{space}/{name}": pod for (_, space, name), pod in tables.get(PODS, {}).items()}
    made = World(State(Fleet(names=names), names), notes, pods)
    problems = []
    for resource in made.state.kinds:
        objects = [tables.get(resource, {})[key] for key in sorted(tables.get(resource, {}))]
        problems += made.state.apply(Synced(resource, tuple(_numbered(objects, made)))).unreadable
    faults, left_out = _unreadable(given, problems)
    if faults:
        raise BadInput(faults)
    made.notes += [*left_out, *_doubts(made.state)]
    return made


_Tables = dict[Resource, dict[Key, Object]]


def _tables(given: Iterable[Given]) -> _Tables:
    tables: _Tables = {}
    for one in given:
        tables.setdefault(one.resource, {})[one.key] = one.object
    return tables


def _numbered(objects: Iterable[Object], made: World) -> Iterator[Object]:
    for obj in objects:
        made.version += 1
        yield {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(made.version)}}


def _unreadable(given: Sequence[Given], problems: Sequence[str]) -> tuple[list[InputFault], list[str]]:
    """Faults of files, field by field, and notes on objects of the cluster, which the controller leaves out, too."""
    by_subject = {one.subject: one for one in given}
    faults, notes = [], []
    for problem in problems:
        name, _, what = problem.partition(": ")
        one = by_subject[name]
        if one.origin == LIVE:
            notes.append(f"{name} cannot be understood and is left out: {what}")
            continue
        found = damage(one) or [Fault("", f"cannot be understood: {what}; print it anew with kubectl")]
        faults += [InputFault(one.origin, name, fault.field, fault.message) for fault in found]
    return faults, notes


# Pods and claims


def _make_pods(given: Iterable[Given], tables: _Tables) -> Iterator[str]:
    pods = tables.setdefault(PODS, {})
    stored = []
    for one in given:
        if one.resource not in WORKLOADS:
            continue
        if one.stored:
            stored.append(one.subject)
            continue
        for pod in pods_of(one, [pod for key, pod in pods.items() if key[1] == one.key[1]]):
            key = (PODS, one.key[1], pod["metadata"]["name"])
            pods.setdefault(key, pod)
        if wanted_pods(one) > MAX_PODS:
            yield f"{one.subject}: only {MAX_PODS} of its {wanted_pods(one)} pods are made"
    if stored:
        yield f"{_some(stored)} from a cluster, where its pods are made: only those given count"


def _admit(tables: _Tables, names: Names) -> None:
    """Give new objects what they get when they are created: a uid, and pods with claims our gate."""
    for resource, table in tables.items():
        for key, obj in table.items():
            if not obj["metadata"].get("uid"):
                new = gate_pod(obj, names, {}) if resource == PODS else obj
                table[key] = {**new, "metadata": {**obj["metadata"], "uid": uid_of(resource.kind, *key[1:])}}


def _make_claims(tables: _Tables) -> None:
    claims = tables.setdefault(RESOURCE_CLAIMS, {})
    templates = {f"{space}/{name}": obj for (_, space, name), obj in tables.get(RESOURCE_CLAIM_TEMPLATES, {}).items()}
    owned = owned_claims(claims.values())
    existing = {f"{space}/{name}" for _, space, name in claims}
    for key, pod in sorted(tables.get(PODS, {}).items(), key=lambda item: item[0][1:]):
        if is_terminal(pod) or is_deleting(pod):
            continue
        tables[PODS][key], made = claims_of(pod, templates, existing, owned)
        for claim in made:
            claims[RESOURCE_CLAIMS, key[1], claim["metadata"]["name"]] = claim
            existing.add(f"{key[1]}/{claim['metadata']['name']}")


# What is taken for granted


def _assume_classes(tables: _Tables, classes: Sequence[Object]) -> Iterator[str]:
    if classes and not tables.get(DEVICE_CLASSES):
        tables[DEVICE_CLASSES] = {(DEVICE_CLASSES, "", obj["metadata"]["name"]): obj for obj in classes}
        yield "no DeviceClass is given: those that are installed with the driver are assumed"


def _assume_nodes(tables: _Tables) -> Iterator[str]:
    if tables.get(NODES):
        return
    slices = tables.get(RESOURCE_SLICES, {}).values()
    found = sorted({name for part in slices for name in _named_nodes(part)})
    if not found:
        yield "no Node is given and no ResourceSlice names one: give Nodes, or ResourceSlices of nodes"
        return
    tables[NODES] = {(NODES, "", name): _node(name, tables.get(PODS, {}).values()) for name in found}
    yield (
        f"no Node is given: {_some(found)} assumed, as ResourceSlices name them; ready, without taints, with no label "
        "but the host name, and with room for every pod"
    )


def _named_nodes(part: Object) -> list[str]:
    """The nodes that a ResourceSlice names; none if it is damaged, which is told when it is decoded."""
    found: list[Any] = []
    try:
        spec = part["spec"]
        for scope in (spec, *(spec.get("devices") or ())):
            found += [scope["nodeName"]] if scope.get("nodeName") else []
            for term in (scope.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
                found += [name for one in term.get("matchFields") or () for name in one.get("values") or ()]
    except (AttributeError, KeyError, TypeError):
        return []
    return [name for name in found if isinstance(name, str)]


def _node(name: str, pods: Iterable[Object]) -> Object:
    asked = {"pods", "cpu", "memory", "ephemeral-storage"}
    for pod in pods:
        for part in ("containers", "initContainers"):
            for container in (pod.get("spec") or {}).get(part) or ():
                asked |= set((container.get("resources") or {}).get("requests") or ())
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": dict.fromkeys(sorted(asked), _ROOM),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _doubts(state: State) -> Iterator[str]:
    """Things that are probably missing from the input, because devices would look free that are not."""
    unknown = [
        f"Pod {pod.key}"
        for pod in state.pods.values()
        if pod.node_name and not pod.terminal and any(key not in state.claims for key in pod.claim_keys)
    ]
    if unknown:
        yield f"{_some(unknown)} on a node with ResourceClaims that are not given: what they hold counts as free"


def _some(names: Sequence[str]) -> str:
    """``a, b, c and 7 more``, with the verb: ``a is``, ``a and b are``."""
    shown = ", ".join(names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{shown}{more} {'is' if len(names) == 1 else 'are'}"
