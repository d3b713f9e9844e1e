"""The part of the controller's settings that decisions depend on. Pure."""

from dataclasses import dataclass, field

from controller.gangs import Tiers


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """The part of the controller's settings that decisions depend on; as much as is known, the rest is at its default.

    Attributes:
        tiers: the levels that tiers in PodGroups of Volcano stand for.
        closing_node_conditions: patterns of conditions that keep pods from a node while they are true.
        scheduler_names: whose pods get devices; none for any.
        max_unbound_seconds: after this time, a pod loses its devices that got them and was neither bound nor refused.
    """

    tiers: Tiers = field(default_factory=dict)
    closing_node_conditions: tuple[str, ...] = ()
    scheduler_names: tuple[str, ...] = ()
    max_unbound_seconds: float = 300
