"""The CEL variable ``device``, made from a device of a ResourceSlice."""

from collections.abc import Mapping
from typing import Any

from driver import model
from driver.cel.errors import SelectorFault
from driver.cel.values.quantities import CelQuantity
from driver.cel.values.runtime import DeviceView, Domains, Identifiers
from driver.model import qualify
from driver.semver import Semver


class InvalidAttribute(SelectorFault):
    """An attribute of the device has no usable value. Kubernetes fails every selector on such a device."""


def view(device: model.Device, driver: str) -> DeviceView:
    """The variable ``device`` for a device of ``driver``.

    Raises:
        InvalidAttribute: an attribute has no value, or a version that is not a semantic version.
    """
    return DeviceView(
        driver=driver,
        attributes=_by_domain({name: _attribute(name, value) for name, value in device.attributes.items()}),
        capacity=_by_domain({qualify(name, driver): CelQuantity.of(c.value) for name, c in device.capacity.items()}),
        allowMultipleAllocations=device.allow_multiple,
    )


def _by_domain(values: Mapping[str, Any]) -> Domains:
    domains = Domains()
    for name, value in values.items():
        domain, _, identifier = name.rpartition("/")
        domains.setdefault(domain, Identifiers())[identifier] = value
    return domains


def _attribute(name: str, value: model.AttributeValue) -> Any:
    if isinstance(value, model.NoValue):
        raise InvalidAttribute(f"attribute {name}: unsupported attribute value")
    if isinstance(value, tuple):
        return [_scalar(name, item) for item in value]
    return _scalar(name, value)


def _scalar(name: str, value: model.Scalar) -> Any:
    if not isinstance(value, model.Version):
        return value
    try:
        return Semver.parse(value.text)
    except ValueError as error:
        raise InvalidAttribute(f"attribute {name}: parse semantic version: {error}") from None
