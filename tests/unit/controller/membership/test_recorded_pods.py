"""Pods exactly as the controllers of other projects make them are gangs of ours, with the right members and ranks."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.allocation import Fleet
from controller.gangs import Level
from controller.membership import GangTerms
from controller.state import GANG_RESOURCES, DecisionSettings, State
from driver.kube.api import PODS, RESOURCE_CLAIMS, Object, Resource
from driver.names import Names
from tests.unit.controller.filled_state import claim, placement_config

RECORDED = sorted((Path(__file__).parents[3] / "data" / "gangs").glob("*.yaml"))
KINDS = {(kind.api_version, kind.kind): kind for kind in (PODS, *GANG_RESOURCES)}


def tiers_of(recorded: Any) -> dict[str, Level]:
    return {name: Level(tier["attribute"], "attribute") for name, tier in recorded.get("volcanoTiers", {}).items()}


def objects_of(recorded: Any) -> list[tuple[Resource, Object]]:
    """The recorded objects, and for each pod the claim that it names."""
    config = recorded["placementConfig"]
    objects = []
    for obj in recorded["objects"]:
        kind = KINDS[obj["apiVersion"], obj["kind"]]
        objects.append((kind, obj))
        for made in obj.get("status", {}).get("resourceClaimStatuses", ()):
            name, pod = made["resourceClaimName"], obj["metadata"]
            asked = claim(name, owner=pod["name"], **(placement_config(**config) if config else {}))
            asked["metadata"] |= {"namespace": pod["namespace"], "uid": f"uid-{name}"}
            objects.append((RESOURCE_CLAIMS, asked))
    return objects


def state_of(recorded: Any, *, reverse: bool) -> State:
    state = State(Fleet(), Names(), DecisionSettings(tiers_of(recorded)))
    objects = objects_of(recorded)
    for version, (kind, obj) in enumerate(reversed(objects) if reverse else objects, 1):
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}
        assert state.put(kind, stored).unreadable == []
    return state


def level_text(level: Level) -> str:
    return f"{'required' if level.required else 'preferred'} {level.kind} {level.key}"


@pytest.mark.parametrize("reverse", [False, True], ids=["in order", "in reverse order"])
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_pods_of_a_controller_are_a_gang(path: Path, reverse: bool) -> None:
    recorded = yaml.safe_load(path.read_text())
    gangs = state_of(recorded, reverse=reverse).gangs
    assert sorted(gangs) == sorted(expected["gang"] for expected in recorded["expected"])
    for expected in recorded["expected"]:
        gang = expected["gang"]
        terms = gangs.terms(gang)
        assert isinstance(terms, GangTerms), terms
        assert (terms.source.name, terms.minimum, terms.size) == (
            expected["source"],
            expected["minimum"],
            expected["size"],
        )
        assert {key.removeprefix("default/"): gangs.rank(key) for key in gangs.members(gang)} == expected["ranks"]
        assert [level_text(level) for level in terms.levels] == expected["levels"]
        leaders = [key for key in gangs.members(gang) if gangs.leads(key)]
        assert leaders == ([f"default/{expected['leader']}"] if "leader" in expected else [])


def test_there_are_pods_of_every_controller() -> None:
    projects = {yaml.safe_load(path.read_text())["source"]["project"] for path in RECORDED}
    sigs = {f"kubernetes-sigs/{name}" for name in ("jobset", "lws", "kueue")}
    assert projects == {*sigs, "volcano-sh/volcano", "Ascend/mind-cluster"}
