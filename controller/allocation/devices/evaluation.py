"""Evaluates selectors on devices: once for all devices with equal values of the fields that the selector reads."""

from collections.abc import Hashable, Mapping
from itertools import chain
from typing import Final

from controller.allocation.devices.pools import Pool, PoolDevice
from controller.allocation.metering import DEVICE_STEPS, UNLIMITED, Meter
from driver.bounded import BoundedCache
from driver.cel import CostBudget, DeviceView, InvalidAttribute, Selector, SelectorFault, view
from driver.model import AttributeValue, SharedAttributes, Version

SelectorOutcome = bool | SelectorFault
"""True if a selector matches, or the error that it fails with."""
Evaluated = tuple[SelectorOutcome, int]
"""An outcome and the steps that it took (`driver.cel.cost.steps`)."""

_ALWAYS_VALID: Final = frozenset({str, int, bool})
"""Types of attribute values that cannot be invalid."""
_MOST_OUTCOMES: Final = 1 << 18
_MOST_OF_DEVICES: Final = 1 << 14
_MOST_VERSIONS: Final = 2048
_MOST_VIEWS: Final = 1024
_MOST_VALID: Final = 4096


class Evaluation:
    """Evaluates selectors and remembers the outcomes."""

    def __init__(self) -> None:
        self._outcomes: BoundedCache[tuple[str, Hashable], Evaluated] = BoundedCache(_MOST_OUTCOMES)
        self._of_devices: BoundedCache[tuple[str, PoolDevice], Evaluated] = BoundedCache(_MOST_OF_DEVICES)
        """Outcomes of selectors that may read anything."""
        self._views: BoundedCache[PoolDevice, DeviceView] = BoundedCache(_MOST_VIEWS)
        """Devices as selectors see them. Their pools stand for many equal ones."""
        self._versions: BoundedCache[str, None] = BoundedCache(_MOST_VERSIONS)
        """Attribute values known to be valid semantic versions."""
        self._valid: BoundedCache[int, Mapping[str, AttributeValue]] = BoundedCache(_MOST_VALID)
        """Attributes known to be valid, which many devices share, by their ``id``."""
        self._invalid: dict[Pool, Mapping[int, SelectorFault]] = {}

    def forget(self, pool: Pool) -> None:
        """Remove a pool."""
        self._invalid.pop(pool, None)
        self._views.clear()
        self._of_devices.clear()

    def invalid(self, pool: Pool) -> Mapping[int, SelectorFault]:
        """The devices on which every selector fails, because an attribute value is invalid, with the error."""
        known = self._invalid.get(pool)
        if known is None:
            known = self._invalid[pool] = {
                device.index: fault for device in pool.devices if (fault := self._fault(device)) is not None
            }
        return known

    def outcome(
        self, selector: Selector, device: PoolDevice, projection: Hashable, meter: Meter = UNLIMITED
    ) -> Evaluated:
        """The outcome on the device, and its steps.

        Args:
            projection: the values that the selector reads; None if it may read any.
            meter: its turn pays if the outcome is not remembered.

        Raises:
            TurnEnded: it cannot pay.
        """
        if projection is None:
            found = self._of_devices.get((selector.expression, device))
        else:
            found = self._outcomes.get((selector.expression, projection))
        if found is None:
            meter.turn.go_on()
            found = self._evaluate(selector, device)
            meter.turn.work(found[1])
            if projection is None:
                self._of_devices[selector.expression, device] = found
            else:
                self._outcomes[selector.expression, projection] = found
        return found

    def _evaluate(self, selector: Selector, device: PoolDevice) -> Evaluated:
        budget = CostBudget.of_steps(DEVICE_STEPS)
        try:
            outcome: SelectorOutcome = selector.evaluate(self._view(device), budget)
        except SelectorFault as fault:
            outcome = fault
        return outcome, selector.plain_steps + budget.effort

    def _view(self, device: PoolDevice) -> DeviceView:
        known = self._views.get(device)
        if known is None:
            known = self._views[device] = view(device.spec, device.id.driver)
        return known

    def _fault(self, device: PoolDevice) -> SelectorFault | None:
        attributes = device.spec.attributes
        shared = (attributes.common, attributes.own) if isinstance(attributes, SharedAttributes) else (attributes,)
        parts = [part for part in shared if self._valid.get(id(part)) is not part]
        for value in chain.from_iterable(part.values() for part in parts):
            if type(value) in _ALWAYS_VALID or (isinstance(value, Version) and value.text in self._versions):
                continue
            try:
                view(device.spec, device.id.driver)
            except InvalidAttribute as fault:
                return fault
            if isinstance(value, Version):
                self._versions[value.text] = None
        for part in parts:
            self._valid[id(part)] = part
        return None
