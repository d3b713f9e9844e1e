"""Input objects as the state that the controller decides from.

Every object gets a uid and a version; workloads get their pods, pods the claims of their templates. If the input has no
nodes or no device classes, the obvious ones are assumed, and a note says so.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cli.decisions.allowance import UNLIMITED, Allowance
from cli.objects.checks import WORKLOADS, InputKey, InputObject, damage
from cli.objects.documents import LIVE, BadInput, InputFault
from cli.objects.expand import MAX_PODS, claims_of, owned_claims, pods_of, uid_of, wanted_pods
from controller.allocation import Fleet, small_amounts
from controller.state import DecisionSettings, State
from controller.state.kinds import VOLUME_RESOURCES
from driver.adoption import SOURCES, is_on_demand, resources_of, template_spec
from driver.cel import suggest
from driver.errors import SENSELESS, Fault, InvalidInput
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
from driver.kube.objects import is_deleting, is_terminal, object_key
from driver.kube.reflector import Unreadable
from driver.limits import listed
from driver.model import Claim, ClaimSpec
from driver.names import NVIDIA_DRA_DRIVER, Names
from memoryapi.admission import gate_pod


def doubts(claims: Iterable[Claim], driver: str) -> Iterator[str]:
    """A note for each doubtful thing in claims that are not allocated yet, with the first claim that has it."""
    found: dict[str, list[str]] = {}
    for claim in claims:
        if claim.allocation is None:
            for text in _of(claim.spec, driver):
                found.setdefault(text, []).append(claim.key)
    for text, keys in found.items():
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        yield f"ResourceClaim {keys[0]}{more}: {text}"


def _of(spec: ClaimSpec, driver: str) -> Iterator[str]:
    yield from small_amounts(spec)
    for number, config in enumerate(spec.config):
        if config.driver != driver and suggest(config.driver, [driver]):
            yield f"config[{number}] is for the driver {config.driver!r} and is ignored; did you mean {driver!r}?"


def unoffered(pods: Mapping[str, Object], nodes: Iterable[Object], classes: Iterable[Object]) -> dict[str, str]:
    """Return why each of those pods waits, by the key of the pod.

    Some systems publish only one of their resources on nodes, so one that is offered is enough for all of a pod.

    Args:
        pods: by ``namespace/name``.
        nodes: those that exist. One that is only assumed offers everything.
        classes: the DeviceClasses. kube-scheduler makes claims for the resource that a class stands for.
    """
    offered = {name for node in nodes for name in _offered_by(node)} | {_stands_for(one) for one in classes}
    found = {}
    for key, pod in pods.items():
        asked = _asked(pod)
        if asked and not asked & offered:
            found[key] = (
                f"nothing offers {listed(sorted(asked))}: no node has it, and no DeviceClass stands for it; ask for a "
                "claim: lode convert writes the pod so, as admission does in namespaces that adopt such pods "
                "(docs/adoption.md)"
            )
    return found


def _asked(pod: Object) -> set[str]:
    with suppress(*SENSELESS):
        asked = resources_of(pod)
        return {it for source in SOURCES.values() for it in source.taken(asked)}
    return set()


def _offered_by(node: Object) -> Iterable[str]:
    with suppress(*SENSELESS):
        allocatable: Mapping[str, Any] = (node.get("status") or {}).get("allocatable") or {}
        return [name for name, amount in allocatable.items() if str(amount) != "0"]
    return ()


def _stands_for(device_class: Object) -> str:
    with suppress(*SENSELESS):
        return str((device_class.get("spec") or {}).get("extendedResourceName") or "")
    return ""


_ASSUMED_CAPACITY: Final = "1E"
"""Of every resource, on a node that is assumed."""
_NO_SETTINGS: Final = DecisionSettings()
_NVIDIA_TYPE: Final = f"{NVIDIA_DRA_DRIVER}/type"
_NVIDIA_CLASSES: Final = frozenset({NVIDIA_DRA_DRIVER, "mig.nvidia.com"})
"""The classes of ``manifests/nvidia-dra-names``."""
_MAX_NAMED: Final = 3
"""Objects that a note names before it counts the rest."""


@dataclass(slots=True)
class ClusterSnapshot:
    """The state, with notes on how it differs from the input.

    Attributes:
        pods: the pods as objects, by ``namespace/name``.
        claims: the claims as objects, by ``namespace/name``, with what was decided since.
        unoffered: pods that ask for resources of other systems which nothing offers, each with that as text.
        version: the last resource version given to an object.
        allowance: of the simulation; it is asked before each step.
    """

    state: State
    notes: list[str] = field(default_factory=list)
    pods: dict[str, Object] = field(default_factory=dict)
    claims: dict[str, Object] = field(default_factory=dict)
    unoffered: Mapping[str, str] = field(default_factory=dict)
    version: int = 0
    allowance: Allowance = UNLIMITED

    def add(self, resource: Resource, obj: Object) -> list[str]:
        """Add an object, or replace it by a changed one. Returns why it is left out, if it cannot be decoded.

        Raises:
            AsksTooMuch: the simulation has no time left.
        """
        self.allowance.check()
        self.version += 1
        versioned = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        if resource == RESOURCE_CLAIMS:
            self.claims[object_key(versioned)] = versioned
        return [str(found.fault) for found in self.state.put(resource, versioned).unreadable]


def snapshot_of(
    inputs: Sequence[InputObject],
    names: Names,
    assumed: Sequence[Object] | None = (),
    *,
    unread: Collection[Resource] = VOLUME_RESOURCES,
    settings: DecisionSettings = _NO_SETTINGS,
    allowance: Allowance = UNLIMITED,
) -> ClusterSnapshot:
    """The snapshot made of the input objects.

    Args:
        assumed: DeviceClasses to assume if the input has none, beside the nodes that ResourceSlices name; None if
            nothing is assumed.
        unread: kinds that were not looked for. Files are not searched for volumes, so these are the default.
        settings: of the controller.

    Raises:
        BadInput: stored objects cannot be decoded; carries every fault.
        AsksTooMuch: the simulation has no time left.
    """
    tables = _tables(inputs)
    names = replace(names, nvidia_dra=_has_nvidia_names(tables, names), also_allocates=settings.also_allocates)
    notes = [*_create_pods(inputs, tables)]
    nodes = [*tables.get(NODES, {}).values()]
    notes += () if assumed is None else (*_assume_classes(tables, assumed), *_assume_nodes(tables))
    _admit(tables, names)
    _make_templates(tables, names)
    _create_claims(tables)
    pods = {f"{namespace}/{name}": pod for (_, namespace, name), pod in tables.get(PODS, {}).items()}
    state = State(Fleet(names=names), names, settings)
    state.follow_budgets()
    state.budgets.readable = True
    snapshot = ClusterSnapshot(state, notes, pods, allowance=allowance)
    snapshot.unoffered = unoffered(pods, nodes, tables.get(DEVICE_CLASSES, {}).values())
    for resource in unread:
        snapshot.state.apply(Unreadable(resource))
    problems = []
    for resource in snapshot.state.resources:
        for _, obj in sorted(tables.get(resource, {}).items()):
            problems += snapshot.add(resource, obj)
    faults, left_out = _unreadable(inputs, problems)
    if faults:
        raise BadInput(faults)
    snapshot.notes += [*left_out, *_missing_claims(snapshot.state), *_unread_volumes(snapshot.state)]
    snapshot.notes += doubts((record.claim for record in snapshot.state.claims.values()), names.driver)
    return snapshot


_Tables = dict[Resource, dict[InputKey, Object]]


def _tables(inputs: Iterable[InputObject]) -> _Tables:
    tables: _Tables = {}
    for item in inputs:
        tables.setdefault(item.resource, {})[item.key] = item.object
    return tables


def _has_nvidia_names(tables: _Tables, names: Names) -> bool:
    """Whether our plugins publish the names of NVIDIA's DRA driver, as they do where the setting is on."""
    for raw in tables.get(RESOURCE_SLICES, {}).values():
        with suppress(AttributeError, KeyError, TypeError):  # What makes no sense is reported elsewhere.
            devices = raw["spec"].get("devices") or ()
            if raw["spec"]["driver"] == names.driver and any(
                _NVIDIA_TYPE in device["attributes"] for device in devices
            ):
                return True
    return False


