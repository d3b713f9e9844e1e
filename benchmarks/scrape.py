"""Time and size of a scrape of the controller at 5,000 nodes with 40,000 cards, and what it costs decisions.

    make bench-scrape                                 # some minutes

All cards are held: by gangs, by single pods and, one node in ten, by two shares each. Scrapes go over HTTP. They are
measured first while nothing has to be decided, in seconds of CPU of the whole program, which are those of the clock
where nobody else uses the machine. Then a thread decides all the time as the controller does, on the same interpreter.
"""

import gc
import sys
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.allocation.table import lines
from benchmarks.fleet import models, node, node_name, slices
from controller.__main__ import COLLECTION_THRESHOLDS
from controller.allocation import Fleet
from controller.census import Detail, FleetCopies, Snapshot, exposition
from controller.fleetseries import FleetSeries
from controller.state import Changes, State
from driver.clock import SystemClock
from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object, Resource
from driver.kube.objects import object_key
from driver.kube.reflector import Synced
from driver.names import DEFAULT_DRIVER, Names
from driver.observe import METRICS, Metrics, ObserveServer
from driver.wire import claim_from

FLEET = 5_000
"""Nodes with eight cards each."""
WAITING = 2_000
"""Pods that wait."""
SECONDS = 1.0
MEBIBYTES = 20
"""The bars, for every level but the one that also has each claim, of which the size as it is sent counts."""
SCRAPES = 3
_DECIDED_SECONDS = 5.0
_NAMES = Names()
_STAMP = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Scrape:
    """What the scrapes of one level cost.

    Attributes:
        first, later: seconds of CPU; later ones are the slowest of several.
        text, sent: bytes of the answer, and as they are sent to those who accept gzip.
        copied: seconds of CPU of the thread that decides, the most for one scrape.
        decision: the 99th percentile of ten decisions meanwhile, in seconds.
        longest: of these.
    """

    detail: Detail
    lines: int
    first: float
    later: float
    text: int
    sent: int
    copied: float
    decision: float
    longest: float


class World:
    """The state of a controller of so many nodes."""

    def __init__(self, nodes: int):
        self.fleet = Fleet(names=_NAMES)
        self.state = State(self.fleet, _NAMES)
        self._version = 0
        self._keys: dict[Resource, list[str]] = {}
        for number in range(nodes):
            self._put(NODES, node(number))
        selector = {"cel": {"expression": f'device.driver == "{DEFAULT_DRIVER}"'}}
        self._put(DEVICE_CLASSES, {"metadata": {"name": "cards"}, "spec": {"selectors": [selector]}})
        for part in slices(models(nodes), ("whole", "share")):
            self._put(RESOURCE_SLICES, part)
        for number in range(nodes):
            for resource, obj in _work(number):
                self._put(resource, obj)
        for resource in self.state.resources:
            self.state.apply(Synced(resource, frozenset(self._keys.get(resource, ())), str(self._version)))
        self.view = FleetCopies(self.state, shown=True)
        self.view.follow(Changes(), now=0)
        self.fleet.index()

    def _put(self, resource: Resource, obj: Object) -> None:
        self._version += 1
        obj["metadata"] = {"uid": f"uid-{self._version}", **obj["metadata"], "resourceVersion": str(self._version)}
        self.state.put(resource, obj)
        self._keys.setdefault(resource, []).append(object_key(obj))


def _waiting() -> Iterator[tuple[str, str, float]]:
    """The pods that wait."""
    return ((f"team-{number % 40}/waits-{number}", "Unallocatable", 0.0) for number in range(WAITING))


def _work(number: int) -> Iterator[tuple[Resource, Object]]:
    """Claims and pods that hold all cards of a node."""
    kind, name, team = number % 10, node_name(number), f"team-{number % 40}"
    if kind < 6:
        held = [[(f"gpu-{card}", "") for card in range(8)]]
    elif kind < 9:
        held = [[(f"gpu-{card}", "")] for card in range(8)]
    else:
        held = [[(f"gpu-{card}-share", f"{card}-{part}")] for card in range(8) for part in range(2)]
    for place, devices in enumerate(held):
        pod = f"job-{number // 16}-worker-{number % 16}-{place}"
        uid = f"pod-{number}-{place}"
        yield RESOURCE_CLAIMS, _claim(team, f"{pod}-cards-x7k2p", name, devices, (pod, uid))
        labels = {"lode.dev/gang": f"job-{number // 16}"} if kind < 6 else {}
        spec = {"nodeName": name, "resourceClaims": [{"name": "cards", "resourceClaimName": f"{pod}-cards-x7k2p"}]}
        metadata = {"name": pod, "namespace": team, "uid": uid, "labels": labels, "creationTimestamp": _STAMP}
        yield PODS, {"metadata": metadata, "spec": {**spec, "containers": []}, "status": {"phase": "Running"}}


def _claim(namespace: str, name: str, on: str, devices: Sequence[tuple[str, str]], pod: tuple[str, str]) -> Object:
    place = {"request": "cards", "driver": DEFAULT_DRIVER, "pool": _NAMES.pool(on)}
    share = {"consumedCapacity": {"memory": "16Gi", "cores": "50", "slots": "1"}}
    results = [
        {**place, "device": device, **({"shareID": share_id, **share} if share_id else {})}
        for device, share_id in devices
    ]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}]
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}}
    exactly = {"deviceClassName": "cards", "count": len(devices)}
    return {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": _STAMP},
        "spec": {"devices": {"requests": [{"name": "cards", "exactly": exactly}]}},
        "status": {
            "allocation": allocation,
            "reservedFor": [{"resource": "pods", "name": pod[0], "uid": pod[1]}],
        },
    }


