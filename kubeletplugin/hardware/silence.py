"""The health of a card that does not answer. Pure."""

from dataclasses import replace
from typing import Final

from kubeletplugin.hardware.port import Health

LASTING_SECONDS: Final = 60.0
"""A card that does not answer for so long needs somebody to look at it."""


def silent(known: Health | None, why: str, seconds: float) -> Health:
    """The health of a card that does not answer. Nothing is learned of it: a fault that it had before stays, and one of
    which nothing is known is not watched.

    Args:
        known: its health when it answered last; None if it never did.
        why: which call failed, and with which code.
        seconds: how long it has not answered.
    """
    if known is not None and known.state in ("degraded", "fatal"):
        return replace(known, message=f"{known.message}; then it did not answer: {why}", away=True)
    if seconds < LASTING_SECONDS:
        return Health("unknown", f"it did not answer: {why}", away=True)
    return Health("degraded", f"it does not answer: {why}")
