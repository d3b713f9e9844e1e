"""Writes into ``status.devices`` which cards claims have, where kube-scheduler allocated them.

The controller writes it with the allocation, so there is nothing to do for its claims, and the API is not called.
Nobody waits for these writes: a claim that is read to be prepared is noted, and written afterwards. Steppable: its
owner calls ``step`` at ``next_due``.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from driver.backoff import delay
from driver.errors import SENSELESS, LodeError
from driver.kube.api import RESOURCE_CLAIMS, Conflict, Forbidden, NotFound, Object
from kubeletplugin.node_context import NodeContext
from kubeletplugin.prepare.claims import ClaimRef

FIRST_RETRY_SECONDS: Final = 1.0
LONGEST_RETRY_SECONDS: Final = 300.0
FORBIDDEN_SECONDS: Final = 3600.0
"""How long nothing is tried after the API server has refused the right. Only an operator can change that."""
MOST_NOTED: Final = 1024
"""The most claims that wait to be written; beyond it, the oldest are left out until they are prepared again."""
_KEY: Final = ("driver", "pool", "device", "shareID")

DeviceKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Noted:
    """A claim whose entries are to be written."""

    ref: ClaimRef
    entries: tuple[Object, ...]
    due: float
    failures: int = 0


class DeviceStatusWriter:
    """Keeps the entries of claims up to date that are prepared on this node. Thread-safe.

    What others wrote for the devices of our driver is replaced; conditions that they report are kept.

    Args:
        wake: called, from any thread, when ``next_due`` may have moved forward.
    """

    def __init__(self, node: NodeContext, wake: Callable[[], None] = lambda: None):
        self._api = node.api
        self._clock = node.clock
        self._log = node.log
        self._wake = wake
        self._lock = threading.Lock()
        self._noted: dict[str, _Noted] = {}
        """By uid, the oldest first."""
        self._quiet_until = -1.0

    def remember(self, ref: ClaimRef, claim: Object, entries: tuple[Object, ...]) -> None:
        """Remember a claim as it was read, and the entries that it should have. Calls nobody, and raises nothing."""
        try:
            if merged(claim, entries) is None:
                return
        except SENSELESS as error:
            self._log.warning("status of devices cannot be read", claim=str(ref), reason=repr(error))
            return
        with self._lock:
            self._noted.pop(ref.uid, None)
            self._noted[ref.uid] = _Noted(ref, entries, self._clock.monotonic())
            # The oldest are given up: no decision reads what is written here, so a gap costs monitoring a fact and no
            # pod its devices, whereas a list without a bound would cost the plugin its memory while the API is away.
            while len(self._noted) > MOST_NOTED:
                del self._noted[next(iter(self._noted))]
        self._wake()

    def next_due(self) -> float | None:
        """Time of the next write, in seconds of ``Clock.monotonic``; None if there is none."""
        if not self._noted:
            return None
        with self._lock:
            due = min((noted.due for noted in self._noted.values()), default=None)
        return None if due is None else max(due, self._quiet_until)

    def step(self) -> bool:
        """Write the next claim that is due; False if none is. Faults are retried later."""
        now = self._clock.monotonic()
        with self._lock:
            noted = min(self._noted.values(), key=lambda noted: noted.due, default=None)
        if noted is None or max(noted.due, self._quiet_until) > now:
            return False
        try:
            self._write(noted)
        except NotFound:
            self._settle(noted)
        except SENSELESS as error:
            self._log.warning("status of devices cannot be read", claim=str(noted.ref), reason=repr(error))
            self._settle(noted)
        except Forbidden as error:
            # The right is missing for all claims alike. Asking for each would be a flood of refused calls.
            self._quiet_until = now + FORBIDDEN_SECONDS
            self._log.warning("claims do not say which cards they have", claim=str(noted.ref), reason=str(error))
        except LodeError as error:
            failures = noted.failures + 1
            pause = delay(failures, base=FIRST_RETRY_SECONDS, bound=LONGEST_RETRY_SECONDS)
            if failures == 1 and not isinstance(error, Conflict):
                self._log.warning("status of devices not written yet", claim=str(noted.ref), reason=str(error))
            self._settle(noted, _Noted(noted.ref, noted.entries, now + pause, failures))
        else:
            self._settle(noted)
        return True

    def _write(self, noted: _Noted) -> None:
        ref = noted.ref
        claim = self._api.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
        metadata = claim["metadata"]
        devices = merged(claim, noted.entries) if metadata["uid"] == ref.uid else None
        if devices is None:
            return
        # A list in a patch replaces the other one as a whole, so what somebody else has written since it was read must
        # make this fail. It is read and merged anew then.
        version = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        patch = {"metadata": version, "status": {"devices": devices}}
        self._api.patch(RESOURCE_CLAIMS, ref.name, patch, namespace=ref.namespace, subresource="status")

    def _settle(self, noted: _Noted, after: _Noted | None = None) -> None:
        """Forget the claim, or replace it; not if it was noted anew meanwhile."""
        with self._lock:
            # By identity: a prepare that came meanwhile noted what it read later, which is still to be written.
            if self._noted.get(noted.ref.uid) is noted:
                if after is None:
                    del self._noted[noted.ref.uid]
                else:
                    self._noted[noted.ref.uid] = after


def merged(claim: Object, entries: Iterable[Object]) -> Sequence[Object] | None:
    """Return ``status.devices`` of the claim with these entries; None if it need not change.

    Entries of devices that the claim does not have any more are left out.
    """
    status = claim.get("status") or {}
    allocated = {
        _key(result) for result in ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    }
    before = {_key(entry): entry for entry in status.get("devices") or ()}
    wanted = {_key(entry): entry for entry in entries if _key(entry) in allocated}
    if all(key in before and before[key].get("data") == entry["data"] for key, entry in wanted.items()):
        return None
    after = {**before, **{key: {**before.get(key, {}), **entry} for key, entry in wanted.items()}}
    return list(after.values())


def _key(entry: Object) -> DeviceKey:
    return tuple(entry.get(name) or "" for name in _KEY)
