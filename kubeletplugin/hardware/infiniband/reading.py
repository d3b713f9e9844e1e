"""Reads HCAs and their ports from ``/sys/class/infiniband`` (Linux: ABI/stable/sysfs-class-infiniband)."""

import re

from driver.errors import TransientFault
from kubeletplugin.hardware.answer import LACKS, read
from kubeletplugin.hardware.infiniband.ports import Hca, Port
from kubeletplugin.hardware.sysfs import Sysfs

_CLASS = "class/infiniband"
_ACTIVE = "4: ACTIVE"
_EMPTY_PARTITIONS = (0x0000, 0x8000)


def read_hcas(sysfs: Sysfs) -> tuple[Hca, ...]:
    """The HCAs with InfiniBand ports, by name. Virtual functions are left out: they use the ports of their HCA.

    Raises:
        TransientFault: a file cannot be read, or an HCA goes at this moment. Without it, others would have its place.
    """
    names = (name for name in _names(sysfs, _CLASS) if not _is_virtual(sysfs, name))
    hcas = (_hca(sysfs, name) for name in names)
    return tuple(hca for hca in hcas if hca.ports)


def _hca(sysfs: Sysfs, name: str) -> Hca:
    folder = f"{_CLASS}/{name}/ports"
    numbers = (number for number in _names(sysfs, folder) if number.isdecimal())
    ports = (
        _port(sysfs, f"{folder}/{number}", int(number))
        for number in numbers
        if _text(sysfs, f"{folder}/{number}/link_layer") == "InfiniBand"
    )
    way = read(sysfs.way(f"{_CLASS}/{name}"))
    if way is LACKS:
        raise TransientFault(f"{_CLASS}/{name} is listed and not there")
    return Hca(name, way, tuple(ports))


def _port(sysfs: Sysfs, folder: str, number: int) -> Port:
    # The first entry of the table of addresses has the subnet prefix and the port's GUID.
    digits = _text(sysfs, f"{folder}/gids/0").replace(":", "").lower()
    known = re.fullmatch(r"[0-9a-f]{32}", digits) is not None and digits.strip("0") != ""
    rate = re.match(r"(\d+)", _text(sysfs, f"{folder}/rate"))
    return Port(
        number,
        guid=digits[16:] if known else "",
        subnet=digits[:16] if known else "",
        active=_text(sysfs, f"{folder}/state") == _ACTIVE,
        rate_gbps=int(rate[1]) if rate else 0,
        partitions=_partitions(sysfs, f"{folder}/pkeys"),
    )


def _partitions(sysfs: Sysfs, folder: str) -> tuple[int, ...]:
    texts = (_text(sysfs, f"{folder}/{index}") for index in _names(sysfs, folder))
    keys = {int(text, 16) for text in texts if re.fullmatch(r"0x[0-9a-fA-F]{1,4}", text)}
    return tuple(sorted(keys - set(_EMPTY_PARTITIONS)))


def _is_virtual(sysfs: Sysfs, name: str) -> bool:
    return read(sysfs.is_there(f"{_CLASS}/{name}/device/physfn")) is not LACKS


def _text(sysfs: Sysfs, path: str) -> str:
    text = read(sysfs.read(path))
    return "" if text is LACKS else text


def _names(sysfs: Sysfs, path: str) -> tuple[str, ...]:
    names = read(sysfs.listed(path))
    return () if names is LACKS else names
