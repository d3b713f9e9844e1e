"""Whatever others write into objects, the document shows all the others, and any program can read it."""

import json
from typing import Any

import pytest

from cli.ui.following import FOLLOWED, FollowedFleet
from cli.ui.publishing import packed_document
from driver.kube.api import Object, Resource
from driver.kube.reflector import Upserted
from tests.unit.cli.cluster import claim, node, pod, slices, stored
from tests.unit.cli.fleetview.views import held
from tests.unit.cli.ui.fleets import KINDS, NAMES
from tests.unit.cli.ui.test_document import rows
from tests.unit.controller.state.read_objects import IDENTITY, OBJECTS
from tests.unit.odd_values import all_odd

KEPT = {("metadata",), *(("metadata", name) for name in (*IDENTITY, "resourceVersion"))}
SHOWN = [(resource, obj) for resource, obj in OBJECTS if resource in FOLLOWED]
GATE = [{"name": "lode.dev/allocation"}]
MOST_BYTES = 1 << 20
"""Of a document of a small fleet, however long the texts of others are."""


def good() -> list[Object]:
    waits = [stored(claim("wanted")), stored(pod("waits", "wanted", schedulingGates=GATE))]
    return [*slices("good", "t4x2", ("whole",)), stored(node("good")), held("c", "good/gpu-0", "p"), *waits]


def document(fleet: FollowedFleet) -> Any:
    text = packed_document(fleet.contents(), "lode.dev", 1.0).text
    assert len(text) < MOST_BYTES

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def followed() -> FollowedFleet:
    fleet = FollowedFleet(NAMES)
    for obj in good():
        fleet.take(Upserted(KINDS[obj["kind"]], obj))
    return fleet


@pytest.mark.parametrize(("resource", "obj"), SHOWN, ids=[f"{at}-{one.plural}" for at, (one, _) in enumerate(SHOWN)])
def test_odd_objects_hide_no_other(resource: Resource, obj: Object) -> None:
    fleet, made = followed(), 0
    for made, (_, odd) in enumerate(all_odd(obj, KEPT), start=1):
        metadata = {**odd["metadata"], "name": f"odd-{made}", "uid": f"odd-{made}", "resourceVersion": str(made)}
        fleet.take(Upserted(resource, {**odd, "metadata": metadata}))
    assert made > 40
    found = document(fleet)
    cards = [one for one in rows(found, "nodes") if one["name"] == "good"]
    assert cards == [{"name": "good", "cards": 2, "ready": 1, "open": 1}]
    assert {"c", "wanted"} <= set(found["claims"]["name"])
    assert "waits" in found["pods"]["name"]


def test_many_odd_objects_are_counted_and_a_few_named() -> None:
    fleet = followed()
    for number in range(500):
        metadata = {"name": f"odd-{number}", "namespace": "x", "uid": f"{number}", "resourceVersion": "1"}
        fleet.take(Upserted(KINDS["ResourceClaim"], {"metadata": metadata, "spec": 7}))
    notes = document(fleet)["notes"]
    assert len(notes) == 101
    assert notes[-1] == "400 more objects are left out"


def test_texts_that_others_write_are_bounded() -> None:
    fleet, said = followed(), {"type": "lode.dev/Allocated", "status": "False", "lastTransitionTime": "never"}
    waits = stored(
        pod("long", schedulingGates=GATE), conditions=[{**said, "reason": "r" * 9999, "message": "m" * 99999}]
    )
    fleet.take(Upserted(KINDS["Pod"], waits))
    found = document(fleet)
    assert (len(found["reasons"][0]), len(found["messages"][0])) == (256, 2048)


def test_a_text_that_is_no_unicode_is_shown_all_the_same() -> None:
    fleet, said = followed(), {"type": "lode.dev/Allocated", "status": "False", "lastTransitionTime": ""}
    waits = stored(pod("torn", schedulingGates=GATE), conditions=[{**said, "reason": "r", "message": "a\ud800b"}])
    fleet.take(Upserted(KINDS["Pod"], waits))
    assert document(fleet)["messages"] == ["a?b"]
