"""Shows what containers use of their shares, as far as HAMi-core counts it in them, when somebody asks for metrics.

Only the files of claims that are prepared are read. What a container writes there can make the numbers of its own claim
wrong, and nothing else.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from driver.clock import Clock
from driver.metric_labels import gauges, labels
from driver.observe import Logger
from kubeletplugin.hardware.nvidia.sharing.hami import region_folders
from kubeletplugin.hardware.nvidia.sharing.region import CardUse, UnreadableRegion, read_region
from kubeletplugin.kubelet_devices import KubeletClaim
from kubeletplugin.prepare import NamedClaim
from kubeletplugin.reused import ReusedAnswer

OWN: Final = {"lode_claim_memory_used_bytes": "Memory of the card that the claim's processes use."}
HAMI: Final = {
    "hami_vgpu_memory_used_bytes": "Memory of the card that the container's processes use.",
    "hami_vgpu_memory_limit_bytes": "Memory of the card that the container's processes may use.",
    "hami_container_device_utilization_ratio": "Compute of the card that the container's processes use, in percent.",
}
"""The names, labels and units of HAMi's monitor."""

Sample = tuple[str, str, int]
"""Name, labels and value."""


class UsedShare(NamedTuple):
    """What a claim uses of a card."""

    claim: NamedClaim
    device: str
    place: int
    """Of the card among those of the container, from 0."""
    card: CardUse


class ShareUsage:
    """Reads and writes the series. Any thread may ask.

    Args:
        folder: see ``NvidiaSettings.run_folder``.
        claims: returns the claims that are prepared, by uid.
        containers: returns the claims of running containers; it may wait for the kubelet.
    """

    def __init__(
        self,
        folder: str,
        claims: Callable[[], Mapping[str, NamedClaim]],
        containers: Callable[[], Collection[KubeletClaim]],
        clock: Clock,
        log: Logger,
    ):
        self._folder = folder
        self._claims = claims
        self._log = log
        self._faults: Mapping[str, str] = {}
        self._uses = ReusedAnswer(self._read, clock)
        self._containers = ReusedAnswer(containers, clock)

    def own(self) -> bytes:
        """Return the series in our own names. The kubelet is not asked."""
        return _written(OWN, (sample for use in self._uses.get() for sample in _own(use)))

    def hami(self) -> bytes:
        """Return the series in the names of HAMi's monitor, for claims whose container the kubelet names."""
        running: dict[tuple[str, str], KubeletClaim] = {}
        for each in sorted(self._containers.get(), key=lambda each: (each.pod, each.container)):
            running.setdefault((each.namespace, each.name), each)
        named = ((use, running.get((use.claim.namespace, use.claim.name))) for use in self._uses.get())
        return _written(HAMI, (sample for use, container in named if container for sample in _hami(use, container)))

    def _read(self) -> tuple[UsedShare, ...]:
        claims, faults = self._claims(), dict[str, str]()
        found = list[UsedShare]()
        for uid, folder in region_folders(self._folder):
            if (claim := claims.get(uid)) is None:
                continue
            try:
                cards = read_region(folder)
            except UnreadableRegion as error:
                faults[uid] = str(error)
                continue
            devices = {uuid: device for device, uuid in claim.cards.items()}
            for place, card in enumerate(cards):
                if card.uuid in devices:
                    found.append(UsedShare(claim, devices[card.uuid], place, card))
        for uid in sorted(uid for uid, why in faults.items() if self._faults.get(uid) != why):
            named = f"{claims[uid].namespace}/{claims[uid].name}"
            self._log.warning("use of shares cannot be read", claim=named, folder=self._folder, reason=faults[uid])
        self._faults = faults
        return tuple(found)


def _own(use: UsedShare) -> Iterator[Sample]:
    claim = use.claim
    named = labels(claim_namespace=claim.namespace, claim=claim.name, device=use.device, uuid=use.card.uuid)
    yield "lode_claim_memory_used_bytes", named, use.card.memory_bytes


def _hami(use: UsedShare, container: KubeletClaim) -> Iterator[Sample]:
    named = labels(
        namespace=use.claim.namespace,
        pod=container.pod,
        container=container.container,
        vdevice_index=str(use.place),
        device_uuid=use.card.uuid,
    )
    yield "hami_vgpu_memory_used_bytes", named, use.card.memory_bytes
    yield "hami_vgpu_memory_limit_bytes", named, use.card.limit_bytes
    yield "hami_container_device_utilization_ratio", named, use.card.compute_percent


def _written(families: Mapping[str, str], samples: Iterable[Sample]) -> bytes:
    # Several claims on one card can meet in a container, and a container can write one card twice. Prometheus takes
    # nothing of an answer in which labels are repeated.
    sums = Counter[tuple[str, str]]()
    for name, named, value in samples:
        sums[name, named] += value
    return gauges(families, ((name, named, str(value)) for (name, named), value in sums.items()))
