"""Gangs are decided about in several orders of the input."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from controller.gangs import GangPlan, TriedDomains
from controller.refusal import Refusal
from tests.unit.controller.gangs.cases import (
    GangCase,
    Host,
)


@pytest.fixture(params=[None, 1, 2, 3], ids=["in order", "shuffled", "shuffled again", "and again"])
def decide(request: pytest.FixtureRequest) -> Callable[..., GangPlan | Refusal[TriedDomains]]:
    """Every case is decided with its input in several orders; the whole answer has to be the same."""

    def decided(cluster: Sequence[Host], asked: Any, **options: Any) -> GangPlan | Refusal[TriedDomains]:
        scene = GangCase(cluster, asked)
        answer = scene.decide(**options)
        if request.param is not None:
            assert scene.decide(Random(request.param), **options) == answer
        return answer

    return decided
