"""The example at the top of ``controller.allocation.search``, step by step."""

from collections.abc import Sequence

import pytest

from controller.allocation import NodeReasons
from controller.allocation.requests import RequestChoice
from controller.allocation.search import search
from controller.allocation.search.attempt import Attempt, Candidate
from controller.allocation.search.search import Search
from driver.model import Allocation, Device, Slice
from tests.unit.controller.allocation.small_fleets import NODE, claim, device, fleet, names, pool, want

SLICES = {"1g-0": (0,), "1g-1": (1,), "1g-2": (2,), "1g-3": (3,), "3g": (0, 1, 2)}
"""What each device of a card draws on."""
SMALL, LARGE = (f'device.attributes["lode.dev"].size == "{size}"' for size in ("1g", "3g"))
NOT_THE_LAST = 'device.attributes["lode.dev"].name != "1g-3"'


def card(number: int) -> list[Device]:
    return [
        device(
            f"c{number}-{name}",
            {"kind": "mig", "size": name[:2], "name": name},
            draws={f"c{number}.slice-{position}": 1 for position in positions},
        )
        for name, positions in SLICES.items()
    ]


def two_cards() -> Sequence[Slice]:
    sets = {f"c{number}": {f"slice-{position}": 1 for position in range(4)} for number in range(2)}
    return pool(*card(0), *card(1), sets=sets)


class Steps:
    """What the searches of a test try, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.tried: list[str] = []
        self.searches: list[Search] = []
        run = Search.run

        tried = self.tried

        class Noted(Attempt):
            def pick(self, claim: int, choice: RequestChoice, candidate: Candidate) -> None:
                tried.append(candidate.device.id.device)
                super().pick(claim, choice, candidate)

        def noted(one: Search) -> bool:
            self.searches.append(one)
            return run(one)

        monkeypatch.setattr(search, "Attempt", Noted)
        monkeypatch.setattr(Search, "run", noted)

    def allocate(self, *of_small: str) -> tuple[Allocation, ...] | NodeReasons:
        return fleet(*two_cards()).allocate(
            NODE, {}, [claim(want("mig", SMALL, *of_small, count=2), want("mig", LARGE, count=2))]
        )


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


def test_the_search_of_the_example_takes_the_steps_that_it_says(steps: Steps) -> None:
    given = steps.allocate()
    assert steps.tried == ["c0-1g-0", "c0-1g-1", "c0-1g-2", "c0-1g-3", "c1-1g-3", "c0-3g", "c1-3g"]
    assert names(given) == [["c0-1g-3", "c1-1g-3", "c0-3g", "c1-3g"]]


def test_without_symmetry_it_takes_ten_steps(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search._Level, "skips", lambda level, device: False)
    assert names(steps.allocate()) == [["c0-1g-3", "c1-1g-3", "c0-3g", "c1-3g"]]
    assert len(steps.tried) == 10


def test_where_the_slices_do_not_suffice_it_takes_none(steps: Steps) -> None:
    assert isinstance(steps.allocate(NOT_THE_LAST), NodeReasons)
    assert [one.steps for one in steps.searches] == [0]
