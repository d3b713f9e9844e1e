"""The CEL variable ``device``, made from a device of a ResourceSlice."""

from collections.abc import Mapping
from typing import Any

from driver import model
from driver.cel.releases import BOTH, DeviceMaps, KubernetesRelease
from driver.cel.values.quantities import CelQuantity
from driver.cel.values.runtime import DeviceView, Domains, Identifiers, PartlyReadable
from driver.model import UnreadableValue, qualify
from driver.semver import Semver


def view(device: model.Device, driver: str, release: KubernetesRelease = BOTH) -> DeviceView:
    """The variable ``device`` for a device of ``driver``, by the rules of a version of Kubernetes.

    An attribute that cannot be read fails what reads it.
    """
    attributes = {name: _attribute(value) for name, value in device.attributes.items()}
    capacity = {qualify(name, driver): CelQuantity.from_quantity(one.value) for name, one in device.capacity.items()}
    return DeviceView(
        driver=driver,
        attributes=_by_domain(attributes, release.maps),
        capacity=_by_domain(capacity, release.maps),
        allowMultipleAllocations=device.allow_multiple,
    )


def _by_domain(values: Mapping[str, Any], rules: DeviceMaps) -> Domains:
    domains = Domains()
    domains.rules = rules
    for name, value in values.items():
        domain, _, identifier = name.partition("/")
        known = domains.get(domain)
        if known is None:
            known = domains[domain] = Identifiers()
            known.rules = rules
        known[identifier] = value
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
