"""Whether what is known of the cluster is still kept up to date: nothing may be decided from what is not."""

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

_NEEDED: Final = frozenset(
    {RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA}
)
"""Kinds without which nothing may be decided: what is in use, what there is, and what requests mean. A decision from
pods and nodes that are out of date is at worst refused, by kube-scheduler or by the precondition of a write."""
LASTING_SECONDS: Final = 30.0
"""How long a kind may be out of contact before the program is not ready. A missing right is a matter for an operator at
once."""


class Contact:
    """Follows the reflectors' errors."""

    def __init__(self, metrics: ControllerMetrics):
        self._metrics = metrics
        self._since: dict[Resource, float] = {}
        self.stale = ""
        """Why nothing may be decided; "" if everything that decisions rest on is up to date."""
        self.lasting = ""
        """Why an operator has to look; "" if nothing, or if it may pass by itself."""

    def check(self, reflectors: Iterable[Reflector], now: float) -> None:
        """Take in which reflectors are in contact at ``now`` (monotonic seconds)."""
        stale, lasting = [], []
        for reflector in reflectors:
            resource, error = reflector.resource, reflector.error
            if error is None:
                if self._since.pop(resource, None) is not None:
                    self._metrics.out_of_contact(resource.plural, 0)
                continue
            elapsed = now - self._since.setdefault(resource, now)
            self._metrics.out_of_contact(resource.plural, elapsed)
            problem = f"cannot list or watch {resource.plural}: {error}"
            if resource in _NEEDED:
                stale.append(problem)
            if isinstance(error, Forbidden) or elapsed >= LASTING_SECONDS:
                lasting.append(problem)
        self.stale, self.lasting = "; ".join(stale), "; ".join(lasting)
