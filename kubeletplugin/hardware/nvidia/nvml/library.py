"""Loads NVML and calls it. Each function is looked up when it is called, so a driver may lack any of them.

Sets the compute mode of a card.
"""

import ctypes
import threading
from collections.abc import Collection
from contextlib import suppress
from enum import IntEnum
from typing import Any, Final, Literal

import pynvml

from driver.errors import TransientFault
from kubeletplugin.hardware.answer import LACKS, Answer, Lack, Unread
from kubeletplugin.hardware.port import Unsupported


class NvmlCode(IntEnum):
    """The return codes of NVML that matter here (``nvmlReturn_t``)."""

    UNINITIALIZED = pynvml.NVML_ERROR_UNINITIALIZED
    INVALID_ARGUMENT = pynvml.NVML_ERROR_INVALID_ARGUMENT
    NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
    NOT_FOUND = pynvml.NVML_ERROR_NOT_FOUND
    DRIVER_NOT_LOADED = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    FUNCTION_NOT_FOUND = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    TIMEOUT = pynvml.NVML_ERROR_TIMEOUT
    GPU_IS_LOST = pynvml.NVML_ERROR_GPU_IS_LOST
    RESET_REQUIRED = pynvml.NVML_ERROR_RESET_REQUIRED
    LIBRARY_MISMATCH = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    IN_USE = pynvml.NVML_ERROR_IN_USE
    INSUFFICIENT_RESOURCES = pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES
    GPU_NOT_FOUND = pynvml.NVML_ERROR_GPU_NOT_FOUND
    VERSION_MISMATCH = pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    DEPRECATED = pynvml.NVML_ERROR_DEPRECATED


LOST = frozenset({NvmlCode.GPU_IS_LOST, NvmlCode.GPU_NOT_FOUND})
"""The card has fallen off the bus, or was removed."""
LACKING: Final = frozenset(
    {NvmlCode.NOT_SUPPORTED, NvmlCode.FUNCTION_NOT_FOUND, NvmlCode.VERSION_MISMATCH, NvmlCode.DEPRECATED}
)
"""The card or its driver does not have what was asked for: the function, or this version of its structure."""
NO_SUCH: Final = LACKING | {NvmlCode.INVALID_ARGUMENT}
"""The same where the question names a link or a profile by its number: there is none of this number."""
_DRIVER_CHANGED = frozenset({NvmlCode.UNINITIALIZED, NvmlCode.DRIVER_NOT_LOADED, NvmlCode.LIBRARY_MISMATCH})
"""The driver was unloaded or exchanged: the library must be loaded again."""


class NvmlError(TransientFault):
    """A call of NVML failed; ``code`` says how, and is a ``NvmlCode`` or another number of ``nvmlReturn_t``."""

    def __init__(self, function: str, code: int, text: str):
        self.code = code
        super().__init__(f"NVML: {function}: {text} (code {code})")


class Nvml:
    """The library of one driver, initialised when it is first called, and again after the driver was exchanged.

    ``pynvml`` holds one library for the whole process, so there is one ``Nvml`` at a time. Thread-safe, as NVML is.

    Args:
        path: of ``libnvidia-ml.so.1``.
    """

    def __init__(self, path: str):
        self._path = path
        self._lock = threading.Lock()
        self._open = False
        self.loads = 0
        """Number of times that the library was loaded. Handles of an earlier load must not be used."""

    def device(self, uuid: str) -> Any:
        """The handle of a card.

        A driver may answer that the card is lost if any card is lost (nvml.h). Then all cards are searched by index.

        Raises:
            NvmlError: there is no such card, or it is lost.
        """
        try:
            return self.call("nvmlDeviceGetHandleByUUID", uuid)
        except NvmlError as error:
            if error.code not in LOST:
                raise
            for index in range(self.call("nvmlDeviceGetCount")):
                with suppress(NvmlError):
                    handle = self.call("nvmlDeviceGetHandleByIndex", index)
                    if self.call("nvmlDeviceGetUUID", handle) == uuid:
                        return handle
            raise

    def call(self, function: str, *arguments: Any) -> Any:
        """Call ``pynvml.<function>``.

        Raises:
            NvmlError: it failed, the driver lacks it, or the library cannot be loaded.
        """
        self._load()
        try:
            return getattr(pynvml, function)(*arguments)
        except pynvml.NVMLError as error:
            if error.value in _DRIVER_CHANGED:
                self._open = False
            raise NvmlError(function, error.value, str(error)) from error

    def need(self, function: str, *arguments: Any, lacking: Collection[int] = LACKING) -> Any | Literal[Lack.LACKS]:
        """As ``call``, but an answer that says that the driver does not have it is one. For what is acted on at once.

        Args:
            lacking: the codes that say so.

        Raises:
            NvmlError: there is no answer.
        """
        try:
            return self.call(function, *arguments)
        except NvmlError as error:
            if error.code in lacking:
                return LACKS
            raise

    def ask(self, function: str, *arguments: Any, lacking: Collection[int] = LACKING) -> Answer[Any]:
        """As ``need``, but an error of this question alone is an answer, too: ``Unread``.

        Raises:
            NvmlError: the card is lost, or the driver is gone.
        """
        try:
            return self.need(function, *arguments, lacking=lacking)
        except NvmlError as error:
            if error.code in LOST or error.code in _DRIVER_CHANGED:
                raise
            return Unread(str(error))

    def _load(self) -> None:
        with self._lock:
            if self._open:
                return
            try:
                # The library of an earlier driver stays in the process; nothing asks it any more.
                pynvml.nvmlLib = ctypes.CDLL(self._path)
            except OSError as error:
                raise NvmlError("load", pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, str(error)) from error
            pynvml._nvmlGetFunctionPointer_cache.clear()
            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError as error:
                raise NvmlError("nvmlInit", error.value, str(error)) from error
            self.loads += 1
            self._open = True


def set_exclusive(nvml: Nvml, card: str, *, on: bool) -> None:
    """Let one process only (the MPS server), or any number of them, use a card.

    A card without compute modes is not exclusive.

    Raises:
        Unsupported: the card has no compute modes, and is to be exclusive.
        NvmlError: another error.
    """
    handle = nvml.device(card)
    mode = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS if on else pynvml.NVML_COMPUTEMODE_DEFAULT
    if nvml.need("nvmlDeviceGetComputeMode", handle) == mode:
        return
    try:
        nvml.call("nvmlDeviceSetComputeMode", handle, mode)
    except NvmlError as error:
        if error.code != NvmlCode.NOT_SUPPORTED:
            raise
        if on:
            raise Unsupported(
                f"card {card} cannot change its compute mode, which sharing mps needs; use another sharing"
            ) from error
