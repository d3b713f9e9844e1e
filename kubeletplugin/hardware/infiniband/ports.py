"""The node's InfiniBand fabric and the rails of its cards, from the ports of its HCAs. Pure.

``ibCluster`` names the subnets of the active ports: nodes in one InfiniBand subnet reach each other, unless partitions
keep them apart. ``rail`` is the position of the HCA that a card is tied to. A node cannot see the leaf switch of a
port.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

DEFAULT_SUBNET = "fe80000000000000"
"""The subnet prefix of a port whose subnet manager sets none (InfiniBand Architecture Specification, 4.1.1)."""
_DEFAULT_PARTITION = 0x7FFF
_FULL_MEMBER = 0x8000
"""Bit of a partition key: the port reaches all members of the partition, else only full members (10.9.1.1)."""


@dataclass(frozen=True, slots=True)
class Port:
    """One InfiniBand port of an HCA."""

    number: int
    guid: str
    """Of this port (not of the HCA): 16 hexadecimal digits; "" if it is not known."""
    subnet: str
    """The subnet prefix: 16 hexadecimal digits; "" if it is not known."""
    active: bool
    """Whether the subnet manager has activated the port."""
    rate_gbps: int
    """In Gb/s; 0 if it is not known."""
    partitions: tuple[int, ...] = ()
    """Partition keys, without empty entries of the port's table."""


@dataclass(frozen=True, slots=True)
class Hca:
    """A host channel adapter with its InfiniBand ports."""

    name: str
    """``mlx5_0``."""
    pci_path: tuple[str, ...]
    """PCI path from the root complex to the HCA; see ``Sysfs.pci_path``."""
    ports: tuple[Port, ...]

    @property
    def bus_id(self) -> str:
        """``0000:18:00.0``; "" if it is not a PCI function."""
        return self.pci_path[-1] if self.pci_path else ""

    @property
    def active(self) -> bool:
        """Whether one of its ports is active."""
        return any(port.active for port in self.ports)


def compute_hcas(hcas: Iterable[Hca], exclude: Sequence[str]) -> tuple[Hca, ...]:
    """The HCAs of the compute fabric with their ports there, in the order of their PCI addresses.

    Args:
        exclude: patterns (``fnmatch``) of HCAs and ports for storage and management. A pattern is compared with the
            HCA's name (``mlx5_4``), its PCI address, each port's name (``mlx5_4/1``) and each port's GUID.
    """

    def is_excluded(*names: str) -> bool:
        return any(fnmatchcase(name, pattern) for name in names for pattern in exclude)

    kept = []
    for hca in hcas:
        ports = tuple(port for port in hca.ports if not is_excluded(f"{hca.name}/{port.number}", port.guid))
        if ports and not is_excluded(hca.name, hca.bus_id):
            kept.append(Hca(hca.name, hca.pci_path, ports))
    return tuple(sorted(kept, key=lambda hca: (hca.bus_id, hca.name)))


def cluster_of(hcas: Iterable[Hca]) -> str:
    """The name of the fabric of these HCAs; "" if it is not known.

    Nodes whose active ports are in the same subnets and partitions have the same name. The default subnet prefix names
    no fabric: all fabrics whose subnet manager sets none share it.
    """
    names = {_domain(port) for hca in hcas for port in hca.ports if port.active and port.subnet}
    known = {name for name in names if name and not name.startswith(DEFAULT_SUBNET)}
    return "+".join(sorted(known))


def _domain(port: Port) -> str:
    # A full member of the default partition reaches every port of the subnet.
    full = sorted({key & ~_FULL_MEMBER for key in port.partitions if key & _FULL_MEMBER})
    if not port.partitions or _DEFAULT_PARTITION in full:
        return port.subnet
    if not full:  # two ports like this one cannot talk to each other
        return ""
    return ".".join([port.subnet, *(f"p{key:04x}" for key in full)])


def ties(cards: Mapping[str, tuple[str, ...]], hcas: Sequence[Hca]) -> dict[str, int]:
    """The position in ``hcas`` of the HCA that each card is tied to; cards with no HCA on their PCIe root are left out.

    A card is tied to the HCA that shares the longest part of its PCI path; HCAs with an active port are preferred.
    Cards with several such HCAs take turns, in the order of their addresses.

    Args:
        cards: the PCI path of each card, from the root complex, by any name of the card.
    """
    tied: dict[str, int] = {}
    turns: dict[tuple[int, ...], int] = {}
    for name, path in sorted(cards.items(), key=lambda item: (item[1][-1:], item[0])):
        shared = [_shared(path, hca.pci_path) for hca in hcas]
        longest = max(shared, default=0)
        if longest == 0:
            continue
        nearest = [position for position, length in enumerate(shared) if length == longest]
        usable = tuple(position for position in nearest if hcas[position].active) or tuple(nearest)
        turn = turns.get(usable, 0)
        turns[usable] = turn + 1
        tied[name] = usable[turn % len(usable)]
    return tied


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length
