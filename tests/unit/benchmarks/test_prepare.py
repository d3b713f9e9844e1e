"""The verdict in the table of prepare calls, and how the calls are made."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from benchmarks.prepare import table
from benchmarks.prepare.drivers import CARDS, OURS, PEER, Plugin
from benchmarks.prepare.measure import Figures, measure
from simulation.kubernetes.dra_plugin import ClaimName, ClaimResponse
from simulation.kubernetes.plugin_client import PluginClient


def figures(median: float, peak: float = 50.0, unprepare: float = 0.001) -> Figures:
    return Figures(prepare=[median / 2, median, 100 * median], unprepare=[unprepare], peak=peak, resident=peak)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        (figures(0.004), figures(0.004), "met"),
        (figures(0.004, peak=64.0), figures(0.005, peak=80.0), "met"),
        (figures(0.005), figures(0.004), "missed: 1.25 of 1.0 times the peer's time"),
        (figures(0.004, peak=64.1), figures(0.004), "missed: 64.1 of 64 MiB"),
        (figures(0.008, peak=70.0), figures(0.004), "missed: 2.00 of 1.0 times the peer's time, 70.0 of 64 MiB"),
        (figures(0.004, unprepare=0.0014), figures(0.004), "met"),
        (figures(0.004, unprepare=0.0016), figures(0.004), "missed: unprepare 1.60 of 1.5 times"),
        (figures(0.004), None, "met"),
    ],
)
def test_all_bars_are_judged(ours: Figures, theirs: Figures | None, verdict: str) -> None:
    results = {OURS: ours, **({PEER: theirs} if theirs else {})}
    assert table.verdict(results) == verdict
    assert verdict in table.figures(results)


class Recorded(PluginClient):
    """Answers every call, and records it."""

    def __init__(self, calls: list[tuple[str, str, str]], plugin: str, error: str = "") -> None:
        self.calls, self.plugin, self.error = calls, plugin, error

    def prepare(self, claims: Sequence[ClaimName]) -> Mapping[str, ClaimResponse]:
        return self._answer("prepare", claims)

    def unprepare(self, claims: Sequence[ClaimName]) -> Mapping[str, ClaimResponse]:
        return self._answer("unprepare", claims)

    def _answer(self, call: str, claims: Sequence[ClaimName]) -> Mapping[str, ClaimResponse]:
        self.calls += [(self.plugin, call, claim.uid) for claim in claims]
        return {claim.uid: ClaimResponse(self.error) for claim in claims}


def scene(calls: list[tuple[str, str, str]]) -> tuple[list[Plugin], dict[str, list[ClaimName]]]:
    pid = os.getpid()
    plugins = [Plugin(name, "d", pid, Recorded(calls, name), [("pool", "gpu-0")]) for name in (OURS, PEER)]
    count = CARDS + 3
    return plugins, {name: [ClaimName("bench", f"c{n}", str(n)) for n in range(count)] for name in (OURS, PEER)}


def test_the_plugins_take_turns_and_every_card_is_in_use() -> None:
    calls: list[tuple[str, str, str]] = []
    plugins, wanted = scene(calls)
    results = measure(plugins, wanted)
    for name in (OURS, PEER):
        held: list[str] = []
        for plugin, call, uid in calls:
            if plugin == name:
                held.append(uid) if call == "prepare" else held.remove(uid)
            assert len(held) <= CARDS
        assert held == [str(n) for n in range(3, CARDS + 3)]
        assert (len(results[name].prepare), len(results[name].unprepare)) == (CARDS + 3, 3)
        assert results[name].peak >= results[name].resident > 0
    firsts = [plugin for plugin, call, _ in calls if call == "prepare"][::2]
    assert firsts == [(PEER, OURS)[number % 2] for number in range(CARDS + 3)]


def test_a_refused_claim_ends_the_run() -> None:
    plugins, wanted = scene([])
    refusing = replace(plugins[0], kubelet=Recorded([], OURS, error="no such device"))
    with pytest.raises(RuntimeError, match="bench/c0: no such device"):
        measure([refusing, plugins[1]], wanted)
