"""A witness: follows every claim of the cluster and judges, after each event, whether any device is held twice."""

import json
import subprocess
import threading
from collections import defaultdict

from driver.model import Claim
from driver.names import Names
from driver.wire import claim_from
from simulation.invariants import Catalogue, Holding
from tests.e2e.client import Client, Object

_COMMAND = ("get", "resourceclaims", "--all-namespaces", "--watch", "--output-watch-events", "-o", "json")


class Watcher:
    """Watches with kubectl from a thread of its own; a watch that breaks is begun again with a list.

    What it judges by are the slices published when it was made, and nothing of the controller's.
    """

    def __init__(self, client: Client):
        self._client = client
        self._catalogue = Catalogue(Names())
        for raw in client.list("resourceslices"):
            if raw["spec"]["driver"] == Names().driver:
                self._catalogue.learn(raw)
        self._claims: dict[tuple[str, str], Claim] = {}
        self._uids: dict[str, set[str]] = defaultdict(set)
        self._failure = ""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self.violations: list[str] = []
        self.events = 0
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer; returns when the thread has ended. Fails if it never saw anything."""
        self._stop.set()
        if self._process:
            self._process.kill()
        self._thread.join(timeout=30)
        assert self.events, "the witness has seen nothing"

    def held(self, namespace: str = "") -> dict[str, str]:
        """Every device of ours in use now (`pool/device`) in one namespace or in all, and the claim that holds it,
        shares apart by their id.
        """
        if self._failure:
            raise RuntimeError(f"the witness sees nothing any more: {self._failure}")
        with self._lock:
            return {
                f"{h.result.device.pool}/{h.result.device.device}/{h.result.share_id}": h.holder
                for h in self._all(namespace)
            }

    def uids(self, namespace: str) -> frozenset[str]:
        """Every claim that was ever seen in a namespace."""
        with self._lock:
            return frozenset(self._uids[namespace])

    def _all(self, namespace: str = "") -> list[Holding]:
        return [
            Holding(claim.key, result)
            for claim in self._claims.values()
            if claim.allocation and namespace in ("", claim.namespace)
            for result in claim.allocation.results
            if result.device.driver == Names().driver
        ]

    def _watch(self) -> None:
        try:
            self._follow()
        except BaseException as error:
            self._failure = repr(error)
            raise

    def _follow(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                self._claims.clear()
            with self._client.following(*_COMMAND) as self._process:
                assert self._process.stdout
                for line in self._process.stdout:
                    if line.endswith("\n"):
                        self._take(json.loads(line))
            self._stop.wait(0.3)

    def _take(self, event: Object) -> None:
        if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return
        claim = claim_from(event["object"])
        with self._lock:
            self.events += 1
            self._uids[claim.namespace].add(claim.uid)
            if event["type"] == "DELETED":
                self._claims.pop((claim.namespace, claim.name), None)
            else:
                self._claims[claim.namespace, claim.name] = claim
            found = [*self._catalogue.conflicts(self._all())]
        self.violations += [it for it in found if it not in self.violations]
