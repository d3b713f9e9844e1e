"""A whole cluster in one thread: real controller, real plugins and fake components, on one API and one clock.

Everything that happens follows from the seed. Time advances only when nothing is due. A program may crash, stall or be
interleaved with another program at any call that it makes; afterwards it is rebuilt on the same API and the same files.
"""

import random
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import count

from controller.writing import WriteResult, WriteSequence
from driver.clock import Clock
from driver.errors import LodeError
from driver.files import Files
from driver.kube.api import DEVICE_CLASSES, NAMESPACES, NODES, Api, Object, Resource
from driver.settings import Settings
from kubeletplugin.hardware import HardwarePorts
from kubeletplugin.hardware.simulated import Profile
from kubeletplugin.node_context import NodeContext
from memoryapi import MemoryApi
from simulation.invariants import Violation
from simulation.kubernetes.admission import CONTROLLER, AdmissionApi
from simulation.kubernetes.component import FakeComponent
from simulation.kubernetes.kubelet import Kubelet
from simulation.kubernetes.scheduler import KubeScheduler
from simulation.node import registered_node
from tests.simulation.access import Access, AccessApi
from tests.simulation.answers import AnsweringApi, Answers
from tests.simulation.binding import Binding
from tests.simulation.bridged_node import BridgedNode
from tests.simulation.clock import VirtualClock
from tests.simulation.device_plugins import VendorPlugin
from tests.simulation.disk_checks import DiskChecks
from tests.simulation.event_log import EventLog, EventLogger
from tests.simulation.eviction_checks import EvictionChecks, EvictionWatch
from tests.simulation.eviction_webhooks import Webhooks
from tests.simulation.faults import NO_FAULTS, FaultProfile, FaultyApi, TimedOut, meeting_removals
from tests.simulation.hardware import NodeHardware, profile_of
from tests.simulation.hostile import HostileApi, HostileObjects
from tests.simulation.kubernetes_version import controllers as kubernetes_controllers
from tests.simulation.kubernetes_version import drawn
from tests.simulation.late_writes import LateWrites
from tests.simulation.named_drivers import DriverPolicies, SilentClaims, SlowAllocations
from tests.simulation.node import MemoryNode
from tests.simulation.older_controller import SilentAllocations
from tests.simulation.process import Process, ProcessApi, ProcessClock, ProcessDisk
from tests.simulation.program_slots import ProgramSlots
from tests.simulation.programs import (
    NAMESPACE,
    PluginConnection,
    ProgramPorts,
    SimulatedController,
    SimulatedPlugin,
    SimulatedProgram,
)
from tests.simulation.promise_checks import PromiseChecks
from tests.simulation.rivals import Rivals
from tests.simulation.settled_invariants import SettledInvariants
from tests.simulation.write_checks import WriteChecks

QUIET_SECONDS = 130.0
"""A cluster has settled when nothing has changed for this long: longer than every back-off of controller and plugin.
Kubelets report whether they are busy."""
SETTLE_TIMEOUT_SECONDS = 5000.0
LONGEST_ADVANCE_SECONDS = 20.0


