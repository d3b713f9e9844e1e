"""Claims prepared one after another by each plugin in turn, and the memory that the plugins have then."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.controlplane import NAMESPACE, concurrently
from benchmarks.prepare.drivers import CARDS, Plugin
from benchmarks.processes import cpu_seconds, resident
from driver.kube.api import RESOURCE_CLAIMS, Api
from driver.wire import Json
from simulation.kubernetes.dra_plugin import ClaimName, ClaimResponse


@dataclass
class Figures:
    """What one plugin did. Times in seconds, memory in MiB, as the kernel counts it (VmHWM, VmRSS).

    Attributes:
        processor: seconds of CPU, of all calls together.
    """

    prepare: list[float] = field(default_factory=list)
    unprepare: list[float] = field(default_factory=list)
    peak: float = 0.0
    resident: float = 0.0
    processor: float = 0.0


def claims(api: Api, plugin: Plugin, count: int) -> list[ClaimName]:
    """Allocated claims of this driver: each has one whole card, in turn."""
    raws = [_claim(plugin, number) for number in range(count)]
    concurrently(lambda raw: _allocated(api, raw), raws)
    made = {raw["metadata"]["name"]: raw for raw in api.list(RESOURCE_CLAIMS, namespace=NAMESPACE, limit=0).items}
    return [ClaimName(NAMESPACE, raw["metadata"]["name"], _uid(made, raw)) for raw in raws]


def _uid(made: Mapping[str, Json], raw: Json) -> str:
    return str(made[raw["metadata"]["name"]]["metadata"]["uid"])


def _claim(plugin: Plugin, number: int) -> Json:
    pool, device = plugin.devices[number % CARDS]
    result = {"request": "card", "driver": plugin.driver, "pool": pool, "device": device}
    return {
        "metadata": {"name": f"{plugin.driver.replace('.', '-')}-{number:05}", "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [{"name": "card", "exactly": {"deviceClassName": "card"}}]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def _allocated(api: Api, raw: Json) -> None:
    created = api.create(RESOURCE_CLAIMS, {key: raw[key] for key in ("metadata", "spec")}, NAMESPACE)
    api.update(RESOURCE_CLAIMS, {**created, "status": raw["status"]}, "status")


def measure(plugins: Sequence[Plugin], wanted: Mapping[str, Sequence[ClaimName]]) -> dict[str, Figures]:
    """Have each claim prepared; ``wanted`` and the result are by the plugin's name.

    The plugins take turns claim by claim, so that what else happens on the machine hits both. Every card is in use: a
    claim is unprepared when the next one needs its card.

    Raises:
        RuntimeError: a plugin refused a claim.
    """
    figures = {plugin.name: Figures(processor=-cpu_seconds(plugin.pid)) for plugin in plugins}
    held: dict[str, deque[ClaimName]] = {plugin.name: deque() for plugin in plugins}
    for number, turn in enumerate(zip(*(wanted[plugin.name] for plugin in plugins), strict=True)):
        pairs = list(zip(plugins, turn, strict=True))
        for plugin, claim in pairs if number % 2 else reversed(pairs):
            mine = held[plugin.name]
            if len(mine) == CARDS:
                figures[plugin.name].unprepare.append(_timed(plugin.kubelet.unprepare, mine.popleft()))
            figures[plugin.name].prepare.append(_timed(plugin.kubelet.prepare, claim))
            mine.append(claim)
    for plugin in plugins:
        used = resident(plugin.pid)
        figures[plugin.name].processor += cpu_seconds(plugin.pid)
        figures[plugin.name].peak, figures[plugin.name].resident = used["VmHWM"], used["VmRSS"]
    return figures


def _timed(call: Callable[[Sequence[ClaimName]], Mapping[str, ClaimResponse]], claim: ClaimName) -> float:
    started = time.perf_counter()
    answer = call([claim])[claim.uid]
    seconds = time.perf_counter() - started
    if answer.error:
        raise RuntimeError(f"{claim.namespace}/{claim.name}: {answer.error}")
    return seconds