class _Deciding:
    """The thread that decides, all the time if it is busy: whether a node takes a claim."""

    def __init__(self, world: World, *, busy: bool):
        self._busy = busy
        self._fleet = world.fleet
        self._claim = claim_from(_pending())
        self._stop = threading.Event()
        self._questions: list[Callable[[], None]] = []
        self.times: list[float] = []
        self.copied = 0.0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "_Deciding":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def ask(self, world: World) -> Snapshot:
        """The copy of the fleet, from this thread between two decisions."""
        done, found = threading.Event(), list[Snapshot]()

        def reply() -> None:
            began = time.thread_time()
            found.append(world.view.snapshot(_waiting(), time.monotonic()))
            self.copied = max(self.copied, time.thread_time() - began)
            done.set()

        self._questions.append(reply)
        done.wait()
        return found[0]

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            began = time.perf_counter()
            for _ in range(10 if self._busy else 0):
                number = (number + 1) % FLEET
                self._fleet.allocate(node_name(number), {}, [self._claim])
            self.times.append(time.perf_counter() - began)
            time.sleep(0 if self._busy else 0.001)
            while self._questions:
                self._questions.pop()()


def _pending() -> Object:
    claim = _claim("team-0", "waits", "", [("gpu-0", "")], ("", ""))
    return {"metadata": {**claim["metadata"], "uid": "waits"}, "spec": claim["spec"]}


def measure(world: World, detail: Detail) -> Scrape:
    """Scrape a few times while nothing is decided, and as often while another thread decides."""
    with _Deciding(world, busy=False) as idle:
        took, sent = _scrapes(world, idle, detail)
    with _Deciding(world, busy=True) as busy:
        _scrapes(world, busy, detail)
    text = zlib.decompress(sent, wbits=31) if sent[:2] == b"\x1f\x8b" else sent
    times = sorted(busy.times)
    return Scrape(
        detail=detail,
        lines=text.count(b"\n"),
        first=took[0],
        later=max(took[1:]),
        text=len(text),
        sent=len(sent),
        copied=idle.copied,
        decision=times[len(times) * 99 // 100],
        longest=times[-1],
    )


def _scrapes(world: World, deciding: _Deciding, detail: Detail) -> tuple[Sequence[float], bytes]:
    """The seconds of CPU of each scrape, and the last answer."""
    metrics, clock = Metrics(), _Impatient()
    series = FleetSeries(lambda: deciding.ask(world), {METRICS: partial(exposition, detail)}, _NAMES, clock)
    metrics.further[METRICS] = partial(series.text, METRICS)
    server = ObserveServer("127.0.0.1:0", metrics, {})
    try:
        took, sent = [], b""
        for _ in range(1 + SCRAPES):
            clock.forget()
            began = time.process_time()
            sent = _get(server.port)
            took.append(time.process_time() - began)
    finally:
        server.close()
    return took, sent


class _Impatient(SystemClock):
    """A clock on which every answer is out of date."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def forget(self) -> None:
        """Let hours pass."""
        self._ahead += 1e4

    def monotonic(self) -> float:
        """See ``Clock``."""
        return super().monotonic() + self._ahead


def _get(port: int) -> bytes:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(asked, timeout=120) as answer:
        return bytes(answer.read())


def alone(world: World) -> tuple[float, float]:
    """The 99th percentile of decisions without scrapes, and the longest."""
    with _Deciding(world, busy=True) as deciding:
        time.sleep(_DECIDED_SECONDS)
    times = sorted(deciding.times)
    return times[len(times) * 99 // 100], times[-1]


def verdict(one: Scrape) -> str:
    """``met``, or which bar is not."""
    size = one.sent if one.detail is Detail.CLAIMS else one.text
    missed = [f"{one.later:.1f} s"] if one.later > SECONDS else []
    missed += [f"{size / 2**20:.0f} MiB"] if size > MEBIBYTES * 2**20 else []
    return f"missed: {', '.join(missed)}" if missed else "met"


def main() -> int:
    """Measure and print the table; the status is 1 if a bar is missed."""
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    world = World(FLEET)
    gc.collect()
    gc.freeze()
    decision, longest = alone(world)
    made = [measure(world, detail) for detail in (Detail.TOTALS, Detail.CARDS, Detail.CLAIMS)]
    header = ["fleetMetrics", "lines", "first, s", "later, s", "text, MiB", "sent, MiB", "copy, ms"]
    header += ["ten decisions, p99, ms", "longest, ms", "bar"]
    rows = [["none", "", "", "", "", "", "", f"{1000 * decision:.1f}", f"{1000 * longest:.1f}", ""]]
    for one in made:
        cells = [one.detail.name.lower(), f"{one.lines:,}", f"{one.first:.2f}", f"{one.later:.2f}"]
        cells += [f"{one.text / 2**20:.1f}", f"{one.sent / 2**20:.1f}", f"{1000 * one.copied:.1f}"]
        rows.append([*cells, f"{1000 * one.decision:.1f}", f"{1000 * one.longest:.1f}", verdict(one)])
    print(lines(header, rows))
    return int(any(verdict(one) != "met" for one in made))


if __name__ == "__main__":
    sys.exit(main())
