"""What Kubernetes 1.38 refuses or reads otherwise in ResourceSlices. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cli.doctor.upgrade.concerns import Concern
from driver.kube.api import Object
from driver.model import qualify
from driver.quantity import NANO, Quantity
from driver.semver import MAX_DIGITS, numbers_fit

MOST_NAMES: Final = 10_000
"""Drivers, and names of attributes, that are remembered."""
REFUSED: Final = "1.38 refuses every change of the devices of this slice, with this one or without"


@dataclass(slots=True)
class Published:
    """What slices say that matters for claims."""

    drivers: set[str] = field(default_factory=set)
    built: set[str] = field(default_factory=set)
    """Qualified names of attributes, with versions that have build metadata."""

    def add(self, part: Object) -> None:
        """Take what a slice says."""
        spec = part["spec"]
        if len(self.drivers) < MOST_NAMES:
            self.drivers.add(str(spec["driver"]))
        for device in spec.get("devices") or ():
            for name, value in (device.get("attributes") or {}).items():
                if "+" in str(value.get("version") or "") and len(self.built) < MOST_NAMES:
                    self.built.add(qualify(name, str(spec["driver"])))


def of_slice(part: Object) -> Iterator[Concern]:
    """All concerns about a slice."""
    spec = part["spec"]
    driver = str(spec["driver"])
    remedy = (
        f"install a version of the driver {driver} that publishes it otherwise, or ask its vendor for one; if the "
        f"driver is gone, kubectl delete resourceslice {part['metadata']['name']}"
    )
    for i, device in enumerate(spec.get("devices") or ()):
        path = f"spec.devices[{i}]"
        yield from _names(path, device, driver, remedy)
        yield from _versions(path, device, remedy)
        yield from _nodes(path, device, remedy)
        yield from _steps(path, device)


def names_twice(names: Mapping[str, Any], domains: set[str]) -> Iterator[tuple[str, str]]:
    """Each name that is spelled without a domain and with one of these, in both spellings."""
    for name in names:
        domain, slash, short = name.rpartition("/")
        if slash and short in names and domain in domains:
            yield short, name


def _names(path: str, device: Object, driver: str, remedy: str) -> Iterator[Concern]:
    for part in ("attributes", "capacity"):
        names = device.get(part) or {}
        for name in names:
            if name.count("/") > 1:
                yield Concern("failed", f"{path}.{part}", name, f"a name with two slashes: {REFUSED}", remedy)
        for short, long in names_twice(names, {driver}):
            reason = "two spellings of one name: 1.38 reads the one with the domain alone"
            yield Concern("warning", f"{path}.{part}", f"{short} and {long}", reason, remedy)


def _versions(path: str, device: Object, remedy: str) -> Iterator[Concern]:
    for name, value in (device.get("attributes") or {}).items():
        for version in (value.get("version"), *(value.get("versions") or ())):
            if version is not None and not numbers_fit(version):
                reason = f"a version with a number of more than {MAX_DIGITS} digits: {REFUSED}"
                yield Concern("failed", f"{path}.attributes[{name}].version", version, reason, remedy)


def _nodes(path: str, device: Object, remedy: str) -> Iterator[Concern]:
    terms = (device.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    if len(terms) > 1:
        reason = f"a device takes one term: {REFUSED}"
        yield Concern("failed", f"{path}.nodeSelector.nodeSelectorTerms", f"{len(terms)} terms", reason, remedy)


def _steps(path: str, device: Object) -> Iterator[Concern]:
    for name, capacity in (device.get("capacity") or {}).items():
        allowed = (capacity.get("requestPolicy") or {}).get("validRange") or {}
        bounds = {part: Quantity.parse(str(allowed[part])) for part in ("min", "step") if part in allowed}
        if "step" not in bounds or all(amount.nanos % NANO == 0 for amount in bounds.values()):
            continue
        value = ", ".join(f"{part}: {amount}" for part, amount in bounds.items())
        reason = (
            "kube-scheduler 1.37 rounds these up to whole units, and 1.38 reads them as they are: claims get other "
            "amounts"
        )
        remedy = (
            "set the feature gate DRAFractionalCapacityRange=true of kube-scheduler and kube-apiserver 1.37 to see "
            "before the upgrade what claims get; the driver can publish whole units instead"
        )
        yield Concern("warning", f"{path}.capacity[{name}].requestPolicy.validRange", value, reason, remedy)