class SimulatedCluster:
    """One simulated cluster.

    Args:
        nodes: node name to the profile of its cards, as a name or a value.
        classes: the DeviceClasses to install.
        labels: labels of nodes.
        custom: kinds that the API serves besides.
        components: further components of Kubernetes, by name.
        device_plugins: the vendors' device plugins of a node with this name.
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
        faults: FaultProfile = NO_FAULTS,
        custom: Collection[Resource] = (),
        components: Mapping[str, Callable[[Api, Clock], FakeComponent]] | None = None,
        device_plugins: Callable[[str], list[VendorPlugin]] = lambda _: [],
    ):
        self.random = random.Random(seed)
        self.clock = VirtualClock()
        self.log = EventLog(self.clock)
        self.settings = settings or Settings()
        self.names = self.settings.names
        self.api = meeting_removals(MemoryApi(self.clock, seed=seed, custom=custom), seed)
        self.api.upgrade(drawn(seed))
        self.hostile = HostileObjects(self.api, self.log)
        """What controllers read besides; may be changed at any time."""
        self.access = Access(self.log)
        """What controllers and plugins can reach; may be changed at any time."""
        self.nodes: dict[str, MemoryNode] = {}
        self.hardware: dict[str, NodeHardware] = {}
        """The cards of each node; faults may be set at any time."""
        self.found: list[str] = []
        """What was wrong with single writes and decisions."""
        self.wall_clocks: dict[str, float] = {}
        """Seconds by which the wall clock of a program of ours is ahead of the API server's; may be set at any time."""
        self.guarded = False
        """Whether plugins ask the hardware in threads (``NodeHardware.guarded``); counts for those that start."""
        self.policies: DriverPolicies | None = None
        """The admission policies, if they change; counts for programs that start."""
        self.older_controllers = False
        """Whether controllers do not say which cards claims get, and plugins have to; counts for those that start."""
        self._disks: dict[str, DiskChecks] = {}
        self._device_plugins = device_plugins
        self.invariants = SettledInvariants(self.api.sharing(), self.names, self.nodes.values())
        self.evictions = EvictionChecks(self.api.sharing(), self.names, Webhooks(self.clock))
        self._promises = PromiseChecks(self.api.sharing(), self.clock, self.found)
        self.slots = ProgramSlots(self.clock, self.random, self.log, self._died)
        self._runs = count()
        longest = self.settings.controller.longest_write_seconds
        self.late = LateWrites(self.clock, self.random, self.log, longest, self.found)
        """The writes that hang now."""
        self.answers = Answers(self.clock, self.late.hang)
        """What else is answered to controllers' writes; may be changed at any time."""
        self._networks: dict[str, FaultyApi] = {}
        self._checked_writes = -1
        self.user = self._api(Process("user", lambda _: None), "kubectl")
        """The API as a user has it, without faults."""
        self.user.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for device_class in classes:
            self.user.create(DEVICE_CLASSES, device_class)
        for index in range(controllers):
            self.slots.add(f"controller-{index}", self._build_controller)
        for name, profile in nodes.items():
            self.add_node(name, profile, (labels or {}).get(name, {}))
        self._add_kubernetes()
        for name, build in {**kubernetes_controllers(drawn(seed)), **(components or {})}.items():
            self.slots.add(name, self._component_builder(name, build))
        self._controllers = [slot for name, slot in self.slots.items() if name.startswith("controller-")]
        self.faults = faults

    # Construction

    def add_node(self, name: str, profile: str | Profile, labels: Mapping[str, str] | None = None) -> None:
        """A node joins the cluster, with the cards of a profile."""
        node = self.nodes[name] = MemoryNode(name)
        self.hardware[name] = NodeHardware(profile_of(profile), name)
        if plugins := self._device_plugins(name):
            kill_after = partial(self.slots.crash_after, f"plugin-{name}")
            self.hardware[name].bridged = BridgedNode(node, self.settings, plugins, self.found, kill_after)
        self._disks[name] = DiskChecks(name, node.files, self.settings, self.found)
        node.files.disk.before = lambda _operation, _path: self._disks[name].look()
        self.register(name, labels)
        self.slots.add(f"plugin-{name}", self._plugin_builder(name))
        self.slots.add(f"kubelet-{name}", self._kubelet_builder(name))

    def remove_node(self, name: str) -> None:
        """A node leaves the cluster for good: the machine, its programs, and the Node object."""
        self.slots.remove(f"kubelet-{name}", f"plugin-{name}")
        del self.nodes[name], self.hardware[name], self._disks[name]
        self.user.delete(NODES, name)

    def recreate_node_object(self, name: str) -> None:
        """An operator deletes the Node object, and the kubelet registers the node anew."""
        labels = self.user.get(NODES, name)["metadata"].get("labels") or {}
        self.user.delete(NODES, name)
        self.register(name, labels)

    def register(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """The kubelet of a node creates the Node object."""
        self.user.create(NODES, registered_node(name, labels or {}))

    def _api(self, process: Process, user: str, api: MemoryApi | None = None) -> ProcessApi:
        hang = self.late.hang if user == CONTROLLER else None
        reader, controls = self.api.sharing(), user == CONTROLLER
        checks = WriteChecks(
            api or self.api,
            reader,
            self.names,
            self.clock,
            self.found,
            controller=controls,
            says_devices=not self.older_controllers,
        )
        ours = user == CONTROLLER or user.startswith("plugin-")
        rivals = Rivals(self.user, self.random, self.found) if ours else None
        admitted: Api = AdmissionApi(checks, self.names, user, self._allocates)
        if controls:
            admitted = HostileApi(AnsweringApi(EvictionWatch(admitted, self.evictions), self.answers), self.hostile)
        if controls and self.older_controllers:
            admitted = SilentAllocations(admitted)
        if self.policies is not None and user in (CONTROLLER, "kube-scheduler"):
            admitted = (SilentClaims if controls else SlowAllocations)(admitted, self.policies)
        if ours:
            admitted = AccessApi(admitted, self.access, "controller" if user == CONTROLLER else "plugin")
        network = FaultyApi(admitted, self.random, self.faults.network, hang, rivals)
        if process.name != "user":
            self._networks[process.name] = network
        return ProcessApi(network, process, self.log)

    def _allocates(self, driver: str) -> bool:
        return self.names.allocates(driver) if self.policies is None else self.policies.allocates(driver)

    def _fake_api(self, process: Process, user: str) -> ProcessApi:
        """The API as a fake component has it. It shares objects with the API; ``check_settled`` looks at that."""
        return self._api(process, user, self.api.sharing())

    def _clock_of(self, process: Process) -> ProcessClock:
        return ProcessClock(self.clock, process, lambda: self.wall_clocks.get(process.name, 0.0))

    def _build_controller(self, process: Process) -> SimulatedProgram:
        log, also = EventLogger(self.log, process.name), self.settings.controller.also_allocates
        return SimulatedController(
            ProgramPorts(self._api(process, CONTROLLER), self._clock_of(process), log),
            self.settings,
            # As in reality: what an earlier run has asked of the Lease may still be on its way.
            f"{process.name}-{next(self._runs)}",
            latency=self._latency,
            randomness=self.random,
            found=self.found,
            guard=None if self.policies is None else self.policies.guard(also, log),
        )

    def _plugin_builder(self, node: str) -> Callable[[Process], SimulatedProgram]:
        simulated = self.nodes[node]

        def build(process: Process) -> SimulatedProgram:
            self._disks[node].program_starts()
            clock, log = self._clock_of(process), EventLogger(self.log, process.name)
            cards = self.hardware[node].of_program(process, clock, log, guarded=self.guarded)
            context = NodeContext(
                name=node,
                settings=self.settings,
                boot_id=simulated.boot_id,
                api=self._api(process, f"plugin-{node}"),
                clock=clock,
                files=Files(ProcessDisk(simulated.files.disk, process)),
                hardware=HardwarePorts(cards, cards),
                log=log,
            )
            program = SimulatedPlugin(context, lambda: found.claims() if (found := self.kubelet(node)) else ())
            kubelet = self.slots[f"kubelet-{node}"].program
            if isinstance(kubelet, Kubelet):
                kubelet.plugin_started()
            return program

        return build

    def _kubelet_builder(self, node: str) -> Callable[[Process], SimulatedProgram]:
        connection = PluginConnection(lambda: self.plugin(node))

        def build(process: Process) -> SimulatedProgram:
            api = self._fake_api(process, f"kubelet-{node}")
            return Kubelet(api, self.clock, self.nodes[node], connection, self.random.random)

        return build

    def _add_kubernetes(self) -> None:
        add = self.slots.add

        def scheduler(process: Process) -> SimulatedProgram:
            api = self._fake_api(process, "kube-scheduler")
            binding = Binding(process, self.api, self.slots, self.log, self.random)
            return KubeScheduler(api, self.clock, binding.bind)

        add("kube-scheduler", scheduler)

    def _component_builder(
        self, name: str, build: Callable[[Api, Clock], FakeComponent]
    ) -> Callable[[Process], SimulatedProgram]:
        return lambda process: build(self._fake_api(process, name), self.clock)

    # Slow writes of controllers

    def _latency(self, _: WriteSequence, result: WriteResult | None) -> float:
        """How long the answer to a write takes."""
        longest = self.settings.controller.write_seconds
        if result is not None and isinstance(result.error, TimedOut):
            return longest
        slow = self.random.random() < self.faults.network.slow
        return self.random.uniform(0, longest) if slow else 0.0

    @property
    def faults(self) -> FaultProfile:
        """The faults that are injected now; may be changed at any time."""
        return self.slots.faults

    @faults.setter
    def faults(self, faults: FaultProfile) -> None:
        self.slots.faults = faults
        for network in self._networks.values():
            network.faults = faults.network
        for slot in self.slots.values():
            slot.forget_reading()

    # Inspection

    def seen(self) -> Api:
        """The API as controllers read it that have all rights, for readers that never change an object."""
        return AccessApi(HostileApi(self.api.sharing(), self.hostile), self.access, "anybody")

    def plugin(self, node: str) -> SimulatedPlugin | None:
        """The plugin of a node, None while it is down."""
        program = self.slots[f"plugin-{node}"].program
        return program if isinstance(program, SimulatedPlugin) else None

    def kubelet(self, node: str) -> Kubelet | None:
        """The kubelet of a node, None while it is down."""
        program = self.slots[f"kubelet-{node}"].program
        return program if isinstance(program, Kubelet) else None

    def controllers(self) -> list[SimulatedController]:
        """The controllers that are up."""
        return [slot.program for slot in self._controllers if isinstance(slot.program, SimulatedController)]

    def informed_controllers(self) -> list[SimulatedController]:
        """The controllers that are up and whose watches have delivered everything; unknown while watches lag."""
        if self.faults.network.lag or any(right.role == "controller" for right in self.access.taken):
            return []
        up = [(slot, slot.program) for slot in self._controllers if isinstance(slot.program, SimulatedController)]
        return [one for slot, one in up if one.controller.ready and not self.slots.has_unread_watches(slot, one)]

    # Incidents

    def _died(self, name: str) -> None:
        if name.startswith("plugin-") and (kubelet := self.kubelet(name.removeprefix("plugin-"))):
            kubelet.plugin_lost()

    def reboot(self, node: str, *, power_lost: bool = False) -> None:
        """Restart a node: its programs and containers end, and its file systems in memory are emptied."""
        self.log.note(node, "loses power and starts" if power_lost else "reboots")
        for program in (f"kubelet-{node}", f"plugin-{node}"):
            self.slots.kill(program)
        self.nodes[node].reboot(self.settings, power_lost=power_lost)
        self._disks[node].power_lost()
        self.hardware[node].reboot()

    def lose_file(self, node: str, path: str, content: bytes | None) -> None:
        """A file of a node vanishes, or has this content from now on."""
        self.nodes[node].lose_file(path, content)
        self._disks[node].excuse(path)

    def end_containers(self, pod: Object, phase: str) -> None:
        """Let a running pod's containers exit by themselves."""
        node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
        if node and self.nodes[node].end_containers(uid, phase):
            self.log.note(node, f"containers of {pod['metadata']['name']} end: {phase}")
            if kubelet := self.kubelet(node):
                kubelet.containers_changed(uid)

    # Execution

    def step(self) -> bool:
        """Let one program, chosen by the seed, do something; False if nothing is due now.

        Raises:
            Violation: an invariant does not hold afterwards.
        """
        self.late.carry_out()
        if not self.slots.run_any():
            return False
        self._check()
        return True

    def _check(self) -> None:
        for name, disk in self._disks.items():
            disk.look()
            if self.plugin(name) is not None:
                disk.program_waits()
            if bridged := self.hardware[name].bridged:
                bridged.look()
        if len(self._controllers) > 1:
            holders = [slot.name for slot in self._controllers if getattr(slot.program, "holds_lease", False)]
            if len(holders) > 1:
                self.found.append(f"{holders} hold the Lease at once")
        self._promises.look(self.controllers())
        if self.found:
            raise Violation("\n".join(self.found))
        if self._checked_writes != self.log.total_writes:
            self._checked_writes = self.log.total_writes
            self.invariants.check()

    def run(self, steps: int) -> None:
        """Up to ``steps`` steps, fewer if nothing is due any more; time does not advance."""
        for _ in range(steps):
            if not self.step():
                return

    def advance(self, seconds: float) -> None:
        """Let this much time pass, and do everything that becomes due in it."""
        until = self.clock.monotonic() + seconds
        while True:
            self._do_what_is_due(until)
            due = self._next_due()
            if due is None or max(due, self.clock.monotonic()) > until:
                break
            self.clock.advance(max(0.0, due - self.clock.monotonic()))
        self.clock.advance(max(0.0, until - self.clock.monotonic()))

    def idle(self, seconds: float) -> None:
        """Let this much time pass in a cluster that has settled: timers need not fire one by one."""
        until = self.clock.monotonic() + seconds
        while True:
            self._do_what_is_due(until)
            left = until - self.clock.monotonic()
            if left <= 0:
                return
            self.clock.advance(min(left, self._until_next_due()))

    def settle(self) -> None:
        """Run until nothing has changed for ``QUIET_SECONDS``.

        Raises:
            LodeError: the cluster does not settle.
        """
        started = self.clock.monotonic()
        while True:
            nothing_is_due = self._do_what_is_due(started + SETTLE_TIMEOUT_SECONDS)
            now = self.clock.monotonic()
            if (
                nothing_is_due
                and now - max(started, self.log.last_change) > QUIET_SECONDS
                and not self._has_pending_work()
            ):
                return
            if now - started > SETTLE_TIMEOUT_SECONDS:
                raise LodeError(f"the cluster does not settle: waited {now - started:.0f} s")
            self.clock.advance(self._until_next_due())

    def _do_what_is_due(self, until: float) -> bool:
        """Do everything that is due, unless the work itself takes until then; False if more is due."""
        while self.step():
            if self.clock.monotonic() > until:
                return False
        return True

    def _has_pending_work(self) -> bool:
        """Whether a program is down, a write hangs, plugins or kubelets have work left, or no controller leads."""
        now = self.clock.monotonic()
        if any(self.late) or any(slot.program is None or slot.not_before > now for slot in self.slots.values()):
            return True
        if any(found.device_status.next_due() is not None for node in self.nodes if (found := self.plugin(node))):
            return True
        kubelets = [kubelet for node in self.nodes if (kubelet := self.kubelet(node))]
        leaderless = self._controllers and not any(controller.leads for controller in self.controllers())
        return bool(leaderless) or any(kubelet.is_busy() for kubelet in kubelets)

    def _next_due(self) -> float | None:
        times = [self.slots.next_due(), *(write.at for write in self.late)]
        return min((due for due in times if due is not None), default=None)

    def _until_next_due(self) -> float:
        """Seconds until something is due, or a little longer: timers need not fire one by one."""
        due = self._next_due()
        left = 0.0 if due is None else due - self.clock.monotonic()
        return max(left, min(LONGEST_ADVANCE_SECONDS, self.settings.controller.lease_seconds / 5))
