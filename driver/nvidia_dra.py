"""Claims that were written for NVIDIA's DRA driver, in our terms. Pure.

They are read where the setting ``nvidiaDraNames`` is on. What is asked for is kept, or it is a fault with the remedy:
an unknown field or value of its parameters (``resource.nvidia.com/v1beta1``) is never ignored.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from driver.errors import Fault, InvalidInput
from driver.kinds import share_of
from driver.model import DeviceClass, Want
from driver.names import NVIDIA_DRA_DRIVER, Names

API_VERSION: Final = "resource.nvidia.com/v1beta1"

_KINDS: Final = {"GpuConfig": "GpuConfig", "MigDeviceConfig": "MigConfig"}
"""Our kind for each of theirs."""
_INTERVALS: Final = {"Default": "default", "Short": "short", "Medium": "medium", "Long": "long"}
_FIELDS: Final[Mapping[str, Sequence[str]]] = {
    "": ("apiVersion", "kind", "sharing"),
    ".sharing": ("strategy", "timeSlicingConfig", "mpsConfig"),
    ".sharing.timeSlicingConfig": ("interval",),
    ".sharing.mpsConfig": (
        "defaultActiveThreadPercentage",
        "defaultPinnedDeviceMemoryLimit",
        "defaultPerDevicePinnedMemoryLimit",
        "multiUser",
    ),
}
"""The fields of each object, by its place in the parameters."""


def asks_for_share(want: Want, names: Names) -> bool:
    """Whether a request for a whole card by that driver's class means a share: it asks for amounts.

    So that driver shares its cards. Who only looks at a card (``adminAccess``) takes nothing of it.
    """
    return names.nvidia_dra and want.device_class == NVIDIA_DRA_DRIVER and bool(want.capacity) and not want.admin_access


def class_of(want: Want, classes: Mapping[str, DeviceClass], names: Names) -> DeviceClass | None:
    """The class of a request, with the selectors that decide about devices; None if there is none.

    Where ``asks_for_share``, the class selects our shares as it selects our whole cards.
    """
    found = classes.get(want.device_class)
    if found is None or not asks_for_share(want, names):
        return found
    whole, share = (_of_kind(kind, names) for kind in ("gpu", share_of("gpu")))
    rewritten = tuple(selector.replace(whole, share) for selector in found.selectors)
    return replace(found, selectors=rewritten if rewritten != found.selectors else (*rewritten, share))


def _of_kind(kind: str, names: Names) -> str:
    return f'device.attributes["{names.driver}"].kind == "{kind}"'


def translated(raw: Mapping[str, Any], names: Names, field: str) -> dict[str, Any]:
    """The parameters of NVIDIA's driver as parameters of ours.

    Raises:
        InvalidInput: they are unknown, or cannot be kept; has every fault. The author of the object must act.
    """
    faults = [Fault(f"{field}{where}", message) for where, message in _faults(raw)]
    if faults:
        raise InvalidInput("parameters", faults)
    ours: dict[str, Any] = {"apiVersion": names.parameters_api_version, "kind": _KINDS[raw["kind"]]}
    sharing = raw.get("sharing") or {}
    if raw["kind"] == "GpuConfig" and sharing:
        if sharing["strategy"] == "MPS":
            return ours | {"sharing": "mps"}
        interval = (sharing.get("timeSlicingConfig") or {}).get("interval") or "Default"
        return ours | {"sharing": "timeSlicing", "interval": _INTERVALS[interval]}
    return ours


def _faults(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each fault with its field."""
    version, kind = raw.get("apiVersion"), raw.get("kind")
    if version != API_VERSION:
        yield ".apiVersion", f"unknown version: {version!r}; use {API_VERSION}"
    if not isinstance(kind, str) or kind not in _KINDS:
        yield ".kind", f"cannot be kept: {kind!r}; use one of {', '.join(_KINDS)}, or remove the entry"
        return
    malformed = tuple(_malformed(raw))
    yield from malformed
    if not malformed and raw.get("sharing") is not None:
        yield from _sharing_faults(kind, raw["sharing"])


def _malformed(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Objects that are none, and fields that are not known."""
    for where, known in _FIELDS.items():
        found: Any = raw
        for part in where.split(".")[1:]:
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is None:
            continue
        if not isinstance(found, Mapping):
            yield where, f"must be an object with the fields {', '.join(known)} (found {found!r})"
            continue
        for name in found:
            if name not in known:
                yield f"{where}.{name}", f"unknown field; remove it (the fields here are {', '.join(known)})"


def _sharing_faults(kind: str, sharing: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    strategy, slices, mps = (sharing.get(name) for name in _FIELDS[".sharing"])
    at = ".sharing"
    if strategy not in ("TimeSlicing", "MPS"):
        yield f"{at}.strategy", f"unsupported value: {strategy!r}; use TimeSlicing or MPS"
    elif kind == "MigDeviceConfig" and strategy == "MPS":
        yield f"{at}.strategy", "cannot be kept: 'MPS' in a MIG partition; remove sharing, or ask for a smaller profile"
    if slices is not None and strategy == "MPS":
        yield f"{at}.timeSlicingConfig", "has no meaning with strategy MPS; remove it"
    if slices is not None and kind == "MigDeviceConfig":
        yield f"{at}.timeSlicingConfig", "cannot be kept: a MIG partition has no time slices of its own; remove it"
    elif slices is not None and slices.get("interval") not in (None, *_INTERVALS):
        found = slices["interval"]
        yield f"{at}.timeSlicingConfig.interval", f"unsupported value: {found!r}; use one of {', '.join(_INTERVALS)}"
    if mps is not None and strategy == "TimeSlicing":
        yield f"{at}.mpsConfig", "has no meaning with strategy TimeSlicing; remove it"
    for name, value in (mps or {}).items():
        if value not in (None, False, {}):
            remedy = "remove it, or ask for a share of a card, whose memory and cores are limits under MPS"
            yield f"{at}.mpsConfig.{name}", f"cannot be kept: {value!r}; {remedy}"
