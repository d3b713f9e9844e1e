"""Manifests as other projects publish them. They are data that this repository does not have.

They are beside it, or in the folder that the variable LODE_PEERS_MANIFESTS names. Tests that use them say so where they
are not at hand; what they show is also shown with manifests of our own.
"""

import os
from pathlib import Path

import pytest

PEERS = Path(os.environ.get("LODE_PEERS_MANIFESTS") or Path(__file__).parents[2] / "shared" / "peers-manifests")


def peers_files(folder: str) -> list[Path]:
    """The manifests of one project; none if they are not at hand."""
    return sorted(file for file in (PEERS / folder).glob("*.y*ml"))


def peers_file(path: str) -> Path:
    """One manifest; the test is skipped if it is not at hand."""
    if not (PEERS / path).is_file():
        pytest.skip(f"{path} is not at hand in {PEERS}; set LODE_PEERS_MANIFESTS to the folder that has it")
    return PEERS / path
