"""Manifests as other projects publish them. They are data that this repository does not have.

They are in the folder that the variable LODE_PEERS_MANIFESTS names. Tests that use them are skipped without it; what
they show is also shown with manifests of our own.
"""

import os
from pathlib import Path

import pytest

VARIABLE = "LODE_PEERS_MANIFESTS"


def peers_files(folder: str) -> list[Path]:
    """The manifests of one project; none if they are not at hand."""
    found = os.environ.get(VARIABLE)
    return sorted(Path(found, folder).glob("*.y*ml")) if found else []


def peers_file(path: str) -> Path:
    """One manifest; the test is skipped if it is not at hand."""
    found = os.environ.get(VARIABLE)
    if not found or not Path(found, path).is_file():
        pytest.skip(f"{path} is not at hand; set {VARIABLE} to the folder that has it")
    return Path(found, path)
