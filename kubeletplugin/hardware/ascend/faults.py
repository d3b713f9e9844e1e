"""Health of a chip by its faults and the operator's choice of severities. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from driver.kinds import Severity
from kubeletplugin.hardware.ascend.facts import ActiveFault
from kubeletplugin.hardware.port import Health, Recovery

LEVELS: Final = ("notice", "minor", "major", "critical")
"""The severities of DCMI, by number."""
DEFAULT_LEVELS: Final[Mapping[str, Severity]] = {
    "notice": "healthy",
    "minor": "healthy",
    "major": "degraded",
    "critical": "fatal",
}
LOST: Final = Health("fatal", "the chip does not answer: it is reset, or has fallen off the bus", recovery="reset")
UNKNOWN: Final = Health("unknown", "the driver does not report the chip's health")
_ORDER: Final = ("healthy", "unknown", "degraded", "fatal")
_RECOVERY: Final[Mapping[Severity, Recovery]] = {"healthy": "none", "degraded": "none", "fatal": "reset"}


@dataclass(frozen=True, slots=True)
class Severities:
    """The operator's choice of the severities of faults."""

    levels: Mapping[str, Severity] = field(default_factory=dict)
    """The meaning of each of ``LEVELS``; ``DEFAULT_LEVELS`` for those left out."""
    codes: Mapping[str, Severity] = field(default_factory=dict)
    """The meaning of single faults, by number as Huawei writes it (``80E01801``). These take precedence."""


def health_of(faults: Collection[ActiveFault], chosen: Severities) -> Health:
    """The health of a chip with these faults: that of the worst."""

    def meaning(fault: ActiveFault) -> Severity:
        own = chosen.codes.get(code_text(fault.code))
        if own is not None:
            return own
        if fault.severity is None or fault.severity >= len(LEVELS):
            return "degraded"
        level = LEVELS[fault.severity]
        return chosen.levels.get(level, DEFAULT_LEVELS[level])

    ranked = sorted(faults, key=lambda fault: (-_ORDER.index(meaning(fault)), fault.code))
    if not ranked or meaning(ranked[0]) == "healthy":
        return Health()
    first = ranked[0]
    others = [code_text(fault.code) for fault in ranked[1:] if meaning(fault) != "healthy"]
    message = f"fault {code_text(first.code)}" + (f": {first.name}" if first.name else "")
    message += f"; also {', '.join(others)}" if others else ""
    return Health(meaning(first), message, code_text(first.code), _RECOVERY[meaning(first)])


def with_unread(health: Health, unread: Sequence[str]) -> Health:
    """The health, with what else the chip did not answer."""
    told = [health.message, *(why for why in unread if why not in health.message)]
    return replace(health, message="; ".join(part for part in told if part)) if unread else health


def with_level(codes: Collection[int], level: int) -> tuple[ActiveFault, ...]:
    """The faults for a driver that reports only their numbers and the level of the worst
    (``dcmi_get_device_health``)."""
    severity = level if 0 < level < len(LEVELS) else None
    if codes:
        return tuple(ActiveFault(code, severity) for code in codes) if level else ()
    return (ActiveFault(0, severity, f"alarm level {LEVELS[level]}"),) if severity is not None else ()


def worst(healths: Collection[Health]) -> Health:
    """The health of a card with several chips."""
    return max(healths, key=lambda health: _ORDER.index(health.state))


def code_text(code: int) -> str:
    """A fault's number as Huawei writes it."""
    return f"{code:08X}"
