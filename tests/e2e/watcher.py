"""Watches every claim of the cluster, and checks after each event that no device is allocated twice."""

import json
import subprocess
import threading
from collections import defaultdict
from typing import Final

from driver.model import Claim
from driver.names import Names
from driver.wire import claim_from
from simulation.invariants import Catalogue, Holding
from tests.compute_domains import DRIVER as COMPUTE_DOMAINS
from tests.e2e.client import Client, Object
from tests.e2e.mixed.network_cards import DRIVER as NETWORK_CARDS

_COMMAND = ("get", "resourceclaims", "--all-namespaces", "--watch", "--output-watch-events", "-o", "json")

_NAMES: Final = Names(also_allocates=(NETWORK_CARDS, COMPUTE_DOMAINS))
"""Devices of these drivers are watched, whoever allocates them."""


class Watcher:
    """Watches with kubectl in a thread. A watch that ends is started again with a list.

    It uses the slices that are published when it is created or given to `learn`, and nothing of the controller.

    Args:
        complete: as of `Catalogue`.
    """

    def __init__(self, client: Client, *, complete: bool = True):
        self._client = client
        self._lock = threading.Lock()
        self._catalogue = Catalogue(_NAMES, complete=complete)
        for raw in client.list("resourceslices"):
            self.learn(raw)
        self._claims: dict[tuple[str, str], Claim] = {}
        self._uids: dict[str, set[str]] = defaultdict(set)
        self._failure = ""
        self._stop = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self.violations: list[str] = []
        self.events = 0
        self._thread.start()

    def learn(self, raw: Object) -> None:
        """Take a slice into account, if its devices are watched."""
        if _NAMES.allocates(raw["spec"]["driver"]):
            with self._lock:
                self._catalogue.learn(raw)

    def stop(self) -> None:
        """Stop watching, and wait until the thread has ended. Fails if there was no event."""
        self._stop.set()
        if self._process:
            self._process.kill()
        self._thread.join(timeout=30)
        assert self.events, "the watcher has not seen any event"

    def held(self, namespace: str = "") -> dict[str, str]:
        """The allocated devices that are watched, as `pool/device/share id`, and the claims that hold them.

        They are those of one namespace, or of all if it is "".
        """
        if self._failure:
            raise RuntimeError(f"the watcher has failed: {self._failure}")
        with self._lock:
            return {
                f"{h.result.device.pool}/{h.result.device.device}/{h.result.share_id}": h.holder
                for h in self._all(namespace)
            }

    def uids(self, namespace: str) -> frozenset[str]:
        """The uids of all claims that were ever seen in a namespace."""
        with self._lock:
            return frozenset(self._uids[namespace])

    def _all(self, namespace: str = "") -> list[Holding]:
        return [
            Holding(claim.key, result)
            for claim in self._claims.values()
            if claim.allocation and namespace in ("", claim.namespace)
            for result in claim.allocation.results
            if _NAMES.allocates(result.device.driver)
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
            with self._client.streaming(*_COMMAND) as self._process:
                assert self._process.stdout
                for line in self._process.stdout:
                    if line.endswith("\n"):
                        self._handle(json.loads(line))
            self._stop.wait(0.3)

    def _handle(self, event: Object) -> None:
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
            conflicts = [*self._catalogue.conflicts(self._all())]
        self.violations += [conflict for conflict in conflicts if conflict not in self.violations]
