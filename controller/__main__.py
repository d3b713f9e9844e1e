"""``lode controller``: puts the controller together and runs it until SIGTERM.

What the API server must allow its service account, and why, is in ``manifests/controller/controller-rbac.yaml``, and in
``manifests/preemption``, ``manifests/autoscaling`` and ``manifests/kueue`` for what these add.
"""

import argparse
import gc
import json
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import uuid4

from controller.census import Snapshot
from controller.election import Election, LeaseTerms
from controller.fleetseries import series_by_path
from controller.loop import Controller, Ports
from controller.policies import PolicyGuard, expected_policies
from controller.state import StateDelta
from controller.writing import Channel, Lane, ThreadedWrites, WriteResult, WritingMetrics
from driver.clock import Clock, SystemClock
from driver.errors import InvalidInput, LodeError
from driver.kube.api import Api
from driver.kube.client import KubeClient
from driver.kube.reflector_loop import ReflectorLoop
from driver.names import CONTROLLER_NAMESPACE, PLUGIN_NAMESPACE
from driver.observe import Logger, Metrics, ObserveServer, configure_logs, logger
from driver.settings import Settings
from driver.settings_file import settings_in
from driver.threads import start_thread

_IDLE_SECONDS = 1.0
"""Longest sleep of the main loop, so that lost leadership is noticed."""
_TAKE_IN_SECONDS = 0.2
"""Longest time for taking in what has arrived before a decision that is due is made."""
_REPORTING = 4
"""The most conditions and Events that are written at the same time."""
_STUCK_SECONDS = 120.0
"""How long the main loop may take for one turn before the process counts as unhealthy."""
_BUSY_SECONDS = 5.0
"""How long a scrape waits for the main loop; without an answer it has no series of the fleet."""
_LEASE_REMEDY = "run the controller with the service account, namespace and controller.leaseName of the manifests"
COLLECTION_THRESHOLDS = (50_000, 20, 100)
"""Of the garbage collector. With Python's defaults it takes half of the start: it looks again and again at the objects
of a page that is being decoded, and hardly any of them are part of a cycle."""

_T = TypeVar("_T")
Inbox = queue.SimpleQueue[StateDelta | WriteResult | None]
"""What other threads have for the main loop; None only wakes it."""


def main(argv: Sequence[str]) -> int:
    """Run the controller. The exit status is 0 after SIGTERM, 1 to be started again, 2 for invalid settings."""
    parser = argparse.ArgumentParser(prog="lode controller", description="Allocates claims and places their pods.")
    parser.add_argument(
        "--settings", metavar="FILE", help="YAML file of settings; default: every setting has its default"
    )
    parser.add_argument("--kubeconfig", metavar="FILE", default="", help="credentials; default: those of the pod")
    arguments = parser.parse_args(argv)
    try:
        settings = settings_in(arguments.settings)
    except (OSError, InvalidInput) as error:
        sys.stderr.write(f"lode controller: {error}\n")
        return 2
    configure_logs(settings.log_level, settings.log_format)
    log = logger("controller")
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    try:
        process = ControllerProcess(
            connections(arguments.kubeconfig, settings), SystemClock(), settings, log, os.environ
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: process.stop())
        return process.run()
    except LodeError as error:
        log.error("cannot start", error=str(error))
        return 1


@dataclass(frozen=True, slots=True)
class Apis:
    """The API, once for each purpose, so that none waits for connections or time-outs of another."""

    reading: Api
    """For lists and watches."""
    writing: Api
    """Every call takes at most ``controller.writeSeconds``, at the client and in the API server."""
    leasing: Api
    """Every call takes less than a renewal may be late."""


def connections(kubeconfig: str, settings: Settings) -> Apis:
    """The connections of the running program.

    Raises:
        OperatorFault: no valid credentials.
    """
    chosen = settings.controller
    connect = partial(KubeClient.from_environment, kubeconfig)
    return Apis(
        connect(),
        connect(call_seconds=chosen.write_seconds, connections=chosen.writes_in_flight + _REPORTING),
        connect(call_seconds=chosen.lease_seconds / 5),
    )


