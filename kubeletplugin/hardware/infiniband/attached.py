"""The InfiniBand fabric and the rail of each card."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from driver.clock import Clock
from driver.errors import TransientFault
from driver.observe import Logger
from kubeletplugin.hardware.answer import Unread, if_read
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.infiniband.ports import Hca, cluster_of, compute_hcas, ties
from kubeletplugin.hardware.infiniband.reading import read_hcas
from kubeletplugin.hardware.places import Places
from kubeletplugin.hardware.sysfs import Sysfs

READ_AGAIN_SECONDS = 10.0
"""Time after which the HCAs are read again. The cards are asked for every second."""


class Attachments:
    """Adds ``ib_cluster`` and ``rail`` to the cards of the node. A rail that a backend reports stays. Thread-safe.

    Args:
        exclude: patterns of HCAs and ports outside the compute fabric (``ports.compute_hcas``).
    """

    def __init__(self, sysfs: Sysfs, exclude: Sequence[str], clock: Clock, log: Logger):
        self._sysfs = sysfs
        self._places = Places(sysfs)
        self._exclude = tuple(exclude)
        self._clock = clock
        self._log = log
        self._lock = threading.Lock()
        self._hcas: tuple[Hca, ...] = ()
        self._read_again = 0.0
        """The time (``Clock.monotonic``) of the next reading of the HCAs."""
        self._unread = ""
        """Why they could not be read the last time."""
        self._tied: Mapping[str, int] = {}
        """The position of the HCA of each card, by PCI address, when all of it was known last."""

    def attached(self, cards: tuple[Card, ...]) -> tuple[Card, ...]:
        """The same cards, with their fabric and rail."""
        hcas = self._current()
        cluster = cluster_of(hcas)
        tied = self._ties(cards, hcas) if hcas else {}
        return tuple(
            replace(card, ib_cluster=cluster, rail=card.rail or _rail(tied.get(card.pci_bus_id))) for card in cards
        )

    def _ties(self, cards: tuple[Card, ...], hcas: Sequence[Hca]) -> Mapping[str, int]:
        """The position of each card's HCA, as it was while a card's place is not known: cards of one HCA take turns."""
        ways = {card.pci_bus_id: self._places.place(card.pci_bus_id).way for card in cards if card.pci_bus_id}
        with self._lock:
            if not any(isinstance(way, Unread) for way in ways.values()):
                self._tied = ties({bus_id: if_read(way) or () for bus_id, way in ways.items()}, hcas)
            return self._tied

    def _current(self) -> tuple[Hca, ...]:
        with self._lock:
            now = self._clock.monotonic()
            if now >= self._read_again:
                self._read_again = now + READ_AGAIN_SECONDS
                hcas = self._read_now()
                if hcas != self._hcas:
                    self._hcas = hcas
                    self._report()
            return self._hcas

    def _read_now(self) -> tuple[Hca, ...]:
        """The HCAs, as they were while one cannot be read."""
        try:
            hcas = compute_hcas(read_hcas(self._sysfs), self._exclude)
        except TransientFault as fault:
            if (why := str(fault)) != self._unread:
                self._log.warning("InfiniBand HCAs cannot be read; what was known of them holds", reason=why)
            self._unread = why
            return self._hcas
        self._unread = ""
        return hcas

    def _report(self) -> None:
        for position, hca in enumerate(self._hcas):
            for port in hca.ports:
                self._log.info(
                    "InfiniBand port",
                    hca=hca.name,
                    port=port.number,
                    rail=_rail(position),
                    guid=port.guid,
                    subnet=port.subnet,
                    active=port.active,
                    rate_gbps=port.rate_gbps,
                    partitions=[f"0x{key:04x}" for key in port.partitions],
                )
        if any(hca.active for hca in self._hcas) and not cluster_of(self._hcas):
            self._log.warning(
                "the InfiniBand subnet has the default prefix, which does not tell fabrics apart",
                remedy="set a subnet prefix in the subnet manager, or label the nodes with the setting "
                "kubeletplugin.nodeLabels.ibCluster",
            )


def _rail(position: int | None) -> str:
    return "" if position is None else f"rail-{position}"
