"""A driver of network cards with RDMA, which publishes what dranet publishes of them."""

from typing import Final

from tests.e2e.client import Object
from tests.e2e.otherdrivers.driver import OtherDriver

DRIVER: Final = "dra.net"
CLASS: Final = "dranet.net"
LABEL: Final = "app=nic-driver"
CARDS: Final = (
    {"name": "nic-0", "ifName": "rdma0", "pcieRoot": "pci0000:00", "numaNode": 0},
    {"name": "nic-1", "ifName": "rdma1", "pcieRoot": "pci0000:40", "numaNode": 1},
    {"name": "nic-2", "ifName": "rdma2", "pcieRoot": "pci0000:15", "numaNode": 0},
    {"name": "nic-3", "ifName": "rdma3", "pcieRoot": "pci0000:97", "numaNode": 1},
)
"""The network cards of each worker: two on PCIe roots of simulated A100 cards, two on those of H100 cards."""


def network_cards(version: int = 1) -> OtherDriver:
    """A version of the driver; another one is another program."""
    devices = [
        {"name": card["name"], "interface": card["ifName"], "attributes": _attributes(card, version)} for card in CARDS
    ]
    return OtherDriver(DRIVER, "nic-driver", {CLASS: f'device.driver == "{DRIVER}"'}, devices)


def _attributes(card: Object, version: int) -> Object:
    return {
        "resource.kubernetes.io/pcieRoot": {"string": card["pcieRoot"]},
        "ifName": {"string": card["ifName"]},
        "numaNode": {"int": card["numaNode"]},
        "rdma": {"bool": True},
        "driverVersion": {"version": f"{version}.0.0"},
    }
