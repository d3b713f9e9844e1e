"""Writes a sysfs tree; its links are relative, as the kernel's are, so it can be moved."""

import os
from collections.abc import Sequence
from pathlib import Path

FULL_DEFAULT = "0xffff"


def add_function(root: Path, *way: str, numa_node: int = -1) -> Path:
    """A PCI function: its root complex, bridges and its own address. Returns its folder."""
    folder = root.joinpath("devices", *way)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "numa_node").write_text(f"{numa_node}\n")
    _link(root / "bus/pci/devices" / way[-1], folder)
    return folder


def add_hca(
    root: Path,
    name: str,
    *way: str,
    subnet: str = "fec0:0000:0000:0001",
    guid: str = "0c42:a103:00ab:cd12",
    state: str = "4: ACTIVE",
    rate: str = "400 Gb/sec (4X NDR)",
    link_layer: str = "InfiniBand",
    partitions: Sequence[str] = (FULL_DEFAULT,),
    port: int = 1,
) -> Path:
    """An HCA with one port; a second call adds a port. Returns the folder of the port."""
    function = add_function(root, *way)
    device = function / "infiniband" / name
    folder = device / "ports" / str(port)
    for part in ("gids", "pkeys"):
        (folder / part).mkdir(parents=True)
    for file, text in {
        "state": state,
        "rate": rate,
        "link_layer": link_layer,
        "gids/0": f"{subnet}:{guid}",
        **{f"pkeys/{index}": key for index, key in enumerate([*partitions, "0x0000", "0x0000"])},
    }.items():
        (folder / file).write_text(f"{text}\n")
    _link(device / "device", function)
    _link(root / "class/infiniband" / name, device)
    return folder


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(os.path.relpath(target, link.parent))
