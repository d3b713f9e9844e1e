"""The objects of the backlog, how writes are counted, and the verdicts in the table."""

import json
from collections import Counter
from collections.abc import Sequence
from math import inf
from pathlib import Path

import pytest

from benchmarks import fleet
from benchmarks.allocation.hardware import CARDS, MODELS
from benchmarks.backlog import flood, scenario, table
from benchmarks.backlog.audit import AuditLog
from benchmarks.backlog.measure import Backlog
from benchmarks.versions import CURRENT
from driver.model import DeviceId
from driver.names import DEFAULT_DRIVER, Names
from driver.wire import claim_from
from simulation.invariants import Catalogue, Holding

FREED = 12
CARDS_OF_NODES = [*MODELS, *MODELS]


def allocated() -> list[Holding]:
    holdings = []
    for holder in scenario.holders(CARDS_OF_NODES, FREED):
        raw = {**scenario.holder_claim(holder), "status": scenario.holder_status(holder, "uid")}
        allocation = claim_from({**raw, "metadata": {**raw["metadata"], "uid": holder.name}}).allocation
        assert allocation
        holdings += [Holding(holder.name, result) for result in allocation.results]
    return holdings


def test_every_card_is_held_once_but_those_of_the_free_model() -> None:
    catalogue = Catalogue(Names())
    for raw in fleet.slices(CARDS_OF_NODES):
        catalogue.learn(raw)
    held = allocated()
    assert list(catalogue.conflicts(held)) == []
    free = {device for device in catalogue.devices if device not in {holding.result.device for holding in held}}
    nodes = [number for number, model in enumerate(CARDS_OF_NODES) if model.type == scenario.FREE_MODEL]
    pools = [Names().pool(fleet.node_name(number)) for number in nodes]
    assert free == {DeviceId(DEFAULT_DRIVER, pool, f"gpu-{index}") for pool in pools for index in range(CARDS)}


def test_the_cards_to_free_are_of_the_model_that_pods_wait_for_and_held_one_by_one() -> None:
    first = list(scenario.holders(CARDS_OF_NODES, FREED))[:FREED]
    assert {(holder.model, len(holder.devices)) for holder in first} == {(scenario.FREED_MODEL, 1)}
    assert len({holder.device for holder in first}) == FREED
    waited_for = [scenario.waiting_claim(number)["spec"]["devices"]["requests"][0] for number in range(7)]
    assert fleet.card_request(scenario.FREED_MODEL, gibibytes=40) in waited_for


def test_waiting_pods_have_the_gate_and_fitting_pods_get_it_by_admission() -> None:
    assert all(scenario.is_gated(scenario.waiting_pod(number)) for number in range(10))
    assert not scenario.is_gated(scenario.fitting_pod("early-0"))


def audited(verb: str, **target: str) -> str:
    return json.dumps({"verb": verb, "objectRef": target}) + "\n"


def test_writes_are_counted_as_the_audit_log_grows(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    assert log.writes() == Counter()
    (path,) = [flag.partition("=")[2] for flag in log.flags if flag.startswith("--audit-log-path")]
    gate = audited("patch", resource="pods")
    with Path(path).open("w") as file:
        file.write(gate + audited("patch", resource="pods", subresource="status") + gate[:10])
        file.flush()
        assert log.writes() == Counter({"patch pods": 1, "patch pods/status": 1})
        file.write(gate[10:])
        file.flush()
        assert log.writes() == Counter({"patch pods": 2, "patch pods/status": 1})


def backlog(
    *, fits: Sequence[float] = (0.1, 0.1), core: float = 0.001, writes: int = 0, freed: Sequence[float] = (0.1,)
) -> Backlog:
    return Backlog(ready=2, early=fits, told=30, core=core, api_core=0.01, writes=writes, late=fits, freed=freed)


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (backlog(), 0),
        (backlog(fits=[0.1] * 19 + [9]), 0),
        (backlog(fits=[0.1] * 18 + [9, 9]), 2),
        (backlog(fits=[0.1, inf]), 2),
        (backlog(fits=[]), 2),
        (backlog(core=0.006), 1),
        (backlog(writes=1), 1),
        (backlog(freed=[0.1, 0.3]), 1),
    ],
)
def test_the_bars(found: Backlog, missed: int) -> None:
    verdicts = Counter(table.verdict(row, found) for row in table.ROWS)
    assert (verdicts["missed"], verdicts["met"]) == (missed, 5 - missed)


def test_what_did_not_happen_is_written_as_more_than_the_limit() -> None:
    written = table.backlogs({"earlier": backlog(fits=[inf]), CURRENT.name: backlog()}, limit=180)
    assert "> 180" in written
    assert "missed" not in written


def test_the_flood_has_a_shape_of_its_own_for_each_pod_and_gangs_that_never_are_complete() -> None:
    claims = [flood.claim(number) for number in range(40)]
    assert len({json.dumps(raw["spec"]["devices"]["requests"]) for raw in claims}) == len(claims)
    gangs = Counter(
        entry["opaque"]["parameters"]["gang"]["name"]
        for raw in claims
        for entry in raw["spec"]["devices"].get("config", ())
    )
    assert set(gangs.values()) == {flood.MEMBERS}
    assert len(gangs) == len(claims) // flood.GANG_EVERY
    assert flood.MEMBERS < flood.MINIMUM
    assert all(scenario.is_gated(flood.pod(number)) for number in range(10))


def test_the_flood_is_in_a_namespace_of_its_own() -> None:
    objects = [flood.claim(0), flood.pod(0)]
    assert {raw["metadata"]["namespace"] for raw in objects} == {flood.NAMESPACE}
    assert scenario.fitting_pod("fits")["metadata"]["namespace"] != flood.NAMESPACE


LONGEST_EXPRESSION = 10 * 1024
MOST_SELECTORS = 32
MOST_ROUNDS = 108_000


def test_kube_apiserver_takes_the_selectors_of_the_flood() -> None:
    for number in range(10):
        [request] = flood.claim(number)["spec"]["devices"]["requests"]
        selectors = [entry["cel"]["expression"] for entry in request["exactly"]["selectors"]]
        assert len(selectors) <= MOST_SELECTORS
        assert max(map(len, selectors)) <= LONGEST_EXPRESSION
        assert flood.rounds(number) ** 2 <= MOST_ROUNDS


@pytest.mark.parametrize(
    ("fits", "verdict"),
    [([0.1] * 20, "met"), ([0.1] * 19 + [9], "met"), ([0.1] * 18 + [9, 9], "missed"), ([], "missed")],
)
def test_the_bar_of_the_flood(fits: Sequence[float], verdict: str) -> None:
    written = table.flooded(flood.Flood(fits, 0.9), limit=180)
    assert {word for word in ("met", "missed") if word in written} == {verdict}