def _unreadable(inputs: Sequence[InputObject], problems: Sequence[str]) -> tuple[list[InputFault], list[str]]:
    """Faults of files, field by field, and notes on objects of the cluster, which the controller ignores, too."""
    by_subject = {item.subject: item for item in inputs}
    faults, notes = [], []
    for problem in problems:
        subject, _, cause = problem.partition(": ")
        item = by_subject[subject]
        if item.origin == LIVE:
            notes.append(f"{subject}: cannot be decoded and is left out: {cause}")
            continue
        damages = damage(item) or [Fault("", f"cannot be decoded: {cause}; print the object again with kubectl")]
        faults += [InputFault(item.origin, subject, fault.field, fault.message) for fault in damages]
    return faults, notes


# Pods and claims


def _create_pods(inputs: Iterable[InputObject], tables: _Tables) -> Iterator[str]:
    pods = tables.setdefault(PODS, {})
    stored = []
    for item in inputs:
        if item.resource not in WORKLOADS:
            continue
        if item.stored:
            stored += [item.subject] if item.origin != LIVE else []
            continue
        namespace = item.key[1]
        for pod in pods_of(item, [pod for key, pod in pods.items() if key[1] == namespace]):
            pods.setdefault((PODS, namespace, pod["metadata"]["name"]), pod)
        if wanted_pods(item) > MAX_PODS:
            yield f"{item.subject}: only {MAX_PODS} of its {wanted_pods(item)} pods are created"
    if stored:
        yield f"{_name_some(stored)} from a cluster, where its pods exist already: only those in the input count"


