"""Index of the pods on nodes for terms of other pods. Pure.

It answers two questions without a loop over pods: the nodes with pods that a term selects, and the terms of pods on
nodes that select a given pod. Pods with equal labels are one entry, and so are pods with equal terms.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from controller.placement.needs import Needs, PodLabels, PodSelector, PodTerm, VolumeUse

Selectors = tuple[PodSelector, ...]
"""Selectors that must all select a pod."""

_MAX_GROUPS = 1024
"""Most groups of selectors with counts. Beyond it, counting starts anew with the groups in use."""


class NodeCounts:
    """Number of pods of some kind on each node."""

    __slots__ = ("by_node", "changed")

    def __init__(self, changed: int):
        self.by_node: dict[str, int] = {}
        """Numbers by node; only nodes with pods."""
        self.changed = changed
        """The index's clock at the last change."""


class PodIndex:
    """The pods that count on nodes.

    Changes on trial do not move the clock: they are undone before a result is remembered. What has no pods on trial
    keeps its position and its counts, so that these are as before when a pod is there again.
    """

    def __init__(self) -> None:
        self.clock = 0
        """Grows with every change that can change an answer. Groups and terms that change get its value."""
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._pods: dict[str, dict[PodLabels, dict[str, int]]] = {}
        self._groups: dict[Selectors, NodeCounts] = {}
        self._counted: dict[PodLabels, tuple[NodeCounts, ...]] = {}
        self._terms: dict[PodTerm, NodeCounts] = {}
        self._users: dict[str, NodeCounts] = {}
        self._priorities: Counter[int] = Counter()
        self._by_label: dict[tuple[str, str], dict[PodTerm, None]] = {}
        self._emptied: dict[PodTerm | str, None] = {}
        """Terms, and claims for volumes, that had no pods any more at some point of a trial."""

    # Questions

    def group(self, selectors: Selectors) -> NodeCounts:
        """Counts of the pods that all selectors select. The value is kept up to date."""
        known = self._groups.get(selectors)
        if known is None:
            known = self._build(selectors)
        return known

    def terms_against(self, pod: PodLabels) -> Sequence[tuple[PodTerm, NodeCounts]]:
        """Required anti-affinity terms of pods on nodes that select the pod, each with its counts."""
        if not self._terms:
            return ()
        labels = dict(pod.labels)
        candidates: dict[PodTerm, None] = dict(self._by_label.get(("", ""), {}))
        for pair in pod.labels:
            candidates.update(self._by_label.get(pair, {}))
        found = [(term, self._terms[term]) for term in candidates if self._selects(term.pods, pod, labels)]
        return [one for one in found if one[1].by_node] if self._emptied else found

    def has_below(self, priority: int) -> bool:
        """Whether any pod has a lower priority."""
        return any(known < priority for known in self._priorities)

    def users(self, claim: str) -> NodeCounts:
        """Counts of the pods that use the PersistentVolumeClaim ``claim`` (namespace/name)."""
        return self._users.get(claim) or NodeCounts(-1)

    def selects(self, selectors: Selectors, pod: PodLabels) -> bool:
        """Whether all of the selectors select the pod."""
        labels = dict(pod.labels)
        return all(self._selects(selector, pod, labels) for selector in selectors)

    # Changes

    def add(self, needs: Needs, node: str, *, trial: bool = False) -> None:
        """Count a pod on the node."""
        self._priorities[needs.priority] += 1
        self._count(needs.pod, node, 1, trial)
        for use in needs.volumes:
            self._count_user(use, node, 1, trial)
        for term in needs.pod_anti_affinity:
            if term not in self._terms:
                self._terms[term] = NodeCounts(self.clock)
                self._by_label.setdefault(_pair(term), {})[term] = None
            self._count_term(term, node, 1, trial)

    def remove(self, needs: Needs, node: str, *, trial: bool = False) -> None:
        """Stop counting a pod with these needs on the node."""
        self._priorities[needs.priority] -= 1
        if not self._priorities[needs.priority]:
            del self._priorities[needs.priority]
        self._count(needs.pod, node, -1, trial)
        for use in needs.volumes:
            self._count_user(use, node, -1, trial)
        for term in needs.pod_anti_affinity:
            self._count_term(term, node, -1, trial)
            if not self._terms[term].by_node:
                if trial:
                    self._emptied[term] = None
                else:
                    self._forget_term(term)

    def end_trial(self) -> None:
        """Forget what came on trial only. Called when every change on trial is undone."""
        for one in self._emptied:
            if isinstance(one, PodTerm):
                if not self._terms[one].by_node:
                    self._forget_term(one)
            elif not self._users[one].by_node:
                del self._users[one]
        self._emptied.clear()

    def _forget_term(self, term: PodTerm) -> None:
        del self._terms[term]
        pair = _pair(term)
        del self._by_label[pair][term]
        if not self._by_label[pair]:
            del self._by_label[pair]

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Update a namespace's labels, None if it does not exist. Returns whether that can change an answer."""
        if self._namespaces.get(name) == labels:
            return False
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        by_namespace = [selectors for selectors in self._groups if any(s.namespace_selector for s in selectors)]
        concerned = bool(by_namespace) or any(term.pods.namespace_selector for term in self._terms)
        if concerned:
            self._forget_groups()
            self.clock += 1
            for nodes in self._terms.values():
                nodes.changed = self.clock
        return concerned

    def _count(self, pod: PodLabels, node: str, by: int, trial: bool) -> None:
        alike = self._pods.setdefault(pod.namespace, {})
        nodes = alike.get(pod)
        if nodes is None:
            nodes = alike[pod] = {}
            groups = tuple(group for selectors, group in self._groups.items() if self.selects(selectors, pod))
            if groups:
                self._counted[pod] = groups
        _add(nodes, node, by)
        for group in self._counted.get(pod, ()):
            _add(group.by_node, node, by)
            if not trial:
                self.clock += 1
                group.changed = self.clock
        if not nodes:
            del alike[pod]
            self._counted.pop(pod, None)
            if not alike:
                del self._pods[pod.namespace]

    def _count_user(self, use: VolumeUse, node: str, by: int, trial: bool) -> None:
        if use.owner:
            return
        nodes = self._users.setdefault(use.claim, NodeCounts(self.clock))
        _add(nodes.by_node, node, by)
        if not trial:
            self.clock += 1
            nodes.changed = self.clock
        if not nodes.by_node:
            if trial:
                self._emptied[use.claim] = None
            else:
                del self._users[use.claim]

    def _count_term(self, term: PodTerm, node: str, by: int, trial: bool) -> None:
        nodes = self._terms[term]
        _add(nodes.by_node, node, by)
        if not trial:
            self.clock += 1
            nodes.changed = self.clock

    def _build(self, selectors: Selectors) -> NodeCounts:
        if len(self._groups) >= _MAX_GROUPS:
            self._forget_groups()
        self.clock += 1
        group = self._groups[selectors] = NodeCounts(self.clock)
        # Without a selector of namespaces, only pods of the namespaces named can be selected.
        named = [selector.namespaces for selector in selectors if selector.namespace_selector is None]
        for namespace in frozenset.intersection(*named) if named else tuple(self._pods):
            for pod, nodes in self._pods.get(namespace, {}).items():
                if self.selects(selectors, pod):
                    self._counted[pod] = (*self._counted.get(pod, ()), group)
                    for node, count in nodes.items():
                        _add(group.by_node, node, count)
        return group

    def _forget_groups(self) -> None:
        self._groups.clear()
        self._counted.clear()

    def _selects(self, selector: PodSelector, pod: PodLabels, labels: Mapping[str, str]) -> bool:
        if selector.labels is None or (pod.deleting and not selector.counts_deleting):
            return False
        if pod.namespace not in selector.namespaces:
            further = selector.namespace_selector
            if further is None or not further.selects(self._namespaces.get(pod.namespace, {})):
                return False
        return selector.labels.selects(labels)


def _add(counts: dict[str, int], node: str, by: int) -> None:
    count = counts.get(node, 0) + by
    if count:
        counts[node] = count
    else:
        del counts[node]


def _pair(term: PodTerm) -> tuple[str, str]:
    """A label of every pod that the term selects; ("", "") if there is none."""
    if term.pods.labels is not None:
        for requirement in term.pods.labels.requirements:
            if requirement.operator == "In" and len(requirement.values) == 1:
                return requirement.key, requirement.values[0]
    return "", ""
