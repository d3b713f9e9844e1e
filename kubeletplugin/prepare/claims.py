"""The kubelet's references to claims, and the results for the kubelet. Pure."""

import re
from dataclasses import dataclass
from typing import Literal

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
