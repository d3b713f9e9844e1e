"""The needs of a pod: its requirements on a node, and its terms about other pods. Found once per pod. Pure."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from driver.cache_key import cache_key
from driver.label_selectors import LabelSelector, label_selector_from
from driver.model import NodeRequirement, NodeSelector, NodeSelectorTerm
from driver.quantity import NANO, Quantity
from driver.wire import Json, node_selector_from, node_term_from
from driver.wire.fields import integer, text, text_map, texts

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class PodLabels:
    """The fields of a pod that selectors of other pods read."""

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    """Sorted."""
    deleting: bool = False
    """Whether the pod is being deleted. Topology spread does not count such pods."""


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Selects pods by labels, in some namespaces.

    Attributes:
        namespaces: names of namespaces.
        labels: selector of pods; None selects no pod.
        namespace_selector: selector of further namespaces; None selects none.
        counts_deleting: whether pods that are being deleted count.
    """

    namespaces: frozenset[str]
    labels: LabelSelector | None
    namespace_selector: LabelSelector | None = None
    counts_deleting: bool = True


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A core/v1 PodAffinityTerm: a selector of pods, and the key of the node label that defines domains."""

    pods: PodSelector
    topology_key: str


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A core/v1 TopologySpreadConstraint.

    Attributes:
        counts_itself: whether the constraint selects the pod itself.
        honors_affinity: whether to leave out nodes that the pod's node selector and affinity exclude (the default).
        honors_taints: whether to leave out nodes with taints that the pod does not tolerate.
    """

    pods: PodSelector
    topology_key: str
    max_skew: int
    min_domains: int
    counts_itself: bool
    honors_affinity: bool
    honors_taints: bool


def pod_labels_of(pod: Json) -> PodLabels:
    """The fields of a pod object that selectors of other pods read."""
    metadata = pod.get("metadata") or {}
    return PodLabels(
        text(metadata.get("namespace")),
        tuple(sorted(text_map(metadata.get("labels")).items())),
        bool(metadata.get("deletionTimestamp")),
    )


def required_terms(pod: Json, kind: str) -> tuple[PodTerm, ...]:
    """The required terms of ``podAffinity`` or ``podAntiAffinity`` (``kind``), each once.

    The API server has already merged ``matchLabelKeys`` and ``mismatchLabelKeys`` into the label selectors.
    """
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return tuple(dict.fromkeys(_term(raw, pod) for raw in affinity.get(_REQUIRED) or ()))


def preferred_terms(pod: Json) -> tuple[tuple[int, PodTerm], ...]:
    """The preferred terms of ``podAffinity``, and those of ``podAntiAffinity`` with negative weights."""
    affinity = pod["spec"].get("affinity") or {}
    return tuple(
        (sign * integer(entry["weight"]), _term(entry["podAffinityTerm"], pod))
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1))
        for entry in (affinity.get(kind) or {}).get(_PREFERRED) or ()
    )


def _term(raw: Json, pod: Json) -> PodTerm:
    namespaces: Sequence[str] = texts(raw.get("namespaces"))
    selector = label_selector_from(raw.get("namespaceSelector"))
    if not namespaces and selector is None:
        namespaces = (pod_labels_of(pod).namespace,)
    labels = label_selector_from(raw.get("labelSelector"))
    return PodTerm(PodSelector(frozenset(namespaces), labels, selector), text(raw["topologyKey"]))


def spread_constraints(pod: Json, when_unsatisfiable: str) -> tuple[SpreadConstraint, ...]:
    """The pod's topology spread constraints with this ``whenUnsatisfiable``."""
    constraints: Iterable[Json] = pod["spec"].get("topologySpreadConstraints") or ()
    own = pod_labels_of(pod)
    return tuple(_constraint(raw, own) for raw in constraints if raw["whenUnsatisfiable"] == when_unsatisfiable)


def _constraint(raw: Json, own: PodLabels) -> SpreadConstraint:
    labels = dict(own.labels)
    selector = label_selector_from(raw.get("labelSelector"))
    if selector is not None:
        keys = [key for key in texts(raw.get("matchLabelKeys")) if key in labels]
        merged = tuple(NodeRequirement(key, "In", (labels[key],)) for key in keys)
        selector = LabelSelector(
            (*selector.requirements, *(item for item in merged if item not in selector.requirements))
        )
    counts_itself = selector is not None and selector.selects(labels)
    if selector is not None and not selector.requirements:
        # kube-scheduler counts no other pod for a selector that selects all.
        selector = None
    return SpreadConstraint(
        pods=PodSelector(frozenset((own.namespace,)), selector, counts_deleting=False),
        topology_key=text(raw["topologyKey"]),
        max_skew=integer(raw["maxSkew"]),
        min_domains=integer(raw.get("minDomains")) or 1,
        counts_itself=counts_itself,
        honors_affinity=(raw.get("nodeAffinityPolicy") or "Honor") == "Honor",
        honors_taints=(raw.get("nodeTaintsPolicy") or "Ignore") == "Honor",
    )


