"""``lode controller``: puts the controller together and runs it until SIGTERM.

What the API server must allow its service account (each write is one of these):

    nodes, pods, resourceslices, deviceclasses, devicetaintrules    get list watch
    resourceclaims                                                  get list watch update (the finalizer)
    resourceclaims/status, resourceclaims/binding                   update (allocation, reservation; cluster-wide)
    pods                                                            patch (removing the gate)
    pods/status                                                     patch (our condition, nominatedNodeName)
    events                                                          create
    leases in its own namespace                                     get create update
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
from functools import partial
from pathlib import Path
from uuid import uuid4

from controller.election import Election, Fence
from controller.loop import Controller
from controller.state import StateDelta
from driver.clock import Clock, SystemClock
from driver.errors import InvalidInput, LodeError
from driver.kube.api import Api
from driver.kube.client import KubeClient
from driver.kube.reflector_loop import ReflectorLoop
from driver.observe import Logger, Metrics, ObserveServer, configure_logs, logger
from driver.settings import Settings, settings_from
from driver.threads import start_thread

_IDLE_SECONDS = 1.0
"""Longest sleep of the main loop, so that lost leadership is noticed."""
_STUCK_SECONDS = 120.0
"""How long the main loop may take for one turn before the process counts as unhealthy."""
_COLLECTION_THRESHOLDS = (50_000, 20, 100)
"""Of the garbage collector. With Python's defaults it takes half of the start: it looks again and again at the objects
of a page that is being decoded, and hardly any of them are part of a cycle."""


def main(argv: Sequence[str]) -> int:
    """Run the controller. The exit status is 0 after SIGTERM, 1 to be started again, 2 for invalid settings."""
    parser = argparse.ArgumentParser(prog="lode controller", description="Allocates claims and places their pods.")
    parser.add_argument(
        "--settings", metavar="FILE", help="YAML file of settings; default: every setting has its default"
    )
    parser.add_argument("--kubeconfig", metavar="FILE", default="", help="credentials; default: those of the pod")
    arguments = parser.parse_args(argv)
    try:
        text = Path(arguments.settings).read_text() if arguments.settings else ""
        settings = settings_from(text, arguments.settings or "settings")
    except (OSError, InvalidInput) as error:
        sys.stderr.write(f"lode controller: {error}\n")
        return 2
    configure_logs(settings.log_level, settings.log_format)
    log = logger("controller")
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
    try:
        api = KubeClient.from_environment(arguments.kubeconfig)
        process = ControllerProcess(api, SystemClock(), settings, log, os.environ)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: process.stop())
        return process.run()
    except LodeError as error:
        log.error("cannot start", error=str(error))
        return 1


class ControllerProcess:
    """The threads around one controller: the main loop, one for the election and one for each reflector."""

    def __init__(self, api: Api, clock: Clock, settings: Settings, log: Logger, environment: Mapping[str, str]):
        self._clock = clock
        self._settings = settings
        self._log = log
        self._metrics = Metrics()
        self._leads = self._metrics.gauge("controller_leader", "1 while this program leads.")
        self._inbox: queue.SimpleQueue[StateDelta | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._failed = False
        self._busy = threading.Lock()
        self._turned = clock.monotonic()
        identity = f"{environment.get('POD_NAME') or socket.gethostname()}_{uuid4()}"
        namespace = environment.get("POD_NAMESPACE") or "lode-system"
        chosen = settings.controller
        self._election = Election(api, clock, namespace, chosen.lease_name, identity, chosen.lease_seconds)
        fence = Fence(api, self._election)
        self._controller = Controller(fence, clock, settings, self._metrics, log, identity, self._inbox.put)

    def run(self) -> int:
        """Wait for leadership, then work until ``stop`` is called or leadership is lost; returns the exit status."""
        server = self._observe()
        election = self._thread("election", self._elect)
        try:
            self._log.info("started", seconds_to_ready=round(self._metrics.mark_ready(), 3))
            while not self._stop.is_set() and not self._election.leading:
                self._receive(_IDLE_SECONDS)
            if not self._stop.is_set():
                self._log.info("leading")
                self._leads.set(1)
                self._work()
        finally:
            self.stop()
            election.join(timeout=5)
            self._election.release()
            if server:
                server.close()
        self._log.info("stopped", failed=self._failed)
        return 1 if self._failed else 0

    def stop(self) -> None:
        """Make ``run`` return soon; safe from any thread and from signal handlers."""
        self._stop.set()
        self._inbox.put(None)

    def _work(self) -> None:
        self._controller.resume()
        for reflector in self._controller.reflectors:
            following = ReflectorLoop(reflector, self._clock, self._log)
            self._thread(f"reflect {reflector.resource.plural}", partial(self._reflect, following))
        while not self._stop.is_set():
            self._turned = self._clock.monotonic()
            if not self._election.leading:
                self._log.error("leadership lost")
                self._failed = True
                return
            with self._busy:
                worked = self._controller.step()
                due = self._controller.next_due()
            pause = _IDLE_SECONDS if due is None else due - self._clock.monotonic()
            self._receive(0 if worked else max(0.0, min(_IDLE_SECONDS, pause)))

    def _receive(self, seconds: float) -> None:
        """Take in what has arrived; wait at most ``seconds`` for the first.

        A list of many thousand objects is not taken in at once, so that lost leadership is noticed meanwhile.
        """
        self._turned = self._clock.monotonic()
        try:
            delta = self._inbox.get(timeout=seconds) if seconds > 0 else self._inbox.get_nowait()
            while True:
                if delta is not None:
                    with self._busy:
                        self._controller.handle(delta)
                if self._clock.monotonic() - self._turned > _IDLE_SECONDS:
                    return
                delta = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _elect(self) -> None:
        while not self._stop.is_set():
            led = self._election.leading
            if self._election.step() != led:
                self._inbox.put(None)
            self._stop.wait(self._election.interval)

    def _reflect(self, following: ReflectorLoop) -> None:
        while not self._stop.is_set():
            self._stop.wait(following.step())

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        def died() -> None:
            # Without this thread, the others would go on deciding from objects that are out of date.
            self._log.error("thread died", thread=name)
            self._failed = True
            self.stop()

        return start_thread(name, work, died)

    def _observe(self) -> ObserveServer | None:
        if not self._settings.observe_address:
            return None
        checks = {"/healthz": self._unhealthy, "/readyz": self._unready}
        return ObserveServer(self._settings.observe_address, self._metrics, checks, {"/debug/usage": self._usage})

    def _unhealthy(self) -> str:
        elapsed = self._clock.monotonic() - self._turned
        return f"the main loop is stuck: {elapsed:.0f} s" if elapsed > _STUCK_SECONDS else ""

    def _unready(self) -> str:
        listing = self._election.leading and not self._controller.ready
        return "leading, but not all objects have been listed yet" if listing else self._unhealthy()

    def _usage(self) -> str:
        with self._busy:
            return json.dumps(self._controller.in_use(), sort_keys=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
