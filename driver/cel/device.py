"""The CEL variable ``device``, made from a device of a ResourceSlice."""

from collections.abc import Mapping
from typing import Any

from driver import model
from driver.cel.values.quantities import CelQuantity
from driver.cel.values.runtime import DeviceView, Domains, Identifiers, PartlyReadable
from driver.model import UnreadableValue, qualify
from driver.semver import Semver


def view(device: model.Device, driver: str) -> DeviceView:
    """The variable ``device`` for a device of ``driver``. An attribute that cannot be read fails what reads it."""
    return DeviceView(
        driver=driver,
        attributes=_by_domain({name: _attribute(value) for name, value in device.attributes.items()}),
        capacity=_by_domain({qualify(name, driver): CelQuantity.of(c.value) for name, c in device.capacity.items()}),
        allowMultipleAllocations=device.allow_multiple,
    )


def _by_domain(values: Mapping[str, Any]) -> Domains:
    domains = Domains()
    for name, value in values.items():
        domain, _, identifier = name.partition("/")
        domains.setdefault(domain, Identifiers())[identifier] = value
    for domain, of_domain in domains.items():
        if any(isinstance(value, UnreadableValue) for value in of_domain.values()):
            domains[domain] = PartlyReadable(domain, of_domain)
    return domains


def _attribute(value: model.AttributeValue) -> Any:
    if isinstance(value, UnreadableValue):
        return value
    try:
        return [_scalar(item) for item in value] if isinstance(value, tuple) else _scalar(value)
    except ValueError as error:
        return UnreadableValue(str(error))


def _scalar(value: model.Scalar) -> Any:
    return Semver.parse(value.text) if isinstance(value, model.Version) else value