Amounts = Mapping[str, int]
"""Amounts in nano-units (``driver.quantity``) by resource name."""

_POD_LEVEL = ("cpu", "memory")
"""Resources that ``spec.resources`` can set for the whole pod, besides huge pages (core/v1 PodSpec.resources)."""

NO_LABELS = PodLabels()


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host port of a container."""

    protocol: str
    address: str
    port: int

    def clashes(self, other: "HostPort") -> bool:
        """Whether one node cannot have both ports: the wildcard address clashes with every address."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or "0.0.0.0" in (self.address, other.address)


@dataclass(frozen=True, slots=True)
class NodeToleration:
    """A toleration of node taints (core/v1 Toleration)."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class VolumeUse:
    """A volume of a pod with a PersistentVolumeClaim.

    Attributes:
        claim: key of the claim, ``namespace/name``.
        owner: uid of the pod if the claim is created for the pod (a generic ephemeral volume), else "".
    """

    claim: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of a pod: all fields that node predicates read."""

    requests: Amounts
    ports: tuple[HostPort, ...] = ()
    tolerations: tuple[NodeToleration, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    """``spec.nodeSelector``, sorted."""
    affinity: NodeSelector | None = None
    """Required node affinity."""
    pod: PodLabels = NO_LABELS
    """The fields of the pod that terms of other pods select by."""
    pod_affinity: tuple[PodTerm, ...] = ()
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    """Spread constraints with ``DoNotSchedule``."""
    features: tuple[str, ...] = ()
    """Features that the node must declare (``status.declaredFeatures``), sorted."""
    volumes: tuple[VolumeUse, ...] = ()
    preferred_nodes: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    """Preferred node affinity: weights and terms."""
    preferred_pods: tuple[tuple[int, PodTerm], ...] = ()
    """Preferred affinity to pods, with a negative weight for anti-affinity."""
    spread_softly: tuple[SpreadConstraint, ...] = ()
    """Spread constraints with ``ScheduleAnyway``."""
    priority: int = 0
    preempts: bool = False
    """Whether kube-scheduler may evict pods of lower priority for it (``preemptionPolicy``)."""

    @property
    def seen(self) -> object:
        """The part that matters to other pods' terms."""
        return self.pod, self.pod_anti_affinity, self.volumes, self.priority

    @property
    def taken(self) -> object:
        """The part that counts on the pod's node."""
        return self.requests, self.ports, self.volumes

    @property
    def shape(self) -> Hashable:
        """The needs as a hashable value.

        Pods of one shape fit the same nodes, unless terms of pods on nodes tell them apart (``Nodes.shape_of``).
        """
        # Of its own labels, a pod needs only to know whether its own affinity means itself.
        return cache_key(self if self.pod_affinity else replace(self, pod=NO_LABELS))


def needs_of(pod: Json) -> Needs:
    """The needs of a pod object. For a pod on a node, only the parts that matter to other pods.

    Raises:
        InvalidInput: a quantity is malformed, which the API server does not accept.
    """
    spec = pod["spec"]
    always = Needs(
        requests=requests_of(pod),
        ports=tuple(_ports(spec)),
        pod=pod_labels_of(pod),
        pod_anti_affinity=required_terms(pod, "podAntiAffinity"),
        volumes=tuple(_volumes(pod)),
        priority=integer(spec.get("priority")),
        # A pod that has no devices yet may have named its node itself.
        tolerations=_tolerations(spec) if spec.get("resourceClaims") else (),
    )
    return always if spec.get("nodeName") else _with_wishes(always, pod)


def _tolerations(spec: Json) -> tuple[NodeToleration, ...]:
    return tuple(
        NodeToleration(
            text(raw.get("key")), text(raw.get("operator")) or "Equal", text(raw.get("value")), text(raw.get("effect"))
        )
        for raw in spec.get("tolerations") or ()
    )


def _with_wishes(always: Needs, pod: Json) -> Needs:
    """Add the needs that matter only until the pod is on a node."""
    spec = pod["spec"]
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return replace(
        always,
        tolerations=_tolerations(spec),
        labels=tuple(sorted(text_map(spec.get("nodeSelector")).items())),
        affinity=_affinity(required) if required is not None else None,
        pod_affinity=required_terms(pod, "podAffinity"),
        spread=spread_constraints(pod, "DoNotSchedule"),
        features=tuple(sorted(_features(spec))),
        preferred_nodes=tuple(_preferred_nodes(spec)),
        preferred_pods=preferred_terms(pod),
        spread_softly=spread_constraints(pod, "ScheduleAnyway"),
        preempts=(spec.get("preemptionPolicy") or "PreemptLowerPriority") != "Never",
    )


def _preferred_nodes(spec: Json) -> Iterable[tuple[int, NodeSelectorTerm]]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for preferred in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        yield integer(preferred["weight"]), node_term_from(preferred["preference"])


def _features(spec: Json) -> Iterable[str]:
    """Features that the pod's node must declare (k8s.io/component-helpers nodedeclaredfeatures)."""
    containers: Sequence[Json] = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    rules = [rule for container in containers for rule in container.get("restartPolicyRules") or ()]
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        yield "RestartAllContainersOnContainerExits"
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        yield "UserNamespacesHostNetworkSupport"
    if any(mount.get("bindMountOptions") for container in containers for mount in container.get("volumeMounts") or ()):
        yield "VolumeBindMountOptions"


def _volumes(pod: Json) -> Iterable[VolumeUse]:
    metadata = pod.get("metadata") or {}
    namespace = text(metadata.get("namespace"))
    for volume in pod["spec"].get("volumes") or ():
        if named := volume.get("persistentVolumeClaim"):
            yield VolumeUse(f"{namespace}/{text(named['claimName'])}")
        elif volume.get("ephemeral"):
            yield VolumeUse(f"{namespace}/{metadata['name']}-{text(volume['name'])}", text(metadata["uid"]))


def _affinity(required: Json) -> NodeSelector:
    # An empty term matches no node in core/v1, so it can be left out of the alternatives.
    terms: Iterable[NodeSelectorTerm] = node_selector_from(dict(required)).terms
    return NodeSelector(tuple(term for term in terms if term.expressions or term.fields))


def requests_of(pod: Json) -> dict[str, int]:
    """The pod's resource requests as kube-scheduler counts them (k8s.io/component-helpers resource.PodRequests).

    Requests of containers and sidecars add up. Init containers run one after another, beside the sidecars that started
    before them. The larger of the two sums counts. Pod-level requests replace it, and overhead is added.
    """
    spec = pod["spec"]
    granted = _granted(pod)
    running: Counter[str] = Counter()
    for container in spec.get("containers") or ():
        running.update(_container_requests(container, granted))
    starting: dict[str, int] = {}
    sidecars: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        amounts = _container_requests(container, granted)
        if container.get("restartPolicy") == "Always":
            sidecars.update(amounts)
            step: Mapping[str, int] = sidecars
        else:
            step = sidecars + Counter(amounts)
        starting = _largest(starting, step)
    running.update(sidecars)
    total = _largest(running, starting)
    for name, amount in _amounts((spec.get("resources") or {}).get("requests")).items():
        if name in _POD_LEVEL or name.startswith("hugepages-"):
            total[name] = amount
    for name, amount in _amounts(spec.get("overhead")).items():
        total[name] = total.get(name, 0) + amount
    return {name: amount for name, amount in total.items() if amount > 0}


def _granted(pod: Json) -> dict[str, dict[str, int]]:
    """Amounts that the kubelet has granted to each container. After a resize down, the larger one counts (KEP-1287)."""
    status = pod.get("status") or {}
    statuses: Sequence[Json] = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    return {
        entry["name"]: _largest(
            _amounts((entry.get("resources") or {}).get("requests")), _amounts(entry.get("allocatedResources"))
        )
        for entry in statuses
    }


def _container_requests(container: Json, granted: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    asked = _amounts((container.get("resources") or {}).get("requests"))
    return _largest(asked, granted.get(container["name"], {}))


def _amounts(raw: Json | None) -> dict[str, int]:
    return {name: _nanos(str(value)) for name, value in (raw or {}).items()}


@lru_cache(maxsize=4096)  # most pods ask for the same
def _nanos(text: str) -> int:
    return Quantity.parse(text).nanos


def _largest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _ports(spec: Json) -> Iterable[HostPort]:
    sidecars = (c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always")
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if number := port.get("hostPort"):
                protocol, address = text(port.get("protocol")) or "TCP", text(port.get("hostIP")) or "0.0.0.0"
                yield HostPort(protocol, address, integer(number))


def written(name: str, nanos: int) -> str:
    """Format an amount for a message, in the usual unit of the resource."""
    binary = name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")
    return str(Quantity(nanos, "BinarySI" if binary and nanos % NANO == 0 else "DecimalSI"))
