"""Terms about other pods, affinity and spread, and the fields of a pod that they select by. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from driver.label_selectors import LabelSelector, label_selector_from
from driver.model import NodeRequirement
from driver.wire import Json
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
