"""The node's cards and their health as last reported by the hardware."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from driver.observe import Logger
from kubeletplugin.hardware import Card, Hardware, Health

_HEALTHY = Health()


@dataclass(frozen=True, slots=True)
class CardState:
    """The cards, and the health of each card and of partitions by their names."""

    cards: tuple[Card, ...] = ()
    health: Mapping[str, Health] = field(default_factory=dict)
    releasing: frozenset[str] = frozenset()
    """Names of devices that an earlier claim has not let go of."""

    @property
    def unhealthy(self) -> frozenset[str]:
        """Names of the cards that do not work."""
        return frozenset(card.name for card in self.cards if not self.health.get(card.name, _HEALTHY).healthy)


class CardMonitor:
    """Asks the hardware, remembers the answer and logs changes of health.

    Args:
        releasing: returns the names of devices that an earlier claim has not let go of.
    """

    def __init__(self, hardware: Hardware, log: Logger, releasing: Callable[[], Collection[str]]):
        self._hardware = hardware
        self._releasing = releasing
        self._log = log
        self.state = CardState()

    def refresh(self) -> bool:
        """Ask the hardware; whether the cards or their health changed.

        Raises:
            TransientFault: the hardware does not answer; the state stays.
        """
        state = CardState(self._hardware.cards(), dict(self._hardware.health()), frozenset(self._releasing()))
        if state == self.state:
            return False
        for name, health in state.health.items():
            if health != self.state.health.get(name, _HEALTHY):
                report = self._log.info if health.healthy else self._log.warning
                report("card health changed", card=name, healthy=health.healthy, reason=health.message)
        self.state = state
        return True
