"""Files that HAMi-core wrote on a real card (tests/data/hami/README.md)."""

import gzip
from functools import cache
from pathlib import Path

from kubeletplugin.hardware.nvidia.sharing.region import FILE_NAME
from tests.unit.docs.pages import ROOT

UUID = "GPU-0edbf563-15b3-b6e8-0dd9-61f798db4c76"
"""The card of all of them."""


@cache
def recorded(name: str) -> bytes:
    return gzip.decompress((ROOT / f"tests/data/hami/{name}.gz").read_bytes())


def put_region(run_folder: Path, card: str, claim: str, content: bytes) -> Path:
    """Write the file of a claim as its containers do, about the card of the node instead of the recorded one."""
    folder = run_folder / "hami" / card / claim
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    uuid = UUID.encode()
    path.write_bytes(content.replace(uuid, card.encode().ljust(len(uuid), b"\0")[: len(uuid)]))
    return path
