"""The InfiniBand fabric and the rail of each card."""

import threading
from collections.abc import Sequence
from dataclasses import replace

from driver.clock import Clock
from driver.observe import Logger
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.infiniband.ports import Hca, cluster_of, compute_hcas, ties
from kubeletplugin.hardware.infiniband.reading import read_hcas
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
        self._exclude = tuple(exclude)
        self._clock = clock
        self._log = log
        self._lock = threading.Lock()
        self._hcas: tuple[Hca, ...] = ()
        self._read_again = 0.0
        """The time (``Clock.monotonic``) of the next reading of the HCAs."""

    def attached(self, cards: tuple[Card, ...]) -> tuple[Card, ...]:
        """The same cards, with their fabric and rail."""
        hcas = self._current()
        cluster = cluster_of(hcas)
        tied = ties({card.pci_bus_id: self._sysfs.path_of(card.pci_bus_id) for card in cards}, hcas) if hcas else {}
        return tuple(
            replace(card, ib_cluster=cluster, rail=card.rail or _rail(tied.get(card.pci_bus_id))) for card in cards
        )

    def _current(self) -> tuple[Hca, ...]:
        with self._lock:
            now = self._clock.monotonic()
            if now >= self._read_again:
                hcas = compute_hcas(read_hcas(self._sysfs), self._exclude)
                self._read_again = now + READ_AGAIN_SECONDS
                if hcas != self._hcas:
                    self._hcas = hcas
                    self._report()
            return self._hcas

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
