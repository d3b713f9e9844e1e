"""What is decided and never written must not keep devices from others for long, whatever the API server answers."""

from collections.abc import Iterable
from typing import Final

from driver.clock import Clock
from driver.kube.api import RESOURCE_CLAIMS, Api, NotFound
from tests.simulation.programs import SimulatedController

LONGEST_SECONDS: Final = 240.0
"""Longest time for which devices are in use that no claim has. Ten tries of 5 s with pauses take 82 s, and the last one
may be made within 10 s; the rest is for sequences that wait for their turn, and for a read that is not answered."""

Promised = tuple[int, str]
"""A controller, and the key of a claim."""


class PromiseChecks:
    """Looks for devices that a controller counts as in use, and of which no object says so.

    Args:
        found: what is wrong is added there.
    """

    def __init__(self, api: Api, clock: Clock, found: list[str]):
        self._api = api
        self._clock = clock
        self._found = found
        self._since: dict[Promised, float] = {}

    def look(self, controllers: Iterable[SimulatedController]) -> None:
        """Look at the promises of controllers that may decide: others may neither write nor read.

        Those of a process that stood still until its lease ran out keep devices from nobody: another one decides, and
        they end with the term as soon as it goes on.
        """
        now = self._clock.monotonic()
        promised = {
            (id(one), key): one.controller
            for one in controllers
            if one.controller.state.claims.promised and one.leads and one.controller.decides
            for key in one.controller.state.claims.promised
            if key in one.controller.state.claims and not self._is_written(key)
        }
        self._since = {which: self._since.get(which, now) for which in promised}
        for (_, key), since in self._since.items():
            if now - since > LONGEST_SECONDS:
                self._found.append(f"ResourceClaim {key}: has had devices for {now - since:.0f} s, and does not say so")

    def _is_written(self, key: str) -> bool:
        namespace, _, name = key.partition("/")
        try:
            claim = self._api.get(RESOURCE_CLAIMS, name, namespace)
        except NotFound:
            return False
        return bool((claim.get("status") or {}).get("allocation"))
