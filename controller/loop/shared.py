"""The objects that all parts of one controller use."""

from dataclasses import dataclass

from controller.loop.metrics import ControllerMetrics
from controller.loop.nodewishes import NodeWishes
from controller.loop.preempting import Preempting
from controller.loop.turns import Turns
from controller.loop.writes_in_flight import WritesInFlight
from controller.reconcile import RefusalMemory
from controller.reporting import Reporter
from controller.state import State
from controller.waiting import HoldLimits
from driver.clock import Clock
from driver.observe import Logger
from driver.settings import HoldSettings


@dataclass(frozen=True, slots=True)
class Shared:
    """The objects that all parts of one controller use; they are made anew for each term.

    Attributes:
        memory: the nodes that refused pods.
        max_wait: the longest back-off in seconds.
        wishes: the pods that ask autoscalers for a node.
        limits: how long, how often and how many nodes may be held back.
        preempting: makes room for pods by evicting others.
    """

    state: State
    queue: Turns
    in_flight: WritesInFlight
    reporter: Reporter
    memory: RefusalMemory
    clock: Clock
    metrics: ControllerMetrics
    log: Logger
    max_wait: float
    limits: HoldLimits
    wishes: NodeWishes
    preempting: Preempting


def limits_of(hold: HoldSettings) -> HoldLimits:
    """Return the limits of holds that the settings say."""
    return HoldLimits(
        enabled=hold.enabled,
        after=hold.after_seconds,
        longest=hold.for_seconds,
        pause=hold.pause_seconds,
        share=hold.share,
    )
