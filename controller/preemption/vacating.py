"""Fleet and nodes as if pods had gone, on trial. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from controller.allocation import Fleet
from controller.placement import Nodes
from controller.preemption.bonds import Bonds


class Vacating:
    """Lets pods go on trial. Meanwhile no event may reach the fleet or the nodes."""

    def __init__(self, fleet: Fleet, nodes: Nodes, bonds: Bonds):
        self.fleet = fleet
        self.nodes = nodes
        self._bonds = bonds

    @contextmanager
    def without(self, uids: Collection[str]) -> Iterator[None]:
        """Let these pods go, and come back. Other pods that are being deleted are taken to be gone."""
        holders = [self._bonds.holders[uid] for uid in sorted(uids)]
        claims = [claim.uid for claim in self._bonds.freed(uids)]
        with self._lifted([holder.pod for holder in holders], claims):
            yield

    def going(self, concerns: Callable[[str], bool]) -> AbstractContextManager[None]:
        """Let the pods go that are being deleted.

        Args:
            concerns: whether a node is looked at. Those on other nodes stay, unless nodes share devices.
        """
        every = self.fleet.shares_devices
        return self.without([one.uid for one in self._bonds.going if every or concerns(one.node)])

    @contextmanager
    def _lifted(self, pods: Iterable[str], claims: Collection[str]) -> Iterator[None]:
        lifted = [one for pod in pods if (one := self.nodes.lift(pod)) is not None]
        for uid in claims:
            self.fleet.lift(uid)
        try:
            yield
        finally:
            for uid in claims:
                self.fleet.put_back(uid)
            for one in reversed(lifted):
                self.nodes.put_back(one)
