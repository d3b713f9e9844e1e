"""What every test of the plugin runs under."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from kubeletplugin.hardware.ascend.dcmi import Dcmi
from tests.unit.kubeletplugin.unanswered import PAGE, functions_with_rows

_WITHOUT_A_CARD = frozenset({"nvmlErrorString"})
"""Functions that only put a number into words."""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder whose sockets' paths stay within the 107 bytes of AF_UNIX, wherever pytest keeps its own."""
    with tempfile.TemporaryDirectory(prefix="lode-") as folder:
        yield Path(folder)


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that is possible, for nodes with a few hundred small files, which the plugin syncs."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


@pytest.fixture(autouse=True)
def _calls_of_nvml_have_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A function that is called has a row that says what happens while it fails."""
    called: set[str] = set()
    look_up = pynvml._nvmlGetFunctionPointer

    def noted(name: str) -> object:
        called.add(name)
        return look_up(name)

    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", noted)
    yield
    without = called - functions_with_rows("nvml") - _WITHOUT_A_CARD
    assert not without, f"functions of NVML without a row in {PAGE.name}: {sorted(without)}"


@pytest.fixture(autouse=True)
def _calls_of_dcmi_have_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same for DCMI."""
    called: set[str] = set()
    call = Dcmi.call

    def noted(dcmi: Dcmi, function: str, *arguments: Any) -> None:
        called.add(function)
        call(dcmi, function, *arguments)

    monkeypatch.setattr(Dcmi, "call", noted)
    yield
    without = called - functions_with_rows("dcmi")
    assert not without, f"functions of DCMI without a row in {PAGE.name}: {sorted(without)}"
