"""kube-scheduler's plugins InterPodAffinity and PodTopologySpread, pod by pod and without any index: what the code must
agree with. It takes API objects."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
Cluster = Sequence[tuple[Json, str]]
"""Pods and the nodes they are on."""

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def selected(selector: Json | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    operators: dict[str, Callable[[str | None, list[str]], bool]] = {
        "In": lambda value, values: value in values,
        "NotIn": lambda value, values: value not in values,
        "Exists": lambda value, _: value is not None,
        "DoesNotExist": lambda value, _: value is None,
    }
    pairs = (selector.get("matchLabels") or {}).items()
    return all(labels.get(key) == value for key, value in pairs) and all(
        operators[item["operator"]](labels.get(item["key"]), item.get("values") or [])
        for item in selector.get("matchExpressions") or ()
    )


def labels_of(obj: Json) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def term_selects(term: Json, owner: Json, pod: Json, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    named = term.get("namespaces") or ()
    selector = term.get("namespaceSelector")
    if not named and selector is None:
        named = (owner["metadata"]["namespace"],)
    namespace = pod["metadata"]["namespace"]
    if namespace not in named and not selected(selector, namespaces[namespace]):
        return False
    return selected(term.get("labelSelector"), labels_of(pod))


def terms(pod: Json, kind: str) -> Sequence[Json]:
    found: Sequence[Json] = (pod["spec"].get("affinity") or {}).get(kind, {}).get(REQUIRED, ())
    return found


def affinity_allows(
    pod: Json,
    node: str,
    nodes: Mapping[str, Mapping[str, str]],
    cluster: Cluster,
    namespaces: Mapping[str, Mapping[str, str]],
) -> bool:
    """Whether the plugin InterPodAffinity takes the node."""

    def together(key: str, other: str) -> bool:
        return key in nodes[node] and nodes[node][key] == nodes[other].get(key)

    required = terms(pod, "podAffinity")

    def all_select(other: Json) -> bool:
        return all(term_selects(term, pod, other, namespaces) for term in required)

    if required:
        if any(term["topologyKey"] not in nodes[node] for term in required):
            return False
        friends = [where for other, where in cluster if all_select(other)]
        near = all(any(together(term["topologyKey"], where) for where in friends) for term in required)
        anywhere = any(term["topologyKey"] in nodes[where] for term in required for where in friends)
        if not near and (anywhere or not all_select(pod)):
            return False
    for other, where in cluster:
        for term in terms(pod, "podAntiAffinity"):
            if term_selects(term, pod, other, namespaces) and together(term["topologyKey"], where):
                return False
        for term in terms(other, "podAntiAffinity"):
            if term_selects(term, other, pod, namespaces) and together(term["topologyKey"], where):
                return False
    return True


def spread_allows(pod: Json, node: str, nodes: Mapping[str, Mapping[str, str]], cluster: Cluster) -> bool:
    """Whether the plugin PodTopologySpread takes the node. Node affinity and taints are not part of this."""
    constraints = pod["spec"].get("topologySpreadConstraints") or ()
    counted = [
        name for name, labels in nodes.items() if all(constraint["topologyKey"] in labels for constraint in constraints)
    ]
    for constraint in constraints:
        key = constraint["topologyKey"]
        if key not in nodes[node]:
            return False
        selector = constraint.get("labelSelector")
        counts = {nodes[name][key]: 0 for name in counted}
        for other, where in cluster:
            alive = "deletionTimestamp" not in other["metadata"]
            same = other["metadata"]["namespace"] == pod["metadata"]["namespace"]
            if where in counted and alive and same and any((selector or {}).values()):
                # A selector without requirements counts no pod, though it selects every pod (countPodsMatchSelector).
                if not selected(selector, labels_of(other)):
                    continue
                counts[nodes[where][key]] += 1
        least = 0 if len(counts) < constraint.get("minDomains", 1) else min(counts.values())
        here = counts.get(nodes[node][key], 0) + selected(selector, labels_of(pod))
        if here - least > constraint["maxSkew"]:
            return False
    return True
