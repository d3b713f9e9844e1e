"""A whole cluster in one thread: real controller, real plugins, stand-ins for the rest, on one API and one clock.

Everything that happens follows from the seed. Time moves only when nothing is due. A program may die, stall or be
overtaken at any call it makes; it is then built anew on the same API and the same files.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from driver.errors import LodeError
from driver.kube.api import DEVICE_CLASSES, NAMESPACES, NODES, PODS, ApiError, Object, Unavailable
from driver.kube.reflector import Reflector
from driver.settings import Settings
from kubeletplugin.hardware.simulated import Profile, SimulatedHardware, load_profile
from memoryapi import MemoryApi
from simulation.clock import VirtualClock
from simulation.faults import Crash, FaultyApi
from simulation.files import MemoryFiles
from simulation.invariants import Invariants
from simulation.process import Diary, DiaryLog, Process, ProcessApi, ProcessClock, ProcessFiles
from simulation.programs import NAMESPACE, ControllerProgram, PluginPort, PluginProgram, Program
from simulation.standins.admission import CLAIM_CONTROLLER, CONTROLLER, AdmittedApi
from simulation.standins.claims import ResourceClaimController
from simulation.standins.jobs import GarbageCollector, JobController
from simulation.standins.kubelet import Kubelet
from simulation.standins.machine import Machine
from simulation.standins.scheduler import KubeScheduler
from simulation.weather import CALM, Weather

QUIET_SECONDS = 130.0
"""Nothing changed for so long: longer than every back-off of controller and plugin. Kubelets say when they wait."""
LONGEST_UNREST_SECONDS = 5000.0
LONGEST_HOP_SECONDS = 20.0
RESTART_SECONDS = 1.0
DEEPEST = 2
"""How many programs may overtake one another inside one call."""


@dataclass(slots=True)
class Part:
    """A place where one program runs, one run after the other."""

    name: str
    build: Callable[[Process], Program]
    program: Program | None = None
    process: Process | None = None
    not_before: float = 0.0
    """Down, or stalled, until then."""
    busy: bool = False
    seen: dict[Reflector, int] = field(default_factory=dict)


class Cluster:
    """One rehearsed cluster.

    Args:
        nodes: node name to the profile of its cards, by name or as such.
        classes: the DeviceClasses to install.
        labels: labels of nodes.
    """

    def __init__(
        self,
        seed: int,
        nodes: Mapping[str, str | Profile],
        *,
        classes: list[Object],
        controllers: int = 1,
        settings: Settings | None = None,
        labels: Mapping[str, Mapping[str, str]] | None = None,
        weather: Weather = CALM,
    ):
        self.random = random.Random(seed)
        self.clock = VirtualClock()
        self.diary = Diary(self.clock)
        self.settings = settings or Settings()
        self.names = self.settings.names
        self.memory = MemoryApi(self.clock, seed=seed)
        self.machines = {name: Machine(name) for name in nodes}
        self.invariants = Invariants(self.memory, self.names, self.machines.values())
        self.parts: dict[str, Part] = {}
        self._weather = CALM
        self._networks: dict[str, FaultyApi] = {}
        self._depth = 0
        self._checked = -1
        self._doomed: dict[str, int] = {}
        self.user = self._api(Process("user", lambda _: None), "kubectl")
        """The API as a user has it: no faults."""
        self._install(nodes, classes, labels or {})
        self._hardware = {name: SimulatedHardware(_profile(profile), name) for name, profile in nodes.items()}
        for index in range(controllers):
            self._add(f"controller-{index}", self._build_controller)
        for name in nodes:
            self._add(f"plugin-{name}", self._plugin_builder(name))
            self._add(f"kubelet-{name}", self._kubelet_builder(name))
        self._add_kubernetes()
        self.weather = weather

    # Making it

    def _install(
        self, nodes: Mapping[str, str | Profile], classes: list[Object], labels: Mapping[str, Mapping[str, str]]
    ) -> None:
        self.user.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for device_class in classes:
            self.user.create(DEVICE_CLASSES, device_class)
        for name in nodes:
            own = {"kubernetes.io/hostname": name, **labels.get(name, {})}
            ready = {"type": "Ready", "status": "True"}
            status = {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}, "conditions": [ready]}
            self.user.create(NODES, {"metadata": {"name": name, "labels": own}, "status": status})

    def _api(self, process: Process, user: str) -> ProcessApi:
        network = FaultyApi(AdmittedApi(self.memory, self.names, user), self.random, self.weather.network)
        if process.name != "user":
            self._networks[process.name] = network
        return ProcessApi(network, process, self.diary)

    def _add(self, name: str, build: Callable[[Process], Program]) -> None:
        self.parts[name] = Part(name, build)

    def _build_controller(self, process: Process) -> Program:
        clock = ProcessClock(self.clock, process)
        log = DiaryLog(self.diary, process.name)
        return ControllerProgram(self._api(process, CONTROLLER), clock, self.settings, log, process.name)

    def _plugin_builder(self, node: str) -> Callable[[Process], Program]:
        machine = self.machines[node]

        def build(process: Process) -> Program:
            program = PluginProgram(
                self._api(process, f"plugin-{node}"),
                ProcessFiles(machine.files, process),
                ProcessClock(self.clock, process),
                node,
                self.settings,
                self._hardware[node],
                machine.boot_id,
                DiaryLog(self.diary, process.name),
            )
            kubelet = self.parts[f"kubelet-{node}"].program
            if isinstance(kubelet, Kubelet):
                kubelet.plugin_started()
            return program

        return build

    def _kubelet_builder(self, node: str) -> Callable[[Process], Program]:
        port = PluginPort(lambda: self.plugin(node))

        def build(process: Process) -> Program:
            api = self._api(process, f"kubelet-{node}")
            return Kubelet(api, self.clock, self.machines[node], port, self.random.random)

        return build

    def _add_kubernetes(self) -> None:
        def scheduler(process: Process) -> Program:
            api = self._api(process, "kube-scheduler")

            def bind(namespace: str, name: str, node: str) -> object:
                process.call()
                self.diary.wrote(PODS)
                self.diary.note(process.name, f"bind {namespace}/{name} to {node}")
                bound = self.memory.bind(namespace, name, node)
                if self.random.random() < self.weather.network.lost_answer:
                    raise Unavailable("bind: connection lost")
                return bound

            return KubeScheduler(api, self.clock, bind)

        self._add("kube-scheduler", scheduler)
        self._add(CLAIM_CONTROLLER, lambda p: ResourceClaimController(self._api(p, CLAIM_CONTROLLER), self.clock))
        self._add("job-controller", lambda p: JobController(self._api(p, "job-controller"), self.clock))
        self._add("garbage-collector", lambda p: GarbageCollector(self._api(p, "garbage-collector"), self.clock))

    @property
    def weather(self) -> Weather:
        """How rough it is now; may be changed at any time."""
        return self._weather

    @weather.setter
    def weather(self, weather: Weather) -> None:
        self._weather = weather
        for network in self._networks.values():
            network.misfortune = weather.network
        for part in self.parts.values():
            part.seen.clear()

    # Looking at it

    def plugin(self, node: str) -> PluginProgram | None:
        """The plugin of a node, None while it is down."""
        program = self.parts[f"plugin-{node}"].program
        return program if isinstance(program, PluginProgram) else None

    def kubelet(self, node: str) -> Kubelet | None:
        """The kubelet of a node, None while it is down."""
        program = self.parts[f"kubelet-{node}"].program
        return program if isinstance(program, Kubelet) else None

    def controllers(self) -> list[ControllerProgram]:
        """The controllers that are up."""
        return [part.program for part in self.parts.values() if isinstance(part.program, ControllerProgram)]

    # What happens to it

    def kill(self, name: str, seconds: float = 0.0) -> None:
        """End a program at its next call, or at once; it starts anew after ``seconds``."""
        part = self.parts[name]
        self.diary.note(name, "dies")
        if part.process:
            part.process.alive = False
        if name.startswith("plugin-") and (kubelet := self.kubelet(name.removeprefix("plugin-"))):
            kubelet.plugin_lost()
        part.program = None
        part.not_before = self.clock.monotonic() + seconds

    def doom(self, name: str, calls: int) -> None:
        """End a program just before the ``calls``-th call that it makes from now on."""
        self._doomed[name] = calls

    def doomed(self, name: str) -> bool:
        """Whether that end is still to come."""
        return name in self._doomed

    def stall(self, name: str, seconds: float) -> None:
        """Keep a program from running for a while; then it goes on with what it knew."""
        self.diary.note(name, f"stalls for {seconds:.0f} s")
        self.parts[name].not_before = self.clock.monotonic() + seconds

    def reboot(self, node: str) -> None:
        """Restart a machine: its programs, its containers, and its file systems in memory are gone."""
        self.diary.note(node, "reboots")
        self.kill(f"kubelet-{node}")
        self.kill(f"plugin-{node}")
        self.machines[node].reboot(self.settings)

    def end(self, pod: Object, phase: str) -> None:
        """Let a running pod's containers end by themselves."""
        node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
        if node and self.machines[node].end(uid, phase):
            self.diary.note(node, f"containers of {pod['metadata']['name']} end: {phase}")
            if kubelet := self.kubelet(node):
                kubelet.look_at(uid)

    # Running it

    def step(self) -> bool:
        """Let one program, chosen by the seed, do something; False if none has anything to do now.

        Raises:
            Violation: an invariant does not hold afterwards.
        """
        ready = [part for part in self.parts.values() if self._ready(part)]
        if not ready:
            return False
        self._run(self.random.choice(ready))
        if self._checked != self.diary.written:
            self._checked = self.diary.written
            self.invariants.check()
        return True

    def run(self, steps: int) -> None:
        """Up to ``steps`` steps, fewer if nothing is due any more; time stands still."""
        for _ in range(steps):
            if not self.step():
                return

    def advance(self, seconds: float) -> None:
        """Let this much time pass, in which everything that becomes due is done."""
        until = self.clock.monotonic() + seconds
        while True:
            while self.step():
                pass
            due = self._next_due()
            if due is None or due > until:
                break
            self.clock.advance(max(0.0, due - self.clock.monotonic()))
        self.clock.advance(max(0.0, until - self.clock.monotonic()))

    def settle(self) -> None:
        """Run until nothing has changed for ``QUIET_SECONDS``.

        Raises:
            LodeError: it does not come to rest.
        """
        started = self.clock.monotonic()
        while True:
            while self.step():
                pass
            now = self.clock.monotonic()
            if now - max(started, self.diary.last_change) > QUIET_SECONDS and not self._waits():
                return
            if now - started > LONGEST_UNREST_SECONDS:
                raise LodeError(f"the cluster does not come to rest within {now - started:.0f} s")
            self._hop()

    def _waits(self) -> bool:
        """Whether a program is down or stalled, a kubelet has something left to do, or nobody leads."""
        now = self.clock.monotonic()
        if any(part.program is None or part.not_before > now for part in self.parts.values()):
            return True
        kubelets = [kubelet for node in self.machines if (kubelet := self.kubelet(node))]
        leaderless = any(name.startswith("controller-") for name in self.parts) and not any(
            controller.leads for controller in self.controllers()
        )
        return leaderless or any(kubelet.next_due() is not None for kubelet in kubelets)

    def _hop(self) -> None:
        """Move time on to when something is due, or a little beyond: timers need not fire one by one."""
        due = self._next_due()
        left = 0.0 if due is None else due - self.clock.monotonic()
        self.clock.advance(max(left, min(LONGEST_HOP_SECONDS, self.settings.controller.lease_seconds / 5)))

    def _next_due(self) -> float | None:
        found = (self._due(part) for part in self.parts.values())
        return min((due for due in found if due is not None), default=None)

    def _due(self, part: Part) -> float | None:
        if part.program is None or part.not_before > self.clock.monotonic():
            return part.not_before
        return part.program.next_due()

    def _ready(self, part: Part) -> bool:
        now = self.clock.monotonic()
        if part.busy or part.not_before > now:
            return False
        if part.program is None or self._behind(part.program, part):
            return True
        due = part.program.next_due()
        return due is not None and due <= now

    def _behind(self, program: Program, part: Part) -> bool:
        return any(
            part.seen.get(reflector, -1) != self.diary.writes[reflector.resource] for reflector in program.reflectors
        )

    def _run(self, part: Part) -> None:
        with self._occupied(part):
            try:
                if part.program is None:
                    self._start(part)
                else:
                    self._look(part, part.program)
                    part.program.step()
            except Crash as crash:
                if part.process and part.process.alive:
                    self.kill(part.name, RESTART_SECONDS)
                self.diary.note(part.name, f"ended: {crash}")

    def _start(self, part: Part) -> None:
        self.diary.note(part.name, "starts")
        part.process = Process(part.name, self._before_call)
        part.seen = {}
        try:
            part.program = part.build(part.process)
        except (LodeError, OSError) as error:
            self.diary.note(part.name, f"does not start: {error}")
            part.not_before = self.clock.monotonic() + 1.0

    def _look(self, part: Part, program: Program) -> None:
        for reflector in program.reflectors:
            writes = self.diary.writes[reflector.resource]
            if part.seen.get(reflector, -1) == writes or self.random.random() < self.weather.unseen:
                continue
            before = reflector.position
            try:
                reflector.step()
            except ApiError as error:
                self.diary.note(part.name, f"watch of {reflector.resource.plural}: {error}")
                part.seen.pop(reflector, None)
            else:
                must_list = before and not reflector.position
                if not must_list and self.random.random() >= self.weather.network.lag:
                    part.seen[reflector] = writes

    def _before_call(self, process: Process) -> None:
        if process.name in self._doomed:
            self._doomed[process.name] -= 1
            if self._doomed[process.name] <= 0:
                del self._doomed[process.name]
                self.kill(process.name, RESTART_SECONDS)
                return
        if self.random.random() < self.weather.crash:
            self.kill(process.name, self.random.choice((0.0, 1.0, 20.0)))
            return
        if self.random.random() < self.weather.overtaken and self._depth < DEEPEST:
            ready = [part for part in self.parts.values() if self._ready(part)]
            if ready:
                self._run(self.random.choice(ready))

    @contextmanager
    def _occupied(self, part: Part) -> Iterator[None]:
        part.busy = True
        self._depth += 1
        try:
            yield
        finally:
            part.busy = False
            self._depth -= 1


def _profile(profile: str | Profile) -> Profile:
    return load_profile(profile, MemoryFiles()) if isinstance(profile, str) else profile
