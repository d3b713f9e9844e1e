"""Follows which kinds of objects are still kept up to date: nothing may be decided from those that are not."""

from collections.abc import Iterable
from typing import Final

from controller.loop.metrics import ControllerMetrics
from controller.state import DEVICE_TAINT_RULES_BETA
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Forbidden,
    Resource,
)
from driver.kube.reflector import Reflector

_RULES: Final = frozenset({DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA})
"""Kinds that a cluster need not serve. But while they may not be read, devices could be handed out against them."""
_NEEDED: Final = frozenset({RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, *_RULES})
"""Kinds without which nothing may be decided: devices in use, published devices, and meanings of requests.

A decision from pods and nodes that are out of date is at worst refused, by kube-scheduler or by the precondition of a
write.
"""
LASTING_SECONDS: Final = 30.0
"""Time that a kind may be out of contact before the program is not ready.

A missing right is a matter for an operator at once.
"""


class Contact:
    """Follows the reflectors' errors."""

    def __init__(self, metrics: ControllerMetrics):
        self._metrics = metrics
        self._since: dict[Resource, float] = {}
        self._told: list[str] = []
        """Plurals of the kinds that were out of contact at the last check."""
        self.stale = ""
        """Reason why nothing may be decided; "" if everything that decisions rest on is up to date."""
        self.lasting = ""
        """Reason why an operator has to look; "" if there is none, or if it may pass by itself."""

    def check(self, reflectors: Iterable[Reflector], now: float) -> None:
        """Take in which reflectors are in contact at ``now`` (monotonic seconds)."""
        stale, lasting = [], []
        out_of_contact = dict.fromkeys(self._told, 0.0)
        for reflector in reflectors:
            resource, error = reflector.resource, reflector.error or reflector.forbidden
            if error is None:
                self._since.pop(resource, None)
                continue
            elapsed = now - self._since.setdefault(resource, now)
            # Several kinds have one plural, such as PodGroups.
            out_of_contact[resource.plural] = max(elapsed, out_of_contact.get(resource.plural, 0))
            if reflector.error is None and resource not in _RULES:
                continue
            problem = f"cannot list or watch {resource.plural}: {error}"
            if resource in _NEEDED:
                stale.append(problem)
            if isinstance(error, Forbidden) or elapsed >= LASTING_SECONDS:
                lasting.append(problem)
        for plural, seconds in out_of_contact.items():
            self._metrics.out_of_contact(plural, seconds)
        self._told = [plural for plural, seconds in out_of_contact.items() if seconds]
        self.stale, self.lasting = "; ".join(stale), "; ".join(lasting)
