"""Reads the part of the controller's settings that decisions depend on."""

from controller.gangs import tiers_from
from controller.state import DecisionSettings
from driver.settings import ControllerSettings


def decision_settings(settings: ControllerSettings) -> DecisionSettings:
    """Return what all of the controller's settings say."""
    return DecisionSettings(
        tiers=tiers_from(settings.volcano_tiers),
        closing_node_conditions=tuple(settings.closing_node_conditions),
        scheduler_names=settings.scheduler_names,
        max_unbound_seconds=settings.max_unbound_seconds,
        also_allocates=settings.also_allocates,
    )
