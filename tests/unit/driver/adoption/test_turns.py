"""Which claims the containers of a pod use: as many devices as Kubernetes counts, and never those of another one."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.adoption import SOURCES
from driver.adoption.turns import AskingContainer, PodClaims, plan

_NVIDIA, _HAMI, _VOLCANO, _ASCEND = (SOURCES[name] for name in ("nvidia", "hami", "volcano", "ascend"))
_GPU, _MEMORY, _PERCENT, _CORES = (f"nvidia.com/{it}" for it in ("gpu", "gpumem", "gpumem-percentage", "gpucores"))
_310P = "huawei.com/Ascend310P"


def _turns(inits: Sequence[Any], apps: Sequence[Any]) -> list[AskingContainer]:
    """Numbers are of cards; a list is a sidecar."""

    def amounts(asked: Any) -> Mapping[str, int]:
        one = asked[0] if isinstance(asked, list) else asked
        return {_GPU: one} if isinstance(one, int) and one else one or {}

    return [
        *(AskingContainer(f"c{index}", amounts(asked), app=True, ends=False) for index, asked in enumerate(apps)),
        *(
            AskingContainer(f"i{index}", amounts(asked), app=False, ends=not isinstance(asked, list))
            for index, asked in enumerate(inits)
        ),
    ]


def _cards(planned: PodClaims, resource: str = _GPU) -> int:
    return sum(amounts.get(resource, 0) for amounts in planned.amounts.values())


@pytest.mark.parametrize(
    ("inits", "apps", "cards"),
    [
        ([1], [1], 1),
        ([2], [1], 2),
        ([1, 1, 1], [0], 1),
        ([8], [4], 8),
        ([4, 8], [4], 8),
        ([2], [1, 1], 2),
        ([3], [1, 1], 3),
        ([[1], 1], [0], 2),
        ([1, [1]], [0], 1),
        ([[2], 2], [1], 4),
        ([1, [1], 2], [1], 3),
        ([[1], [1], 4, [3]], [1], 6),
    ],
)
def test_init_containers_count_as_their_maximum_and_sidecars_from_their_start_on(
    inits: list[Any], apps: list[Any], cards: int
) -> None:
    assert _cards(plan(_turns(inits, apps), _NVIDIA)) == cards


def _counted(turns: Sequence[AskingContainer], resource: str) -> int:
    """What Kubernetes counts for a pod."""
    most, sidecars = 0, 0
    for one in (it for it in turns if not it.app):
        most = max(most, sidecars + one.amounts.get(resource, 0))
        sidecars += 0 if one.ends else one.amounts.get(resource, 0)
    return max(most, sidecars + sum(one.amounts.get(resource, 0) for one in turns if one.app))


_DEVICES = st.dictionaries(
    st.sampled_from([_GPU, "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"]), st.integers(1, 4), max_size=2
)


@st.composite
def _pods(draw: st.DrawFn, asked: st.SearchStrategy[dict[str, int]]) -> list[AskingContainer]:
    inits = [[one] if draw(st.booleans()) else one for one in draw(st.lists(asked, max_size=4))]
    return _turns(inits, draw(st.lists(asked, min_size=1, max_size=3)))


def _together(turns: Sequence[AskingContainer], one: int) -> list[int]:
    """The places of the containers that may run at the same time as the one at a place."""
    if not turns[one].ends:
        return [at for at, it in enumerate(turns) if at != one and not it.ends]
    return [at for at, it in enumerate(turns) if not it.app and not it.ends and at < one]


@given(_pods(_DEVICES))
def test_a_pod_has_as_many_whole_devices_as_kubernetes_counts(turns: list[AskingContainer]) -> None:
    """Of each resource; and each container has what it asks for, of devices that no other one uses at the time."""
    planned = plan(turns, _NVIDIA)
    for resource in {it for one in turns for it in one.amounts}:
        assert _cards(planned, resource) == _counted(turns, resource)
    _nobody_has_less_or_the_same(turns, planned)
    assert not planned.raised


def _nobody_has_less_or_the_same(turns: Sequence[AskingContainer], planned: PodClaims) -> None:
    for at, one in enumerate(turns):
        uses = planned.uses[at]
        for resource, amount in one.amounts.items():
            has = sum(planned.amounts[entry].get(resource, 0) for entry in uses)
            assert has >= amount or resource in (_MEMORY, _PERCENT, _CORES)
            assert has == amount or one.ends or resource in (_MEMORY, _PERCENT, _CORES)
        for other in _together(turns, at):
            assert not {*uses} & {*planned.uses[other]}


_SHARES = st.fixed_dictionaries(
    {_GPU: st.integers(1, 3)},
    optional={
        _MEMORY: st.sampled_from([1000, 2000, 8000]),
        _PERCENT: st.sampled_from([10, 50, 100]),
        _CORES: st.sampled_from([10, 30, 100]),
    },
)


def _of_a_card(amounts: Mapping[str, int], *, percent_first: bool) -> tuple[float, float]:
    """Memory in MiB and cores in percent, of a card of 10000 MiB: the least that the amounts stand for."""
    memory, percent, cores = (amounts.get(it, 0) for it in (_MEMORY, _PERCENT, _CORES))
    if cores == 100:
        return 10000, 100
    if memory and not (percent_first and percent):
        return memory, cores
    if 0 < percent < 100:
        return percent * 100, cores
    return 10000, cores or 100


@given(_pods(_SHARES))
def test_nobody_has_a_smaller_part_of_a_card_than_asked(turns: list[AskingContainer]) -> None:
    """Of memory and of cores; and parts that one container has are of one claim, so of different cards."""
    planned = plan(turns, _HAMI)
    _nobody_has_less_or_the_same(turns, planned)
    for at, one in enumerate(turns):
        if one.amounts:
            asked = _of_a_card(one.amounts, percent_first=False)
            has = [_of_a_card(planned.amounts[entry], percent_first=False) for entry in planned.uses[at]]
            assert all(memory >= asked[0] and cores >= asked[1] for memory, cores in has)
            assert asked == (10000, 100) or len(has) == 1


_SHARE = {_GPU: 1, _MEMORY: 10000}


@pytest.mark.parametrize(
    ("inits", "apps", "amounts"),
    [
        pytest.param([1], [_SHARE], {"c0": {_GPU: 1, _MEMORY: 10000, _CORES: 100}}, id="all of the memory"),
        pytest.param([_SHARE], [1], {"c0": {_GPU: 1, _MEMORY: 10000, _CORES: 100}}, id="a part of a whole card"),
        pytest.param([{_GPU: 1, _CORES: 30}], [_SHARE], {"c0": {_GPU: 1, _MEMORY: 10000, _CORES: 100}}, id="cores"),
        pytest.param(
            [{_GPU: 1, _PERCENT: 90}],
            [{_GPU: 1, _MEMORY: 2000, _PERCENT: 95}],
            {"c0": {_GPU: 1, _MEMORY: 2000, _PERCENT: 95}, "lode-hami-init-p": {_GPU: 1, _PERCENT: 90}},
            id="a percentage beside memory, which HAMi counts",
        ),
        pytest.param(
            [{_MEMORY: 4000}, {_MEMORY: 2000, _CORES: 30}],
            [{_MEMORY: 1000}],
            {"c0": {_GPU: 1, _MEMORY: 4000, _CORES: 30}},
            id="the most of each",
        ),
        pytest.param(
            [{_MEMORY: 4000}, {_MEMORY: 5000}],
            [{}],
            {"lode-hami-init-m": {_GPU: 1, _MEMORY: 5000}},
            id="one claim for all init containers",
        ),
        pytest.param(
            [1, {_MEMORY: 5000}],
            [{}],
            {"lode-hami-init": {_GPU: 1, _MEMORY: 5000, _CORES: 100}},
            id="a part of the card of another init container",
        ),
        pytest.param(
            [{_GPU: 2, _MEMORY: 1000}],
            [{_GPU: 1, _MEMORY: 1000}],
            {"c0": {_GPU: 1, _MEMORY: 1000}, "lode-hami-init-m": {_GPU: 2, _MEMORY: 1000}},
            id="parts of two cards are of one claim",
        ),
        pytest.param(
            [[_SHARE], _SHARE],
            [{}],
            {"i0": _SHARE, "lode-hami-init-m": _SHARE},
            id="a sidecar that runs keeps its part",
        ),
    ],
)
def test_a_part_of_a_card_is_that_of_one_container(
    inits: list[Any], apps: list[Any], amounts: dict[str, dict[str, int]]
) -> None:
    planned = plan(_turns(inits, apps), _HAMI)
    assert planned.amounts == amounts
    assert ("c0" in planned.raised) == (apps != [1] and amounts.get("c0", apps[0]) != apps[0])


@pytest.mark.parametrize(
    ("init", "app", "amounts"),
    [
        ({_310P: 1}, {_310P: 1, f"{_310P}-memory": 3072}, {_310P: 1}),
        ({_310P: 1, f"{_310P}-memory": 3072}, {_310P: 1}, {_310P: 1}),
        ({"huawei.com/npu-core": 2}, {"huawei.com/npu-core": 4}, {"huawei.com/npu-core": 4}),
        ({"huawei.com/npu-core": 4}, {"huawei.com/npu-core": 2}, {"huawei.com/npu-core": 4}),
        ({"huawei.com/npu-core": 8}, {"huawei.com/npu-core": 2}, {"huawei.com/npu-core": 8}),
        ({"huawei.com/npu-core": 2}, {"huawei.com/npu-core": 16}, {"huawei.com/npu-core": 16}),
    ],
)
def test_a_whole_npu_is_more_than_a_part_of_one(
    init: dict[str, int], app: dict[str, int], amounts: dict[str, int]
) -> None:
    assert plan(_turns([init], [app]), _ASCEND).amounts == {"c0": amounts}


def test_cores_in_whole_cards_are_added_up() -> None:
    planned = plan(_turns([{"huawei.com/npu-core": 16}], [{"huawei.com/npu-core": 8}]), _ASCEND)
    assert planned.uses == [["c0"], ["c0", "lode-ascend-init"]]
    assert _cards(planned, "huawei.com/npu-core") == 16


def test_the_percentage_counts_where_volcano_counts_it() -> None:
    memory, percent = "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage"
    planned = plan(_turns([{memory: 1000, percent: 40}], [{percent: 50}]), _VOLCANO)
    assert planned.amounts == {"c0": {percent: 50}}
