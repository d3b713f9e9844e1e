"""The node's cards and their health as last reported by the hardware."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from driver.observe import Logger
from kubeletplugin.hardware import Card, Hardware, Health

_HEALTHY = Health()


@dataclass(frozen=True, slots=True)
class CardState:
    """The cards, and the health of each by ``Card.name``."""

    cards: tuple[Card, ...] = ()
    health: Mapping[str, Health] = field(default_factory=dict)

    @property
    def unhealthy(self) -> frozenset[str]:
        """Names of the cards that do not work."""
        return frozenset(name for name, state in self.health.items() if not state.healthy)


class CardMonitor:
    """Asks the hardware, remembers the answer and logs changes of health."""

    def __init__(self, hardware: Hardware, log: Logger):
        self._hardware = hardware
        self._log = log
        self.state = CardState()

    def refresh(self) -> bool:
        """Ask the hardware; whether the cards or their health changed.

        Raises:
            TransientFault: the hardware does not answer; the state stays.
        """
        state = CardState(self._hardware.cards(), dict(self._hardware.health()))
        if state == self.state:
            return False
        for name, health in state.health.items():
            if health != self.state.health.get(name, _HEALTHY):
                report = self._log.info if health.healthy else self._log.warning
                report("card health changed", card=name, healthy=health.healthy, reason=health.message)
        self.state = state
        return True
