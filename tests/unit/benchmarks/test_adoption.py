"""The scenario of adopted pods, what the client counts, and the verdicts."""

from dataclasses import replace
from typing import Literal

from benchmarks.adoption.__main__ import table, verdict
from benchmarks.adoption.measure import Outcome, Seen
from benchmarks.adoption.scenario import NAMES, NAMESPACES, Scenario
from driver.adoption import is_on_demand, template_spec
from driver.kube.api import Object, WatchEvent
from driver.names import Names

GOOD = Outcome(
    wanted=1000,
    latencies=[0.5] * 1000,
    seconds=60.0,
    made=40,
    removed=40,
    most=20,
    longest_unused=31.0,
    left=0,
)


def event(kind: Literal["ADDED", "MODIFIED", "DELETED"], name: str, **spec: object) -> WatchEvent:
    entries = [{"name": "card", "resourceClaimTemplateName": NAMES[0]}]
    obj: Object = {"metadata": {"namespace": "team-0", "name": name}, "spec": {"resourceClaims": entries, **spec}}
    return WatchEvent(kind, obj)


def test_pods_come_at_an_even_pace_in_all_namespaces_and_name_other_templates_each_minute() -> None:
    arrivals = list(Scenario(minutes=2, per_minute=600).arrivals())
    assert len(arrivals) == 1200
    assert arrivals[-1].seconds < 120
    assert {one.namespace for one in arrivals} == set(NAMESPACES)
    first = {one.template for one in arrivals[:600] if one.namespace == "team-0"}
    second = {one.template for one in arrivals[600:] if one.namespace == "team-0"}
    assert (len(first), len(second)) == (2, 2)
    assert not first & second


def test_every_name_means_something() -> None:
    assert all(is_on_demand(name) and template_spec(name, Names()) for name in NAMES)


def test_a_template_is_unused_from_the_end_of_its_last_pod() -> None:
    seen = Seen()
    seen.template(event("ADDED", NAMES[0]), 0.0)
    for pod in ("a", "b"):
        seen.pod(event("ADDED", pod), 1.0)
        seen.pod(event("MODIFIED", pod, nodeName="n1"), 2.0)
    seen.pod(event("DELETED", "a"), 3.0)
    seen.pod(event("DELETED", "b"), 10.0)
    seen.template(event("DELETED", NAMES[0]), 41.0)
    assert (seen.made, seen.removed, seen.most, seen.longest_unused) == (1, 1, 1, 31.0)
    assert seen.bound == {"team-0/a": 2.0, "team-0/b": 2.0}


def test_the_verdict_says_what_was_missed() -> None:
    scenario = Scenario()
    assert verdict(scenario, GOOD) == "met"
    assert "not bound" in verdict(scenario, replace(GOOD, latencies=[0.5] * 999))
    assert "left" in verdict(scenario, replace(GOOD, left=1))
    assert "kept" in verdict(scenario, replace(GOOD, longest_unused=100.0))
    assert "slow" in verdict(scenario, replace(GOOD, seconds=120.0))
    assert "1000" in table(scenario, GOOD)
