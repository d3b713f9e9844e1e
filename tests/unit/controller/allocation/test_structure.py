"""How the allocator is built: a short walk for one claim, no hidden caches, and fingerprints that say everything."""

import sys
from pathlib import Path
from types import FrameType

import pytest

import controller.allocation
from controller.allocation import Fleet
from controller.allocation.devices.pools import Pool
from controller.allocation.nodefit import likeness
from controller.allocation.requests import CompiledRequest
from controller.allocation.search.search import Search
from controller.placement import Placed, place
from driver.model import Constraint
from tests.unit.controller.allocation.small_fleets import claim, device, fleet, most_placed, pool, want

PACKAGE = Path(controller.allocation.__file__).parent
MOST_FILES = 11
"""Files that one claim passes on its way through the allocator and the planner above it."""


def small_cluster() -> Fleet:
    built = fleet()
    for node in ("n1", "n2"):
        built.ledger.upsert_node(node, {})
        for part in pool(*(device(f"gpu-{i}", {"type": "H100"}) for i in range(8)), node=node):
            built.ledger.upsert_slice(part)
    return built


def files_of_walk() -> list[str]:
    """The files of allocation and placement that deciding one claim calls, on a fleet that knows what it asks for."""
    built = small_cluster()
    asking = claim(want("gpu", 'device.attributes["lode.dev"].type == "H100"', count=2))
    place(built, [asking])
    found: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE.parent):
            file = path.relative_to(PACKAGE.parent)
            if "selectors" not in file.parts:
                found[str(file)] = None

    sys.setprofile(note)
    try:
        placed = place(built, [asking])
    finally:
        sys.setprofile(None)
    assert isinstance(placed, Placed)
    return list(found)


def test_one_claim_is_decided_in_few_files() -> None:
    files = files_of_walk()
    assert files[0] == "placement/planner.py"
    assert len(files) <= MOST_FILES, files


def test_every_attribute_of_a_pool_is_in_the_fingerprint_or_irrelevant_for_a_reason() -> None:
    classified = [*likeness.INCLUDED, *likeness.IRRELEVANT]
    assert sorted(classified) == sorted(Pool.__slots__)


def test_questions_leave_the_devices_and_pools_they_are_about_as_they_were() -> None:
    built = small_cluster()
    place(built, [claim(want())])

    def everything() -> object:
        pools = built._index.pools.values()
        return [
            [getattr(pool, name) for name in Pool.__slots__ if name not in ("slot", "layout")]
            + [[getattr(device, name) for name in type(device).__slots__ if name != "pool"] for device in pool.devices]
            for pool in pools
        ]

    before = repr(everything())
    same = (Constraint((), "lode.dev/type"),)
    for asking in (claim(want(count=2), constraints=same), claim(want(mode="All")), claim(want("nic"))):
        place(built, [asking])
        built.allocate("n1", {}, [asking])
        most_placed(built, [asking])
    assert repr(everything()) == before


def test_a_search_that_fails_on_one_node_is_not_repeated_on_nodes_that_are_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = fleet()
    for node in ("n1", "n2", "n3"):
        built.ledger.upsert_node(node, {})
        cards = [device(f"gpu-{root}", {"root": root}) for root in (1, 2)]
        nics = [device(f"nic-{root}", {"kind": "nic", "root": root}) for root in (2, 3)]
        for part in pool(*cards, *nics, node=node):
            built.ledger.upsert_slice(part)
    searches: list[Search] = []
    run = Search.run

    def noted(search: Search) -> bool:
        searches.append(search)
        return run(search)

    monkeypatch.setattr(Search, "run", noted)
    pairs = [Constraint((f"r{2 * i}", f"r{2 * i + 1}"), "lode.dev/root") for i in range(2)]
    asking = claim(*[want("gpu"), want("nic")] * 2, constraints=tuple(pairs))
    request = built.compile([asking])
    assert isinstance(request, CompiledRequest)
    found = [built.fit(slot, request, [asking]) for slot in built.candidates(request)]
    assert found == [None, None, None]
    assert len(searches) == 1
