"""Reads what there is of other systems in a cluster."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from cli.doctor.migration_checks import Migration, NamespaceLabels, OldLimit
from driver.adoption import NAMESPACE_LABEL, SOURCES, resources_of
from driver.kube.api import DEVICE_CLASSES, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, Object, Resource
from driver.kube.objects import is_terminal, name_key, object_key
from driver.label_selectors import label_selector_from

T = TypeVar("T")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", namespaced=True)
_WANTS = ("In", "Exists", "Gt", "Lt")
"""Operators that no node meets without the label."""


class Each(Protocol):
    """Reads each object of a kind that can be decoded."""

    def __call__(self, resource: Resource, read: Callable[[Object], T], /) -> Iterator[T]:
        """What ``read`` makes of each object."""


def migration(each: Each, policy_of: Callable[[str], Object | None]) -> Migration:
    """Read the facts. Where nobody asks for adoption, only namespaces are listed.

    Args:
        policy_of: the policy that adopts the pods of a source, by name; None if it is not in force.
    """
    policies = {source: policy for source in SOURCES if (policy := policy_of(source))}
    found = tuple(each(NAMESPACES, lambda raw: _labels(raw, policies)))
    namespaces = tuple(it for it in found if it.asked or it.adopted)
    adopted = {it.name: it.adopted for it in namespaces if it.adopted}
    if not adopted:
        return Migration(tuple(policies), namespaces)
    old: dict[str, list[str]] = {}
    astray: dict[str, list[str]] = {}
    labels = {key for keys in each(NODES, lambda node: [*(node["metadata"].get("labels") or {})]) for key in keys}
    for pod, sources, wanted in each(PODS, lambda raw: _pod(raw, adopted)):
        for source in sources:
            old.setdefault(source, []).append(pod)
        for label in sorted({*wanted} - labels):
            astray.setdefault(label, []).append(pod)
    quotas = each(RESOURCE_QUOTAS, lambda raw: _old_limits(raw, adopted))
    ranges = each(LIMIT_RANGES, lambda raw: _old_ranges(raw, adopted))
    names = each(DEVICE_CLASSES, lambda raw: str(raw["spec"].get("extendedResourceName") or ""))
    return Migration(
        installed=tuple(policies),
        namespaces=namespaces,
        old_pods={source: tuple(pods) for source, pods in old.items()},
        quotas=tuple(quota for found in quotas for quota in found),
        ranges=tuple(limit for found in ranges for limit in found),
        class_names=frozenset(names) - {""},
        astray={label: tuple(pods) for label, pods in astray.items()},
    )


def _labels(namespace: Object, policies: Mapping[str, Object]) -> NamespaceLabels:
    name, labels = namespace["metadata"]["name"], namespace["metadata"].get("labels") or {}
    asked = (
        key.removeprefix(NAMESPACE_LABEL)
        for key, value in labels.items()
        if key.startswith(NAMESPACE_LABEL) and value == "on"
    )
    adopted = (source for source, policy in policies.items() if _selects(policy, labels))
    return NamespaceLabels(name, tuple(sorted(asked)), tuple(adopted))


def _selects(policy: Object, labels: Mapping[str, str]) -> bool:
    selector = label_selector_from((policy["spec"].get("matchConstraints") or {}).get("namespaceSelector"))
    return selector is None or selector.selects(labels)


def _pod(pod: Object, adopted: Mapping[str, tuple[str, ...]]) -> tuple[str, list[str], list[str]]:
    """Its key, the sources whose resources it has, and, while it has no node, the labels that it wants of one."""
    sources = adopted.get(name_key(pod)[0], ())
    if not sources or is_terminal(pod):
        return object_key(pod), [], []
    asked = resources_of(pod)
    old = [source for source in sources if SOURCES[source].taken(asked)]
    return object_key(pod), old, [] if pod["spec"].get("nodeName") else _wanted_labels(pod["spec"])


def _wanted_labels(spec: Mapping[str, Any]) -> list[str]:
    """The labels that every node for the pod needs, as far as terms do not offer others."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [
        {one["key"] for one in term.get("matchExpressions") or () if one["operator"] in _WANTS}
        for term in required.get("nodeSelectorTerms") or ()
    ]
    return [*(spec.get("nodeSelector") or {}), *(set.intersection(*terms) if terms else ())]


def _old_limits(quota: Object, adopted: Mapping[str, tuple[str, ...]]) -> list[OldLimit]:
    limited = {key.removeprefix("requests.").removeprefix("limits.") for key in quota["spec"].get("hard") or {}}
    return _of_sources(quota, limited, adopted)


def _old_ranges(limits: Object, adopted: Mapping[str, tuple[str, ...]]) -> list[OldLimit]:
    ranges = limits["spec"].get("limits") or ()
    limited = {name for one in ranges for part in ("min", "max") for name in one.get(part) or {}}
    return _of_sources(limits, limited, adopted)


def _of_sources(obj: Object, limited: set[str], adopted: Mapping[str, tuple[str, ...]]) -> list[OldLimit]:
    resources = {it for source in adopted.get(name_key(obj)[0], ()) for it in SOURCES[source].taken(limited)}
    return [OldLimit(object_key(obj), resource) for resource in sorted(resources)]