class ControllerProcess:
    """The threads around one controller: the main loop, one for the election, one for each reflector and writer.

    Attributes:
        metrics: what is served under /metrics.
    """

    def __init__(self, api: Apis, clock: Clock, settings: Settings, log: Logger, environment: Mapping[str, str]):
        self._clock = clock
        self._settings = settings
        self._log = log
        self.metrics = Metrics()
        self._leads = self.metrics.gauge("controller_leader", "1 while this program leads.")
        self._inbox: Inbox = queue.SimpleQueue()
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._failed = False
        self._ready = False
        self._term: int | None = None
        self._questions: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        """From those who monitor; the main loop answers them between two decisions."""
        self._turned = clock.monotonic()
        identity = f"{environment.get('POD_NAME') or socket.gethostname()}_{uuid4()}"
        namespace = environment.get("POD_NAMESPACE") or CONTROLLER_NAMESPACE
        chosen = settings.controller
        terms = LeaseTerms(namespace, chosen.lease_name, chosen.lease_seconds, chosen.longest_write_seconds)
        self._election = Election(api.leasing, clock, terms, identity)
        silence = self.metrics.gauge("controller_lease_silent_seconds", "Time since the Lease could last be used.")
        silence.set_function(lambda: self._election.silent_seconds)
        self._writes = ThreadedWrites(
            Channel(api.writing, self._election, self._inbox.put, clock),
            {Lane.PLACING: chosen.writes_in_flight, Lane.REPORTING: _REPORTING},
            WritingMetrics(self.metrics),
            died=partial(self._died, "writes"),
        )
        of_plugin = environment.get("PLUGIN_NAMESPACE") or PLUGIN_NAMESPACE
        also = chosen.also_allocates
        expected = expected_policies(settings.driver_name, namespace, of_plugin, also) if chosen.verify_policies else ()
        self._guard = PolicyGuard(api.reading, expected, self.metrics, log, from_others=bool(also))
        self._controller = Controller(
            Ports(api.reading, self._writes, clock, self.metrics, log),
            settings,
            identity,
            deliver=self._inbox.put,
            unsafe=lambda: self._guard.problem,
        )
        self.metrics.further.update(series_by_path(self._fleet, settings, clock))

    def run(self) -> int:
        """Take part in the election, and work in every term that is won, until ``stop``; returns the exit status."""
        servers = self._observe()
        self._thread("policies", self._watch_policies)
        election = self._thread("election", self._elect)
        for reflector in self._controller.reflectors:
            following = ReflectorLoop(reflector, self._clock, self._log)
            self._thread(f"reflect {reflector.resource.plural}", partial(self._reflect, following))
        try:
            while not self._stop.is_set():
                self._turn()
        finally:
            self.stop()
            self._end_writing()
            self._ended.set()
            election.join(timeout=5)
            for server in servers:
                server.close()
        self._log.info("stopped", failed=self._failed)
        return 1 if self._failed else 0

    def stop(self) -> None:
        """Make ``run`` return soon; safe from any thread and from signal handlers."""
        self._stop.set()
        self._inbox.put(None)

    def _turn(self) -> None:
        """Decide once, and take in what arrives until something is due."""
        self._turned = self._clock.monotonic()
        self._follow_election()
        worked = self._controller.step()
        due = self._controller.next_due()
        pause = _IDLE_SECONDS if due is None else due - self._clock.monotonic()
        self._receive(0 if worked else max(0.0, min(_IDLE_SECONDS, pause)))
        if not self._ready and self._controller.ready:
            self._ready = True
            # What was listed stays for long. Without this, each full collection looks at all of it.
            gc.collect()
            gc.freeze()
            self._log.info("started", seconds_to_ready=round(self.metrics.mark_ready(), 3))

    def _follow_election(self) -> None:
        term = self._election.term
        if term == self._term:
            return
        self._term = term
        self._leads.set(0 if term is None else 1)
        if term is None:
            self._log.warning("leadership lost")
            self._controller.follow()
        else:
            self._log.info("leading", term=term)
            self._controller.lead(term)

    def _end_writing(self) -> None:
        """Let the writes under way end, and release the lease if the next leader need not wait for any of them."""
        ended = self._writes.close(self._settings.controller.longest_write_seconds)
        self._receive(0)
        if ended and not self._failed and not self._controller.in_doubt:
            self._election.release()

    def _receive(self, seconds: float) -> None:
        """Take in what has arrived; wait at most ``seconds`` for the first."""
        self._turned = self._clock.monotonic()
        self._answer()
        take_in(self._inbox, seconds, self._controller.handle, self._clock)

    def _elect(self) -> None:
        while not self._ended.is_set():
            term, problem = self._election.term, self._election.problem
            self._election.step()
            self._tell_about_lease(problem)
            if self._election.term != term:
                self._inbox.put(None)
            self._ended.wait(self._election.interval)

    def _tell_about_lease(self, before: str) -> None:
        problem = self._election.problem
        if problem and not before:
            self._log.error("cannot use the Lease", problem=problem, remedy=_LEASE_REMEDY)
        elif before and not problem:
            self._log.info("Lease can be used again")

    def _reflect(self, following: ReflectorLoop) -> None:
        while not self._ended.is_set():
            self._ended.wait(following.step())

    def _watch_policies(self) -> None:
        while not self._ended.is_set():
            self._ended.wait(self._guard.step())

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        return start_thread(name, work, partial(self._died, name))

    def _died(self, name: str) -> None:
        # Without this thread, the others would go on deciding from objects that are out of date.
        self._log.error("thread died", thread=name)
        self._failed = True
        self.stop()

    def _observe(self) -> list[ObserveServer]:
        checks = {"/healthz": self._unhealthy, "/readyz": self._unready}
        pages = {"/debug/usage": self._usage}
        public, private = self._settings.observe_address, self._settings.controller.debug_address
        servers = [ObserveServer(public, self.metrics, checks)] if public else []
        try:
            return [*servers, *([ObserveServer(private, self.metrics, checks, pages)] if private else [])]
        except OSError as error:
            # Nothing depends on it.
            self._log.warning("cannot serve the debug address", address=private, error=str(error))
            return servers

    def _unhealthy(self) -> str:
        elapsed = self._clock.monotonic() - self._turned
        return f"the main loop is stuck: {elapsed:.0f} s" if elapsed > _STUCK_SECONDS else ""

    def _unready(self) -> str:
        lease = f"{self._election.problem}; {_LEASE_REMEDY}" if self._election.problem else ""
        return self._controller.unready or lease or self._unhealthy()

    def _usage(self) -> str:
        return json.dumps(self._ask(self._controller.state.devices_in_use, _STUCK_SECONDS), sort_keys=True)

    def _fleet(self) -> Snapshot | None:
        return self._ask(self._controller.fleet_snapshot, _BUSY_SECONDS)

    def _ask(self, question: Callable[[], _T], seconds: float) -> _T:
        """In a thread of the server. The main loop answers when it has time, so nobody can hold it up by asking."""
        answer: Future[_T] = Future()

        def reply() -> None:
            try:
                answer.set_result(question())
            except Exception as error:  # noqa: BLE001 - whoever asked gets it, and the loop goes on
                answer.set_exception(error)

        self._questions.put(reply)
        self._inbox.put(None)
        return answer.result(seconds)

    def _answer(self) -> None:
        while not self._questions.empty():
            self._questions.get()()


def take_in(inbox: Inbox, seconds: float, handle: Callable[[StateDelta | WriteResult], None], clock: Clock) -> None:
    """Handle what has arrived, but None; wait at most ``seconds`` for the first.

    A list of many thousand objects is not taken in at once, so that the program shows that it is alive and notices lost
    leadership meanwhile.
    """
    began = clock.monotonic()
    try:
        event = inbox.get(timeout=seconds) if seconds > 0 else inbox.get_nowait()
        while True:
            if event is not None:
                handle(event)
            if clock.monotonic() - began > _TAKE_IN_SECONDS:
                return
            event = inbox.get_nowait()
    except queue.Empty:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
