"""Leader election with one Lease, as client-go does it.

Clocks of two machines are never compared. A candidate takes over only after it has itself seen the Lease unchanged for
the whole lease time; a leader counts from its own last successful renewal and gives up earlier than that.
"""

from typing import Any

from driver.clock import Clock, rfc3339
from driver.errors import LodeError
from driver.kube.api import LEASES, AlreadyExists, Api, ApiError, Conflict, NotFound, Object
from driver.kube.decorator import ApiCall, ApiDecorator

_RENEW_SHARE = 2 / 3
"""Part of the lease time after which a leader that could not renew stops (client-go: 10 s of 15 s)."""
_NEVER = float("-inf")


class Deposed(LodeError):
    """This process is no longer the leader, so the write was not made. Stop, and become a candidate again."""


class Election:
    """One candidate for one Lease.

    Args:
        identity: unique to this run of the process, not only to the pod.
        lease_seconds: how long other candidates wait after the leader's last renewal.
    """

    def __init__(self, api: Api, clock: Clock, namespace: str, name: str, identity: str, lease_seconds: int):
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lease_seconds = lease_seconds
        self._seen: Any = None
        self._seen_at = 0.0
        self._valid_until = _NEVER

    @property
    def leading(self) -> bool:
        """Whether a write is allowed at this moment; turns False by itself when renewals fail for too long."""
        return self._clock.monotonic() < self._valid_until

    @property
    def interval(self) -> float:
        """Seconds between two calls of ``step``."""
        return self._lease_seconds / 5

    def step(self) -> bool:
        """Renew or try to take the Lease; returns whether this candidate leads. An API error changes nothing."""
        asked = self._clock.monotonic()
        try:
            if self._try_hold():
                self._valid_until = asked + self._lease_seconds * _RENEW_SHARE
            else:
                self._valid_until = _NEVER
        except (Conflict, AlreadyExists):
            # Another candidate wrote it; it is read again in the next step.
            pass
        except ApiError:
            pass
        return self.leading

    def release(self) -> None:
        """Give the Lease up, if held, so that another candidate need not wait until it expires."""
        held = self.leading
        self._valid_until = _NEVER
        if not held:
            return
        try:
            lease = self._api.get(LEASES, self._name, self._namespace)
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._now()}
                self._api.update(LEASES, lease)
        except ApiError:
            # It expires without that.
            return

    def _try_hold(self) -> bool:
        try:
            lease = self._api.get(LEASES, self._name, self._namespace)
        except NotFound:
            self._observe(self._api.create(LEASES, self._first(), self._namespace))
            return True
        self._observe(lease)
        spec = lease.setdefault("spec", {})
        holder = spec.get("holderIdentity") or ""
        if holder != self._identity:
            if holder and self._clock.monotonic() < self._seen_at + float(spec.get("leaseDurationSeconds") or 0):
                return False
            spec |= {"acquireTime": self._now(), "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        spec |= {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._lease_seconds,
            "renewTime": self._now(),
        }
        self._observe(self._api.update(LEASES, lease))
        return True

    def _observe(self, lease: Object) -> None:
        spec = lease.get("spec") or {}
        seen = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock.monotonic()

    def _first(self) -> Object:
        now = self._now()
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": self._lease_seconds,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }

    def _now(self) -> str:
        return rfc3339(self._clock.now(), micro=True)


class Fence(ApiDecorator):
    """The API for a leader: reads always pass; writes raise ``Deposed`` while the Lease is not held."""

    def __init__(self, api: Api, election: Election):
        super().__init__(api)
        self._election = election

    def before(self, call: ApiCall) -> None:
        """Refuse writes of a program that does not lead."""
        if call.is_write and not self._election.leading:
            raise Deposed(f"{call.resource.kind} {call.name}: not written: this program is no longer the leader")
