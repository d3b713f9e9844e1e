"""One call of the kubelet, and why it may fail although nothing is wrong with the claim. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from driver.errors import LodeError
from kubeletplugin.prepare.claims import ClaimRef


class DeviceHeldError(LodeError):
    """Another claim holds a device."""


class CallWithdrawnError(LodeError):
    """The kubelet does not wait for the answer any more. Nothing may be prepared, because nobody would unprepare it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the kubelet: until when to retry, and whether the kubelet still waits."""

    deadline: float
    wanted: Callable[[], bool]

    def check(self, ref: ClaimRef) -> None:
        """Raises CallWithdrawnError if the kubelet does not wait any more."""
        if not self.wanted():
            raise CallWithdrawnError(f"{ref}: the kubelet withdrew the call; it calls again if it needs the claim")
