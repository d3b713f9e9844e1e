"""Plays a schedule on a cluster. Pods come and go; a fault is done meanwhile; then all has to be as it should be."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from driver.settings import Settings
from testclusters.commands import CommandFailed
from testclusters.kind import NotReady
from tests.chaos.fixtures import Fixtures, NotPlayed
from tests.chaos.injecting import Injector, NotDone, Snapshots
from tests.chaos.judging import BOUND_SECONDS, Judge, Patience
from tests.chaos.reading import read
from tests.chaos.schedule import Fault
from tests.chaos.table import Played
from tests.chaos.workload import LABEL, OTHER_DRIVER, Flavour, Wanted, Workload, step
from tests.chaos.world import Reading
from tests.e2e.client import Client, eventually
from tests.e2e.nodes import thaw
from tests.e2e.watcher import Watcher

TURN_SECONDS: Final = 3.0
LOAD_SECONDS: Final = 6.0
"""Pods come and go so long before each fault, and after it, however late the run is."""
SNAPSHOT_SECONDS: Final = 30.0
FIRST_SECONDS: Final = 300.0
"""Within this time, pods of all flavours run at first."""
_MISSING: Final = (CommandFailed, NotReady, AssertionError, LookupError, subprocess.TimeoutExpired)
"""What means that something did not answer."""


@dataclass
class Run:
    """One run on a cluster on which everything is installed.

    Args:
        results: the folder of the journal and of the readings in which something was found.
    """

    client: Client
    fixtures: Fixtures
    seed: int
    results: Path
    watcher: Watcher
    played: list[Played] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    """How many pods were made, by flavour."""
    ran: dict[str, set[str]] = field(default_factory=dict)
    """The uids of the pods that were seen running, by flavour."""
    looks: int = 0

    def __post_init__(self) -> None:
        self._workload = Workload(self.seed)
        self._judge = Judge(Settings(nvidia_dra_names=True), (OTHER_DRIVER,))
        self._patience = Patience()
        self._snapshots = Snapshots(self.client)
        self._injector = Injector(self.client, self.fixtures, self._snapshots)
        self._began = time.monotonic()
        self._turn = 0
        self._turned = self._snapped = self._began
        self._standing: Sequence[Wanted] = self._workload.standing(0)
        self._found: list[str] = []

    def play(self, faults: Sequence[Fault]) -> None:
        """Play all faults, and end the pods.

        Raises:
            NotPlayed: pods of some flavour do not even run at first.
        """
        self._start()
        for fault in faults:
            self._play(fault)
        for fault in [it.fault for it in self.played if it.failure]:  # what it was for may be there by now
            self._play(fault)
        self._end()

    def _start(self) -> None:
        """Let a pod of each flavour run."""

        def all_run() -> bool:
            self._apply()
            self._look()
            missing = [flavour for flavour in Flavour if not self.ran.get(flavour)]
            assert not missing, f"no pod runs of: {', '.join(missing)}"
            return True

        try:
            eventually("pods of all flavours run", all_run, FIRST_SECONDS, pause=2)
        except AssertionError as error:
            raise NotPlayed(str(error)) from error
        self._began = time.monotonic()

    def _play(self, fault: Fault) -> None:
        self._found = []
        self._load_until(max(fault.at, self._seconds() + LOAD_SECONDS))
        began, failure = self._seconds(), ""
        self._note("fault", fault=str(fault))
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(self._injector.do, fault)
            while not done.done():
                self._load()
        ended = self._seconds()
        try:
            done.result()
        except NotDone as error:
            failure = str(error).strip()[:300]
        except _MISSING as error:
            self._find([f"not back in time: {str(error).strip()[:500]}"], None)
        self._patience.calm()
        self._load_until(ended + LOAD_SECONDS)
        recovered = self._settle(ended)
        findings = tuple(self._found)
        self.played.append(Played(fault, began, recovered, findings, failure))
        self._note("settled", fault=str(fault), recovered=recovered, findings=findings, failure=failure)

    def _load_until(self, end: float) -> None:
        while self._seconds() < end:
            self._load()

    def _settle(self, since: float) -> float | None:
        """Wait until all is as it should be, while no pods begin or end; returns after how many seconds it was."""
        while (passed := self._seconds() - since) < 2 * BOUND_SECONDS:
            _tried(lambda: thaw(self.client))
            quiet = self._apply()
            if self._look() and quiet and not self._patience.unresolved():
                return round(passed, 1) if passed <= BOUND_SECONDS else None
            time.sleep(1)
        self._find([f"not settled: {text}" for text in self._patience.unresolved()], None)
        return None

    def _load(self) -> None:
        """Pods come and go, and it is looked; takes about a second, or longer."""
        now = time.monotonic()
        if now - self._turned >= TURN_SECONDS:
            self._turn, self._turned = self._turn + 1, now
            self._standing = self._workload.standing(self._turn)
        if now - self._snapped >= SNAPSHOT_SECONDS:
            self._snapped = now
            _tried(self._snapshots.take)
        self._apply()
        self._look()
        time.sleep(1)

    def _apply(self) -> bool:
        """Make and delete pods as the turn wants it; whether there was nothing to do."""
        try:
            self.fixtures.revive_device_plugin()
            listed = self.client.list("pods", labels=LABEL)
            present = {(it["metadata"]["namespace"], it["metadata"]["name"]): it for it in listed}
            todo = step(self._standing, present)
            for namespace, names in todo.deleted.items():
                self.client.delete(namespace, "pods", *names, wait=False)
            for namespace, objects in todo.made.items():
                self.client.apply(namespace, *objects)
                self.made.update(it["metadata"]["labels"][LABEL] for it in objects if it["kind"] == "Pod")
        except _MISSING:
            return False
        return not todo.made and not todo.deleted

    def _look(self) -> bool:
        """Read the world, and keep what is found; whether it could be read."""
        try:
            reading = read(self.client)
        except _MISSING:
            return False
        for raw in reading.objects[RESOURCE_SLICES]:
            if raw["spec"]["driver"] == "lode.dev":
                self.watcher.learn(raw)
        for pod in reading.objects[PODS]:
            flavour = (pod["metadata"].get("labels") or {}).get(LABEL)
            if flavour and (pod.get("status") or {}).get("phase") == "Running":
                self.ran.setdefault(flavour, set()).add(pod["metadata"]["uid"])
        problems = self._judge.problems(reading, time.time())
        self._find(self._patience.look(problems, time.monotonic()), reading)
        violations, self.watcher.violations = self.watcher.violations, []
        self._find(violations, reading)
        self.looks += 1
        return True

    def _find(self, found: Sequence[str], reading: Reading | None) -> None:
        if not found:
            return
        self._found += found
        name = f"finding-{self._seconds():.0f}.json" if reading else ""
        if reading:
            (self.results / name).write_text(json.dumps(reading.evidence(), indent=1))
        self._note("finding", findings=list(found), reading=name)

    def _end(self) -> None:
        """All pods end, and nothing may be left."""
        self._found, self._standing = [], ()
        fault_before = self.played[-1].fault if self.played else None
        self._note("end")
        self._patience.calm()
        self._settle(self._seconds())
        self.watcher.held()  # which says whether it has seen everything

        def nothing_left() -> bool:
            left = [it["metadata"]["name"] for it in read(self.client).objects[RESOURCE_CLAIMS]]
            assert not left, f"claims are left at the end: {left}"
            return True

        try:
            eventually("no claims are left", nothing_left, BOUND_SECONDS, pause=2)
        except AssertionError as error:
            self._find([str(error)], None)
        if self._found and fault_before:
            self.played.append(Played(fault_before, self._seconds(), None, tuple(self._found), "the end of the run"))

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _note(self, what: str, **more: Any) -> None:
        entry: Mapping[str, Any] = {"at": round(self._seconds(), 1), "what": what, "turn": self._turn, **more}
        line = json.dumps(entry)
        with (self.results / "journal.jsonl").open("a") as file:
            file.write(f"{line}\n")
        print(line, flush=True)


def _tried(action: Callable[[], None]) -> None:
    try:
        action()
    except _MISSING as error:
        print(f"not now: {str(error)[:200]}", flush=True)
