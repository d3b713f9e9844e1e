"""The cluster that decisions are made about, and the one way to ask: what if these were gone, those there? Pure.

Events change a cluster. A question changes it on trial: ``Cluster.what_if`` gives a stack of changes, and the end of
its block undoes them all, in reverse order. After that everything is as before, the versions, too. So what was found
out before the question is still known. What was found out during it is not: its versions never come again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType

from controller.allocation import Fleet, UseChange
from controller.placement import Needs, Nodes, Placed, Placement, PodChange, PodDemand, find_place
from controller.quotas import KeptChange, QuotaLedger
from controller.refusal import Refusal
from driver.model import Allocation
from driver.names import Names

_Change = PodChange | UseChange | KeptChange


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """The devices, the nodes with their pods, and the quotas of namespaces."""

    devices: Fleet
    nodes: Nodes
    quotas: QuotaLedger

    @classmethod
    def unlimited(cls, devices: Fleet, nodes: Nodes) -> "Cluster":
        """The cluster in which no namespace has a quota."""
        return cls(devices, nodes, QuotaLedger(Names(), devices.ledger.published_device))

    def what_if(self) -> "WhatIf":
        """A new stack of changes on trial. A question may ask others: their stacks begin and end inside of it."""
        return WhatIf(self)


class WhatIf:
    """What would be if. Used in a ``with`` block, in which no event may reach the cluster.

    The end of the block undoes all changes that are not undone yet. Entering it again makes these again; the cluster
    must be as it was then.
    """

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._changes: list[_Change] = []

    def __enter__(self) -> "WhatIf":
        for change in self._changes:
            self._apply(change)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # In reverse: each node remembers its version before a change, and takes it back with the change
        # (test_after_any_changes_and_their_end_state_versions_and_answers_are_as_before).
        for change in reversed(self._changes):
            self._revert(change)

    # Changes

    def remove(self, pods: Iterable[str] = (), claims: Iterable[str] = ()) -> None:
        """Count these pods (``namespace/name``) and the devices of these claims (UIDs) no longer.

        Those that do not count are left out. Whatever holds devices by a name of its own may be among the claims.
        """
        # Each change is made before the next is looked for. So a pod or claim that is named twice, or that an outer
        # question has removed, does not count now, and is left out (test_who_is_gone_is_not_removed_twice).
        for pod in pods:
            if (change := self._cluster.nodes.removing(pod)) is not None:
                self._make(change)
        for uid in claims:
            if (allocation := self._cluster.devices.ledger.counted(uid)) is not None:
                self._make(UseChange(uid, allocation, ends=True))

    def place(self, pod: PodDemand, placed: Placed) -> None:
        """Count the pod and its devices at this place, besides what counts of it. A pod may be placed repeatedly."""
        # Each time by a name of its own: to place a pod takes it from nowhere
        # (test_the_same_pod_may_be_placed_repeatedly_and_counts_each_time).
        self.add_pod(pod.key, pod.needs, placed.node)
        for claim, allocation in pod.given(placed):
            self.use(claim.uid, allocation)

    def schedule(self, pod: PodDemand) -> Placement | Refusal[None]:
        """Find a place for the pod, and place it there if there is one."""
        found = find_place(pod, self._cluster.devices, self._cluster.nodes)
        if isinstance(found, Placement):
            self.place(pod, found)
        return found

    def add_pod(self, pod: str, needs: Needs, node: str) -> None:
        """Count the pod on the node, besides what counts of it. Its devices do not count."""
        self._make(self._cluster.nodes.placing(pod, node, needs))

    def use(self, uid: str, allocation: Allocation) -> None:
        """Count the allocation for the claim, besides what counts for it."""
        self._make(UseChange(uid, allocation))

    def stop_using(self, uid: str, allocation: Allocation) -> None:
        """Count an allocation no longer that ``use`` counted, and that need not be the last change."""
        self._make(UseChange(uid, allocation, ends=True))

    def keep_nothing_for(self, pod: str) -> None:
        """Count nothing for the quotas that is kept for the pod."""
        self._make(KeptChange(pod, self._cluster.quotas.kept(pod)))

    # The stack

    @property
    def depth(self) -> int:
        """The number of changes, for ``undo``."""
        return len(self._changes)

    def undo(self, depth: int) -> None:
        """Undo the last changes, so that as many are left."""
        while len(self._changes) > depth:
            self._revert(self._changes.pop())

    def _make(self, change: _Change) -> None:
        self._apply(change)
        self._changes.append(change)

    def _apply(self, change: _Change) -> None:
        if isinstance(change, PodChange):
            self._cluster.nodes.apply(change)
        elif isinstance(change, UseChange):
            self._cluster.devices.ledger.apply(change)
        else:
            self._cluster.quotas.apply(change)

    def _revert(self, change: _Change) -> None:
        if isinstance(change, PodChange):
            self._cluster.nodes.revert(change)
        elif isinstance(change, UseChange):
            self._cluster.devices.ledger.revert(change)
        else:
            self._cluster.quotas.revert(change)
