"""Plays a schedule on a cluster. Pods come and go; a fault is done meanwhile; then all has to be as it should be."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from driver.clock import Clock
from driver.kube.api import PODS, RESOURCE_CLAIMS
from driver.settings import Settings
from tests.chaos.fixtures import NotPlayed
from tests.chaos.injecting import NotDone
from tests.chaos.judging import BOUND_SECONDS, Judge, Patience
from tests.chaos.schedule import Fault, Kind
from tests.chaos.stage import NotNow, Stage
from tests.chaos.table import Played
from tests.chaos.workload import LABEL, OTHER_DRIVER, Wanted, Workload, step
from tests.chaos.world import Reading

TURN_SECONDS: Final = 3.0
LOAD_SECONDS: Final = 6.0
"""Pods come and go so long before each fault, and after it, however late the run is."""
SNAPSHOT_SECONDS: Final = 30.0
FIRST_SECONDS: Final = 300.0
"""Within this time, pods of all flavours run at first."""
_PAUSE_SECONDS: Final = 1.0


@dataclass
class Run:
    """One run.

    Args:
        settings: those of Lode's programs.
        results: the folder of the journal and of the readings in which something was found.
        kinds: those of the faults.
    """

    stage: Stage
    clock: Clock
    settings: Settings
    workload: Workload
    results: Path
    kinds: Sequence[Kind] = tuple(Kind)
    played: list[Played] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    """How many pods were made, by flavour."""
    ran: dict[str, set[str]] = field(default_factory=dict)
    """The uids of the pods that were seen running, by flavour."""
    looks: int = 0

    def __post_init__(self) -> None:
        self._judge = Judge(self.settings, (OTHER_DRIVER,))
        self._patience = Patience()
        self._began = self.clock.monotonic()
        self._turn = 0
        self._turned = self._snapped = self._began
        self._standing: Sequence[Wanted] = self.workload.standing(0)
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
        """Let pods come and go until one of each flavour has run."""
        while missing := [flavour for flavour in self.workload.flavours if not self.ran.get(flavour)]:
            if self._seconds() > FIRST_SECONDS:
                raise NotPlayed(f"within {FIRST_SECONDS:.0f} s no pod runs of: {', '.join(missing)}")
            self._load()
        self._began = self._turned = self._snapped = self.clock.monotonic()

    def _play(self, fault: Fault) -> None:
        self._found = []
        self._load_until(max(fault.at, self._seconds() + LOAD_SECONDS))
        began, failure = self._seconds(), ""
        self._note("fault", fault=str(fault))
        done = self.stage.start(fault)
        while not done.done():
            self._load()
        ended = self._seconds()
        try:
            done.result()
        except NotDone as error:
            failure = str(error).strip()[:300]
        except NotNow as error:
            self._find([f"not back in time: {error}"], None)
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
        before = len(self._found)
        while (passed := self._seconds() - since) < 2 * BOUND_SECONDS:
            quiet = self._apply()
            if self._look() and quiet and not self._patience.unresolved():
                return None if len(self._found) > before or passed > BOUND_SECONDS else round(passed, 1)
            self.clock.sleep(_PAUSE_SECONDS)
        self._find([f"not settled: {text}" for text in self._patience.unresolved()], None)
        return None

    def _load(self) -> None:
        """Pods come and go, and it is looked; takes about a second, or longer."""
        now = self.clock.monotonic()
        if now - self._turned >= TURN_SECONDS:
            self._turn, self._turned = self._turn + 1, now
            self._standing = self.workload.standing(self._turn)
        if now - self._snapped >= SNAPSHOT_SECONDS:
            self._snapped = now
            try:
                self.stage.snapshot()
            except NotNow as error:
                self._note("no snapshot", why=str(error))
        self._apply()
        self._look()
        self.clock.sleep(_PAUSE_SECONDS)

    def _apply(self) -> bool:
        """Make and delete pods as the turn wants it; whether there was nothing to do."""
        try:
            self.stage.tend()
            present = {(it["metadata"]["namespace"], it["metadata"]["name"]): it for it in self.stage.pods()}
            todo = step(self._standing, present)
            for namespace, names in todo.deleted.items():
                self.stage.end(namespace, names)
            for namespace, objects in todo.made.items():
                self.stage.make(namespace, objects)
                self.made.update(it["metadata"]["labels"][LABEL] for it in objects if it["kind"] == "Pod")
        except NotNow:
            return False
        return not todo.made and not todo.deleted

    def _look(self) -> bool:
        """Read the world, and keep what is found; whether it could be read."""
        try:
            reading = self.stage.read()
        except NotNow:
            return False
        for pod in reading.objects[PODS]:
            flavour = (pod["metadata"].get("labels") or {}).get(LABEL)
            if flavour and (pod.get("status") or {}).get("phase") == "Running":
                self.ran.setdefault(flavour, set()).add(pod["metadata"]["uid"])
        problems = self._judge.problems(reading, self.clock.now())
        self._find(self._patience.look(problems, self.clock.monotonic()), reading)
        self._find(self.stage.violations(reading), reading)
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
        self._note("end")
        self._patience.calm()
        began = self._seconds()
        self._settle(began)
        while (left := self._claims()) and self._seconds() - began < 2 * BOUND_SECONDS:
            self.clock.sleep(_PAUSE_SECONDS)
        if left:
            self._find([f"claims are left at the end: {left}"], None)
        if self._found:
            last = self.played[-1].fault
            self.played.append(Played(last, began, None, tuple(self._found), "the end of the run"))

    def _claims(self) -> Sequence[str]:
        try:
            return [it["metadata"]["name"] for it in self.stage.read().objects[RESOURCE_CLAIMS]]
        except NotNow:
            return ["the API server does not answer"]

    def _seconds(self) -> float:
        return self.clock.monotonic() - self._began

    def _note(self, what: str, **more: Any) -> None:
        entry: Mapping[str, Any] = {"at": round(self._seconds(), 1), "what": what, "turn": self._turn, **more}
        line = json.dumps(entry)
        with (self.results / "journal.jsonl").open("a") as file:
            file.write(f"{line}\n")
        print(line, flush=True)