def _admit(tables: _Tables, names: Names) -> None:
    """Give new objects what admission gives them: a uid, and pods with claims our gate."""
    for resource, table in tables.items():
        for key, obj in table.items():
            if not obj["metadata"].get("uid"):
                new = gate_pod(obj, names, {}) if resource == PODS else obj
                table[key] = {**new, "metadata": {**obj["metadata"], "uid": uid_of(resource.kind, *key[1:])}}


def _make_templates(tables: _Tables, names: Names) -> None:
    """Make the templates on demand that pods name, as the controller does."""
    templates = tables.setdefault(RESOURCE_CLAIM_TEMPLATES, {})
    for (_, namespace, _), pod in tables.get(PODS, {}).items():
        # A name that stands for nothing is told when the pod waits for it.
        with suppress(InvalidInput, *SENSELESS):
            for entry in pod["spec"].get("resourceClaims") or ():
                name = entry.get("resourceClaimTemplateName") or ""
                key = (RESOURCE_CLAIM_TEMPLATES, namespace, name)
                if is_on_demand(name) and key not in templates and not is_terminal(pod):
                    uid = uid_of(RESOURCE_CLAIM_TEMPLATES.kind, namespace, name)
                    templates[key] = {
                        "apiVersion": RESOURCE_CLAIM_TEMPLATES.api_version,
                        "kind": RESOURCE_CLAIM_TEMPLATES.kind,
                        "metadata": {"name": name, "namespace": namespace, "uid": uid},
                        "spec": template_spec(name, names),
                    }


def _create_claims(tables: _Tables) -> None:
    claims = tables.setdefault(RESOURCE_CLAIMS, {})
    stored_templates = tables.get(RESOURCE_CLAIM_TEMPLATES, {})
    templates = {f"{namespace}/{name}": obj for (_, namespace, name), obj in stored_templates.items()}
    owned = owned_claims(claims.values())
    existing = {f"{namespace}/{name}" for _, namespace, name in claims}
    for key, pod in sorted(tables.get(PODS, {}).items(), key=lambda item: item[0][1:]):
        # What is wrong with the pod, or with its template, is said when the pod is decoded, or when it waits.
        with suppress(*SENSELESS):
            if is_terminal(pod) or is_deleting(pod):
                continue
            tables[PODS][key], created = claims_of(pod, templates, existing, owned)
            for claim in created:
                claims[RESOURCE_CLAIMS, key[1], claim["metadata"]["name"]] = claim
                existing.add(f"{key[1]}/{claim['metadata']['name']}")


# What is assumed


