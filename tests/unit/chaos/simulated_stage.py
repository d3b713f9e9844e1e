"""A simulated cluster as the stage of a run: hours of its time pass in seconds."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from driver.kube.api import (
    NAMESPACES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    AlreadyExists,
    NotFound,
    Object,
)
from driver.settings import ControllerSettings, Settings
from kubeletplugin.prepare.storage import plugin_directory
from memoryapi.store import Backup
from tests.chaos.injecting import NotDone
from tests.chaos.schedule import Fault, Kind
from tests.chaos.workload import CHAOS, LABEL, TEMPLATES, Flavour, Workload, templates
from tests.chaos.world import Reading
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.restores import restore
from tests.system.history import cards
from tests.system.objects import device_classes
from tests.unit.chaos.simulated_reading import reading_of

FLAVOURS: Final = (
    Flavour.WHOLE,
    Flavour.PAIR,
    Flavour.SHARE,
    Flavour.MIG,
    Flavour.NPU,
    Flavour.VNPU,
    Flavour.GANG,
)
"""What its nodes have."""
_NODES: Final = {"n0": cards("h100x8", 4), "n1": cards("ascend310px4", 2)}
_FABRIC: Final = {"lode.dev/ib-cluster": "ib-a"}


class SimulatedStage:
    """Implements ``Stage``, and the clock of the run, which lets the cluster do what is due.

    Args:
        defect: what is read after the first fault, of what there is.
    """

    def __init__(self, seed: int, defect: Callable[[Reading], Reading] = lambda it: it):
        self.settings = Settings(controller=ControllerSettings(lease_seconds=10))
        *made, any_card = templates()
        self.cluster = SimulatedCluster(
            seed,
            dict(_NODES),
            classes=[*device_classes(), any_card],
            settings=self.settings,
            labels=dict.fromkeys(_NODES, _FABRIC),
        )
        self._user, self._defect, self._broken = self.cluster.user, defect, False
        self._user.create(NAMESPACES, {"metadata": {"name": CHAOS}})
        for template, flavour in zip(made, TEMPLATES, strict=True):
            if flavour in FLAVOURS:
                self._user.create(RESOURCE_CLAIM_TEMPLATES, template, CHAOS)
        self._backup: Backup | None = None
        self.cluster.settle()

    def workload(self, seed: int) -> Workload:
        """Pods that its nodes can have."""
        return Workload(seed, FLAVOURS)

    def now(self) -> float:
        """See ``Clock``."""
        return self.cluster.clock.now()

    def monotonic(self) -> float:
        """See ``Clock``."""
        return self.cluster.clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """See ``Clock``; the cluster goes on meanwhile."""
        self.cluster.advance(seconds)

    def pods(self) -> Sequence[Object]:
        """See ``Stage``."""
        return [pod for pod in self.cluster.invariants.pods() if LABEL in (pod["metadata"].get("labels") or {})]

    def make(self, namespace: str, objects: Sequence[Object]) -> None:
        """See ``Stage``."""
        for obj in objects:
            kind = PODS if obj["kind"] == "Pod" else RESOURCE_CLAIM_TEMPLATES
            with suppress(AlreadyExists):
                self._user.create(kind, obj, namespace)

    def end(self, namespace: str, pods: Sequence[str]) -> None:
        """See ``Stage``."""
        for name in pods:
            with suppress(NotFound):
                self._user.delete(PODS, name, namespace)

    def tend(self) -> None:
        """See ``Stage``; there is nothing to do."""

    def read(self) -> Reading:
        """See ``Stage``."""
        reading = reading_of(self.cluster)
        return self._defect(reading) if self._broken else reading

    def violations(self, _reading: Reading) -> Sequence[str]:
        """See ``Stage``; the cluster itself raises what is wrong after any event."""
        return ()

    def snapshot(self) -> None:
        """See ``Stage``."""
        self._backup = self.cluster.api.backup()

    def start(self, fault: Fault) -> "Future[None]":
        """See ``Stage``; the fault is done when it returns."""
        done: Future[None] = Future()
        try:
            self._do(fault)
            self._broken = True
        except NotDone as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    def _do(self, fault: Fault) -> None:
        node = f"n{fault.worker % len(_NODES)}"
        programs: Mapping[Kind, str] = {
            Kind.CONTROLLER: "controller-0",
            Kind.PLUGIN: f"plugin-{node}",
            Kind.KUBELET: f"kubelet-{node}",
            Kind.SCHEDULER: "kube-scheduler",
        }
        match fault.kind:
            case Kind.NODE:
                self.cluster.reboot(node)
            case Kind.DISK:
                disk = self.cluster.nodes[node].files.disk
                disk.full = plugin_directory(self.settings)
                self.cluster.advance(fault.seconds)
                disk.full = ""
            case Kind.RESTORE if self._backup:
                restore(self.cluster, self._backup, bump=0)
            case kind if kind in programs:
                self.cluster.slots.kill(programs[kind], 2.0)
            case _:
                raise NotDone("the simulation has no such program")
