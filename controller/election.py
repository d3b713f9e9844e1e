"""Leader election with one Lease, as client-go does it.

Clocks of two machines are never compared. A candidate takes over only after it has itself seen the Lease unchanged for
the whole lease time; a leader counts from the moment when it asked for its last successful renewal, and gives up
earlier than that.

A leader's last write may still be on its way when its lease has run out. Therefore a Lease is released only by a leader
whose writes have all ended, and whoever takes over one that was not released waits until no earlier write can take
effect any more. Only then its term begins. With a lease time of 15 s and writes that end within 10 s, a leader that
renewed at 0 and was killed sends nothing after 10, and nothing of it takes effect after 20. A candidate that sees this
renewal at 1 takes the Lease at 16, and its term begins at 21.
"""

from dataclasses import dataclass
from typing import Any

from driver.clock import Clock, rfc3339
from driver.errors import LodeError
from driver.kube.api import LEASES, AlreadyExists, Api, ApiError, Conflict, NotFound, Object

_RENEW_SHARE = 2 / 3
"""Part of the lease time after which a leader that could not renew stops (client-go: 10 s of 15 s)."""
_RENEWALS = 5
"""How often a leader renews within the lease time."""
_LOOKS = 15
"""How often a candidate looks within it: what it sees a second later, it waits for a second longer."""
_NEVER = float("-inf")


class Deposed(LodeError):
    """The write was decided in a term that is over, so it was not made."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The Lease of an election, and its time.

    Attributes:
        seconds: how long other candidates wait after the leader's last renewal.
        longest_write_seconds: after this time a write cannot take effect any more.
    """

    namespace: str
    name: str
    seconds: int
    longest_write_seconds: float


class Election:
    """One candidate for one Lease.

    Args:
        identity: unique to this run of the process, not only to the pod.
    """

    def __init__(self, api: Api, clock: Clock, terms: LeaseTerms, identity: str):
        self._api = api
        self._clock = clock
        self._namespace = terms.namespace
        self._name = terms.name
        self._identity = identity
        self._lease_seconds = terms.seconds
        self._longest_write = terms.longest_write_seconds
        self._term = 0
        self._write_from = _NEVER
        self.problem = ""
        """Why the Lease could not be read or written when last tried; "" if it could. Safe to read in any thread."""
        self._used_at = clock.monotonic()
        self._seen: Any = None
        self._seen_at = 0.0
        self._valid_until = _NEVER

    @property
    def leading(self) -> bool:
        """Whether this candidate holds the Lease; turns False by itself when renewals fail for too long."""
        return self._clock.monotonic() < self._valid_until

    @property
    def term(self) -> int | None:
        """The number of the present term; None while this candidate may not write.

        A lease that has run out ends the term, also if it is renewed later.
        """
        now = self._clock.monotonic()
        return self._term if self._write_from <= now < self._valid_until else None

    @property
    def silent_seconds(self) -> float:
        """Time since the Lease could last be used: read, and by its holder renewed. Safe to read in any thread."""
        return self._clock.monotonic() - self._used_at

    @property
    def interval(self) -> float:
        """Seconds between two calls of ``step``."""
        return self._lease_seconds / (_RENEWALS if self.leading else _LOOKS)

    def step(self) -> bool:
        """Renew or try to take the Lease; returns whether this candidate leads. An API error changes nothing."""
        asked = self._clock.monotonic()
        try:
            write_from = self._try_hold()
        except (Conflict, AlreadyExists):
            # Another candidate wrote it; it is read again in the next step.
            self.problem, self._used_at = "", asked
            return self.leading
        except ApiError as error:
            self.problem = f"Lease {self._namespace}/{self._name} cannot be read or written: {error}"
            return self.leading
        self.problem, self._used_at = "", asked
        if write_from is None:
            self._valid_until = _NEVER
            return False
        if self._clock.monotonic() >= self._valid_until:
            self._term += 1
            self._write_from = write_from
        self._valid_until = asked + self._lease_seconds * _RENEW_SHARE
        return self.leading

    def release(self) -> None:
        """Give the Lease up, if held, so that another candidate need not wait until it expires.

        Only for a leader whose writes have all ended. Before its term begins, it does not know that of the last leader.
        """
        writing = self.term is not None
        self._valid_until = _NEVER
        if not writing:
            return
        try:
            lease = self._api.get(LEASES, self._name, self._namespace)
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._now()}
                self._api.update(LEASES, lease)
        except ApiError:
            # It expires without that.
            return

    def _try_hold(self) -> float | None:
        """Renew or take the Lease; returns from when no write of its last holder can take effect, None if not held."""
        try:
            lease = self._api.get(LEASES, self._name, self._namespace)
        except NotFound:
            known = self._seen is not None
            self._observe(self._api.create(LEASES, self._first(), self._namespace))
            # If somebody deleted it, its holder goes on until it notices.
            return self._clock.monotonic() + self._lease_seconds + self._longest_write if known else _NEVER
        self._observe(lease)
        spec = lease.setdefault("spec", {})
        holder, lasts = spec.get("holderIdentity") or "", float(spec.get("leaseDurationSeconds") or 0)
        # A holder stops this long after it asked for the renewal, which was before it could be seen here.
        stopped = self._seen_at + (lasts or self._lease_seconds) * _RENEW_SHARE
        if holder != self._identity:
            if holder and self._clock.monotonic() < self._seen_at + lasts:
                return None
            spec |= {"acquireTime": self._now(), "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        spec |= {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._lease_seconds,
            "renewTime": self._now(),
        }
        self._observe(self._api.update(LEASES, lease))
        return stopped + self._longest_write if holder else _NEVER

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
