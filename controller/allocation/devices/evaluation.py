"""Evaluates selectors on devices: once for all devices with equal values of the fields that the selector reads."""

from collections.abc import Hashable
from typing import Final

from controller.allocation.devices.pools import PoolDevice
from controller.allocation.metering import DEVICE_STEPS, UNLIMITED, Meter
from driver.bounded import BoundedCache
from driver.cel import CostBudget, DeviceView, Selector, SelectorFault, view

SelectorOutcome = bool | SelectorFault
"""True if a selector matches, or the error that it fails with."""
Evaluated = tuple[SelectorOutcome, int]
"""An outcome and the steps that it took (`driver.cel.cost.steps`)."""

_MOST_OUTCOMES: Final = 1 << 18
_MOST_OF_DEVICES: Final = 1 << 14
_MOST_VIEWS: Final = 1024


class Evaluation:
    """Evaluates selectors and remembers the outcomes."""

    def __init__(self) -> None:
        self._outcomes: BoundedCache[tuple[str, Hashable], Evaluated] = BoundedCache(_MOST_OUTCOMES)
        self._of_devices: BoundedCache[tuple[str, PoolDevice], Evaluated] = BoundedCache(_MOST_OF_DEVICES)
        """Outcomes of selectors that may read anything."""
        self._views: BoundedCache[PoolDevice, DeviceView] = BoundedCache(_MOST_VIEWS)
        """Devices as selectors see them. Their pools stand for many equal ones."""

    def forget(self) -> None:
        """Forget what belongs to single devices, because a pool is gone."""
        self._views.clear()
        self._of_devices.clear()

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
