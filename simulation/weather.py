"""How rough the world is in which a rehearsed cluster runs."""

from dataclasses import dataclass

from simulation.faults import CALM as NO_MISFORTUNE
from simulation.faults import Misfortune


@dataclass(frozen=True, slots=True)
class Weather:
    """How rough it is; probabilities, all 0 on a calm day."""

    crash: float = 0.0
    """That a program dies before a call."""
    overtaken: float = 0.0
    """That another program runs before a call."""
    unseen: float = 0.0
    """That a program's turn comes and goes without a look at one of its watches."""
    network: Misfortune = NO_MISFORTUNE
    """What befalls the programs' calls; ``crash`` above is for their deaths."""


CALM = Weather()
