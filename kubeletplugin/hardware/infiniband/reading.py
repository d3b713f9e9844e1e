"""Reads HCAs and their ports from ``/sys/class/infiniband`` (Linux: ABI/stable/sysfs-class-infiniband)."""

import re

from kubeletplugin.hardware.infiniband.ports import Hca, Port
from kubeletplugin.hardware.sysfs import Sysfs

_CLASS = "class/infiniband"
_ACTIVE = "4: ACTIVE"
_EMPTY_PARTITIONS = (0x0000, 0x8000)


def read_hcas(sysfs: Sysfs) -> tuple[Hca, ...]:
    """The HCAs with InfiniBand ports, by name. Virtual functions are left out: they use the ports of their HCA."""
    hcas = (_hca(sysfs, name) for name in sysfs.names(_CLASS) if not sysfs.exists(f"{_CLASS}/{name}/device/physfn"))
    return tuple(hca for hca in hcas if hca.ports)


def _hca(sysfs: Sysfs, name: str) -> Hca:
    folder = f"{_CLASS}/{name}/ports"
    numbers = (number for number in sysfs.names(folder) if number.isdecimal())
    ports = (
        _port(sysfs, f"{folder}/{number}", int(number))
        for number in numbers
        if sysfs.text(f"{folder}/{number}/link_layer") == "InfiniBand"
    )
    return Hca(name, sysfs.pci_path(f"{_CLASS}/{name}"), tuple(ports))


def _port(sysfs: Sysfs, folder: str, number: int) -> Port:
    # The first entry of the table of addresses has the subnet prefix and the port's GUID.
    digits = sysfs.text(f"{folder}/gids/0").replace(":", "").lower()
    known = re.fullmatch(r"[0-9a-f]{32}", digits) is not None and digits.strip("0") != ""
    rate = re.match(r"(\d+)", sysfs.text(f"{folder}/rate"))
    return Port(
        number,
        guid=digits[16:] if known else "",
        subnet=digits[:16] if known else "",
        active=sysfs.text(f"{folder}/state") == _ACTIVE,
        rate_gbps=int(rate[1]) if rate else 0,
        partitions=_partitions(sysfs, f"{folder}/pkeys"),
    )


def _partitions(sysfs: Sysfs, folder: str) -> tuple[int, ...]:
    texts = (sysfs.text(f"{folder}/{index}") for index in sysfs.names(folder))
    keys = {int(text, 16) for text in texts if re.fullmatch(r"0x[0-9a-fA-F]{1,4}", text)}
    return tuple(sorted(keys - set(_EMPTY_PARTITIONS)))
