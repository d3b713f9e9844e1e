"""Calls of the kubelet: its references to claims, the results, and the errors that are not faults of a claim. Pure."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from driver.errors import LodeError

_UID = re.compile(r"[A-Za-z0-9-]{1,64}")


@dataclass(frozen=True, slots=True, order=True)
class ClaimRef:
    """A claim as the kubelet names it (``Claim`` of the DRA plugin API). Without a name, only the uid is known."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"ResourceClaim {self.namespace}/{self.name} (uid {self.uid})" if self.name else f"claim {self.uid}"

    @property
    def has_file_name(self) -> bool:
        """Whether the uid can be part of a file's name. Every uid that the API server creates can."""
        return _UID.fullmatch(self.uid) is not None


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One allocated device, ready for containers (``Device`` of the DRA plugin API)."""

    request: str
    """The main request, never ``main/sub``: the kubelet compares it with the request names of containers."""
    pool: str
    device: str
    cdi_ids: tuple[str, ...]
    share_id: str = ""


@dataclass(frozen=True, slots=True)
class PrepareResult:
    """A prepared claim, with its devices of this driver."""

    ref: ClaimRef
    devices: tuple[PreparedDevice, ...] = ()


FailureReason = Literal["invalid", "conflict", "transient", "operator"]


@dataclass(frozen=True, slots=True)
class PrepareError:
    """The error of a claim that could not be prepared or unprepared.

    ``reason`` says who must act: the claim's author (``invalid``), the user of the claim that holds the device
    (``conflict``), nobody because the kubelet retries (``transient``), or the node's operator (``operator``).
    """

    reason: FailureReason
    message: str


class DeviceHeldError(LodeError):
    """Another claim holds a device. The messages are for people who may read ``ref``, the claim that wants it."""

    @classmethod
    def by_allocated(cls, ref: ClaimRef, holders: Iterable[ClaimRef], reasons: Collection[str]) -> "DeviceHeldError":
        """Held by allocated claims. ``reasons`` say why they exclude the claim if they do not hold its devices."""
        because = f": {'; '.join(reasons)}" if reasons else ""
        return cls(
            f"{ref}: claims that are prepared on this node and still allocated hold its devices: "
            f"{_names(holders, ref)}{because}; delete the pods of one of them"
        )

    @classmethod
    def by_ended(cls, ref: ClaimRef, holders: Iterable[ClaimRef]) -> "DeviceHeldError":
        """Held by claims that are no longer allocated, but whose containers may run."""
        return cls(
            f"{ref}: claims that are not allocated any more but not unprepared yet hold its devices: "
            f"{_names(holders, ref)}; their containers may still run, and the kubelet retries; if it has forgotten "
            "these claims, give them up with `lode release`"
        )

    @classmethod
    def by_unknown(cls, ref: ClaimRef, holders: Iterable[ClaimRef]) -> "DeviceHeldError":
        """Possibly held by claims whose devices are not known."""
        return cls(
            f"{ref}: the records of claims that are prepared on this node are lost, so each may hold its devices: "
            f"{_names(holders, ref)}; the plugin asks the kubelet and the API what they hold, and the kubelet "
            "retries; if their containers have ended, give them up with `lode release`"
        )


class CallWithdrawnError(LodeError):
    """The kubelet has withdrawn the call. Nothing may be prepared, because nobody would unprepare it."""


@dataclass(frozen=True, slots=True)
class PrepareCall:
    """One call of the kubelet: its deadline for retries, and whether the kubelet still waits."""

    deadline: float
    wanted: Callable[[], bool]

    def check(self, ref: ClaimRef) -> None:
        """Raises CallWithdrawnError if the kubelet does not wait any more."""
        if not self.wanted():
            raise CallWithdrawnError(f"{ref}: the kubelet withdrew the call; it calls again if it needs the claim")


def _names(claims: Iterable[ClaimRef], reader: ClaimRef) -> str:
    """The names of claims in a message about a claim; claims of other namespaces are not named."""
    return ", ".join(
        str(ref) if ref.namespace in (reader.namespace, "") else f"a claim of another namespace (uid {ref.uid})"
        for ref in claims
    )
