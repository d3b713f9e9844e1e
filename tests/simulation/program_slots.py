"""The programs of a cluster, one call at a time: started, killed, stalled, interleaved, each from the seed alone."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from driver.errors import LodeError
from driver.kube.api import EVENTS, LEASES, ApiCall, ApiError, Forbidden
from driver.kube.reflector import Reflector
from tests.simulation.clock import VirtualClock
from tests.simulation.event_log import EventLog
from tests.simulation.faults import LATE_RENEWAL_SECONDS, NO_FAULTS, Crash
from tests.simulation.process import Process
from tests.simulation.programs import SimulatedProgram

RESTART_SECONDS = 1.0
MAX_NESTED_PROGRAMS = 2
"""How many programs may be interleaved inside one call."""
LATENCIES = (0.02, 0.3, 2.0, 12.0, 45.0)
"""Seconds that a slow call takes: up to almost half of the lease time of histories."""
STEPS_IN_A_SLOW_CALL = 12
STEPS_WHILE_A_RENEWAL_IS_LATE = 30
LAG_SECONDS = 60.0
"""A watch that lags has gone on by then: a bookmark comes every minute."""
STALL_SECONDS = 250.0
"""Longer than the lease time of histories."""


@dataclass(slots=True)
class ProgramSlot:
    """The place of one program in the cluster, which runs there one process after the other."""

    name: str
    build: Callable[[Process], SimulatedProgram]
    program: SimulatedProgram | None = None
    """None while it is down."""
    process: Process | None = None
    not_before: float = 0.0
    """The program is down or stalled until then (``Clock.monotonic``)."""
    running: bool = False
    """The program is in a call now."""
    writes_read: dict[Reflector, int] = field(default_factory=dict)
    """Per watch, the number of writes of its kind when it was read last."""
    nothing_new_at: int = -1
    """The number of writes, without those of Leases and Events, at which every watch was known to be read."""
    lags_since: float = 0.0
    """When its watches were all read again last, because some may lag (``Clock.monotonic``)."""

    def forget_reading(self) -> None:
        """Have all watches read again."""
        self.writes_read.clear()
        self.nothing_new_at = -1

    def due(self, now: float) -> float | None:
        """When the program has something to do next, or starts (``Clock.monotonic``)."""
        if self.program is None or self.not_before > now:
            return self.not_before
        return self.program.next_due()


class ProgramSlots(dict[str, ProgramSlot]):
    """The slots by name, in the order in which they were added.

    Args:
        died: told the name of a program that was killed.
    """

    def __init__(self, clock: VirtualClock, randomness: random.Random, log: EventLog, died: Callable[[str], None]):
        super().__init__()
        self._clock = clock
        self._random = randomness
        self._log = log
        self._died = died
        self._depth = 0
        self._crash_after: dict[str, int] = {}
        self.faults = NO_FAULTS
        """The faults that are injected now; may be changed at any time."""
        self.api_is_down = False
        """Whether the API answers nobody; may be changed at any time."""

    def add(self, name: str, build: Callable[[Process], SimulatedProgram]) -> None:
        """Add a program that is to start."""
        self[name] = ProgramSlot(name, build)

    # Incidents

    def kill(self, name: str, seconds: float = 0.0) -> None:
        """End a program at its next call, or at once; it starts again after ``seconds``."""
        slot = self[name]
        self._log.note(name, "dies")
        if slot.process:
            slot.process.alive = False
        self._died(name)
        slot.program = None
        slot.not_before = self._clock.monotonic() + seconds

    def remove(self, *names: str) -> None:
        """End programs for good."""
        for name in names:
            self.kill(name)
        for name in names:
            del self[name]

    def crash_after(self, name: str, calls: int) -> None:
        """End a program just before the ``calls``-th call that it makes from now on."""
        self._crash_after[name] = calls

    def crash_pending(self, name: str) -> bool:
        """Whether a crash set with ``crash_after`` has not happened yet."""
        return name in self._crash_after

    def stall(self, name: str, seconds: float) -> None:
        """Keep a program from running for a while; then it continues with its state as it was."""
        self._log.note(name, f"stalls for {seconds:.0f} s")
        self[name].not_before = self._clock.monotonic() + seconds

    def break_watches(self) -> None:
        """Close the connections of all watches. A program that stalls notices it, too, when it goes on."""
        for slot in self.values():
            for reflector in slot.program.reflectors if slot.program else ():
                with suppress(ApiError, Crash):
                    reflector.step()

    # Execution

    def next_due(self) -> float | None:
        """When a program is due next (``Clock.monotonic``); None if none is."""
        now = self._clock.monotonic()
        return min((due for slot in self.values() if (due := slot.due(now)) is not None), default=None)

    def ready(self) -> list[ProgramSlot]:
        """The slots whose program can do something now."""
        now = self._clock.monotonic()
        return [slot for slot in self.values() if self._ready(slot, now)]

    def _ready(self, slot: ProgramSlot, now: float) -> bool:
        if slot.running or slot.not_before > now:
            return False
        program = slot.program
        if program is None:
            # What a process held is released when its last call has ended.
            return slot.process is None or slot.process.calls == 0
        if slot.nothing_new_at != self._log.total_writes and self.has_unread_watches(slot, program):
            return True
        due = program.next_due()
        return due is not None and due <= now

    def has_unread_watches(self, slot: ProgramSlot, program: SimulatedProgram) -> bool:
        """Whether something was written of which the program's watches have not told it."""
        if slot.nothing_new_at == self._log.total_writes:
            return False
        for reflector in program.reflectors:
            if slot.writes_read.get(reflector, -1) != self._log.writes[reflector.resource]:
                return True
        slot.nothing_new_at = self._log.total_writes
        return False

    def run_any(self) -> bool:
        """Run one of the programs that can do something now; False if there is none."""
        ready = self.ready()
        if ready:
            self.run(self._random.choice(ready))
        return bool(ready)

    def run(self, slot: ProgramSlot) -> None:
        """Start the program, or let it take in what is new and do one step."""
        slot.running = True
        self._depth += 1
        try:
            if slot.program is None:
                self._start(slot)
            else:
                self._read_watches(slot, slot.program)
                slot.program.step()
        except Crash as crash:
            if slot.process and slot.process.alive:
                self.kill(slot.name, RESTART_SECONDS)
            self._log.note(slot.name, f"ended: {crash}")
        finally:
            slot.running = False
            self._depth -= 1

    def _start(self, slot: ProgramSlot) -> None:
        self._log.note(slot.name, "starts")
        slot.process = Process(slot.name, self._before_call, self._after_call)
        slot.forget_reading()
        try:
            slot.program = slot.build(slot.process)
            assert not {LEASES, EVENTS} & {one.resource for one in slot.program.reflectors}, "see nothing_new_at"
        except (LodeError, OSError) as error:
            self._log.note(slot.name, f"does not start: {error}")
            slot.not_before = self._clock.monotonic() + 1.0

    def _read_watches(self, slot: ProgramSlot, program: SimulatedProgram) -> None:
        now = self._clock.monotonic()
        if self.faults.network.lag and now >= slot.lags_since + LAG_SECONDS:
            slot.lags_since = now
            slot.forget_reading()
        if slot.nothing_new_at == self._log.total_writes:
            return
        for reflector in program.reflectors:
            writes = self._log.writes[reflector.resource]
            if slot.writes_read.get(reflector, -1) == writes or self._random.random() < self.faults.skip_watch:
                continue
            before = reflector.position
            try:
                reflector.step()
            except ApiError as error:
                self._log.note(slot.name, f"watch of {reflector.resource.plural}: {error}")
                slot.nothing_new_at = -1
                if self.api_is_down or isinstance(error, Forbidden):
                    # Only something new can help, such as the right to read.
                    slot.writes_read[reflector] = writes
                else:
                    slot.writes_read.pop(reflector, None)
            else:
                must_list = before and not reflector.position
                if not must_list and self._random.random() >= self.faults.network.lag:
                    slot.writes_read[reflector] = writes

    def _before_call(self, process: Process) -> None:
        if process.name in self._crash_after:
            self._crash_after[process.name] -= 1
            if self._crash_after[process.name] <= 0:
                del self._crash_after[process.name]
                self.kill(process.name, RESTART_SECONDS)
                return
        if self._random.random() < self.faults.crash:
            self.kill(process.name, self._random.choice((0.0, 1.0, 20.0)))
            return
        self._pass_time(process)
        if self._random.random() < self.faults.interleave and self._depth < MAX_NESTED_PROGRAMS:
            self.run_any()

    def _after_call(self, process: Process, call: ApiCall) -> None:
        if call.resource == LEASES and call.is_write and self._random.random() < self.faults.late_renewal:
            for _ in range(STEPS_WHILE_A_RENEWAL_IS_LATE):
                self._clock.advance(LATE_RENEWAL_SECONDS / STEPS_WHILE_A_RENEWAL_IS_LATE)
                if self._depth < MAX_NESTED_PROGRAMS:
                    self.run_any()
            if self._random.random() < 0.5:
                self.stall(process.name, STALL_SECONDS)
        self._pass_time(process)

    def _pass_time(self, process: Process) -> None:
        """With the probability ``latency``, let time pass inside a call, and other programs act."""
        if self._random.random() >= self.faults.latency or self._depth >= MAX_NESTED_PROGRAMS:
            return
        self._clock.advance(self._random.choice(LATENCIES))
        for _ in range(self._random.randint(0, STEPS_IN_A_SLOW_CALL)):
            if not self.run_any():
                return