def _assume_classes(tables: _Tables, classes: Sequence[Object]) -> Iterator[str]:
    if classes and not tables.get(DEVICE_CLASSES):
        tables[DEVICE_CLASSES] = {(DEVICE_CLASSES, "", obj["metadata"]["name"]): obj for obj in classes}
        yield "no DeviceClass in the input: those that are installed with the driver are assumed"
        if named := sorted(_NVIDIA_CLASSES & {name for obj in _claiming(tables) for name in _classes_of(obj)}):
            yield (
                f"classes that are not among them: {', '.join(named)}; where nvidiaDraNames is set, "
                "manifests/nvidia-dra-names/classes.yaml has them: give it with -f"
            )


def _claiming(tables: _Tables) -> Iterator[Object]:
    """The specs of claims: of those in the input, and of those that templates will make."""
    yield from (obj.get("spec") or {} for obj in tables.get(RESOURCE_CLAIMS, {}).values())
    for obj in tables.get(RESOURCE_CLAIM_TEMPLATES, {}).values():
        yield (obj.get("spec") or {}).get("spec") or {}


def _classes_of(spec: Object) -> set[str]:
    """The device classes that a claim names; none if it is damaged, which is reported when it is decoded."""
    with suppress(*SENSELESS):
        requests = (spec.get("devices") or {}).get("requests") or ()
        wanted = [one for it in requests for one in (it.get("exactly"), *(it.get("firstAvailable") or ())) if one]
        return {str(one.get("deviceClassName")) for one in wanted}
    return set()


def _assume_nodes(tables: _Tables) -> Iterator[str]:
    if tables.get(NODES):
        return
    slices = tables.get(RESOURCE_SLICES, {}).values()
    names = sorted({name for part in slices for name in _named_nodes(part)})
    if not names:
        yield "no Node in the input, and no ResourceSlice names one: add Nodes, or ResourceSlices of nodes"
        return
    tables[NODES] = {(NODES, "", name): _node(name, tables.get(PODS, {}).values()) for name in names}
    yield (
        f"no Node in the input: {_name_some(names)} assumed, as ResourceSlices name them; ready, without taints, with "
        "no label but the host name, and with room for every pod"
    )


def _named_nodes(part: Object) -> list[str]:
    """The nodes that a ResourceSlice names; none if it is damaged, which is reported when it is decoded."""
    names: list[Any] = []
    try:
        spec = part["spec"]
        for scope in (spec, *(spec.get("devices") or ())):
            names += [scope["nodeName"]] if scope.get("nodeName") else []
            for term in (scope.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
                names += [name for field in term.get("matchFields") or () for name in field.get("values") or ()]
    except (AttributeError, KeyError, TypeError):
        return []
    return [name for name in names if isinstance(name, str)]


def _node(name: str, pods: Iterable[Object]) -> Object:
    resources = {"pods", "cpu", "memory", "ephemeral-storage"}
    for pod in pods:
        for part in ("containers", "initContainers"):
            for container in (pod.get("spec") or {}).get(part) or ():
                resources |= set((container.get("resources") or {}).get("requests") or ())
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": dict.fromkeys(sorted(resources), _ASSUMED_CAPACITY),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _missing_claims(state: State) -> Iterator[str]:
    """A note on running pods whose claims are not in the input: the devices of those claims look free."""
    pods = [
        f"Pod {pod.key}"
        for pod in state.pods.values()
        if pod.node_name and not pod.terminal and any(key not in state.claims for key in pod.claim_keys)
    ]
    if pods:
        yield f"{_name_some(pods)} on a node with ResourceClaims that are not in the input: their devices count as free"


def _unread_volumes(state: State) -> Iterator[str]:
    """A note on waiting pods with volumes, if volumes were not read."""
    pods = [f"Pod {pod.key}" for pod in state.pods.values() if pod.needs.volumes and not pod.node_name]
    if pods and (kinds := sorted(state.nodes.storage.unreadable)):
        yield f"{', '.join(kinds)}: not read, so that volumes exclude no node; with volumes {_name_some(pods)} waiting"


def _name_some(names: Sequence[str]) -> str:
    """``a, b, c and 7 more``, with the verb: ``a is``, ``a and b are``."""
    shown = ", ".join(names[:_MAX_NAMED])
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{shown}{more} {'is' if len(names) == 1 else 'are'}"
