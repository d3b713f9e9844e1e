"""Which sequence starts next: in order, bounded by lane, and never two about one object."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.writing.execution import Execution
from controller.writing.port import Lanes
from controller.writing.steps import Lane, ReadObject, Target, WriteSequence
from driver.kube.api import PODS
from tests.unit.controller.writing.terms import OneTerm

BOUNDS = {Lane.PLACING: 2, Lane.REPORTING: 1}
Names = st.sets(st.sampled_from("abcd"), min_size=1, max_size=3).map(lambda names: "".join(sorted(names)))
Moves = st.lists(
    st.one_of(
        st.tuples(st.just("add"), Names),
        st.tuples(st.just("tell"), Names),
        st.tuples(st.just("start"), st.sampled_from(Lane)),
        st.tuples(st.just("end"), st.integers(0, 5)),
    ),
    max_size=60,
)


def sequence(names: str, lane: Lane = Lane.PLACING) -> Execution:
    steps = tuple(ReadObject(Target(PODS, f"default/{name}", name)) for name in names)
    return Execution(WriteSequence(("pod", names), steps, lane, term=1), OneTerm())


def names_of(execution: Execution) -> str:
    return execution.sequence.subject[1]


@given(Moves)
def test_no_two_under_way_share_an_object_and_no_lane_exceeds_its_bound(moves: list[tuple[str, object]]) -> None:
    lanes, under_way = Lanes(BOUNDS), list[Execution]()
    for move, what in moves:
        if move == "add":
            lanes.add(sequence(str(what)))
        elif move == "tell":
            lanes.report(((PODS, str(what)), "reason"), sequence(str(what), Lane.REPORTING))
        elif move == "start" and isinstance(what, Lane):
            under_way += [started] if (started := lanes.start(what)) else []
        elif under_way and isinstance(what, int):
            lanes.end(under_way.pop(what % len(under_way)))
        objects = [target for execution in under_way for target in execution.sequence.objects]
        assert len(objects) == len(set(objects))
        for lane in Lane:
            count = sum(execution.sequence.lane is lane for execution in under_way)
            assert count == lanes.under_way(lane) <= BOUNDS[lane]


@pytest.mark.parametrize("lane", Lane)
def test_a_lane_starts_no_more_than_its_bound_until_one_has_ended(lane: Lane) -> None:
    lanes = Lanes(BOUNDS)
    for name in "abcd":
        execution = sequence(name, lane)
        if lane is Lane.PLACING:
            lanes.add(execution)
        else:
            lanes.report(((PODS, name), "reason"), execution)
    started = [lanes.start(lane) for _ in "abcd"]
    assert [execution is not None for execution in started] == [number < BOUNDS[lane] for number in range(4)]
    assert started[0]
    lanes.end(started[0])
    assert lanes.start(lane)
    assert not lanes.start(lane)


@given(st.lists(Names, max_size=20), st.randoms())
def test_every_sequence_is_carried_out_and_those_about_one_object_in_order(added: list[str], chance: object) -> None:
    lanes, under_way, ended = Lanes({Lane.PLACING: 3}), list[Execution](), list[int]()
    waiting = [sequence(names) for names in added]
    for execution in waiting:
        lanes.add(execution)
    while under_way or lanes.waiting(Lane.PLACING):
        while started := lanes.start(Lane.PLACING):
            under_way.append(started)
        execution = under_way.pop(chance.randrange(len(under_way)))  # type: ignore[attr-defined]
        lanes.end(execution)
        ended.append(waiting.index(execution))
    assert sorted(ended) == list(range(len(waiting)))
    for name in "abcd":
        about = [number for number in ended if name in added[number]]
        assert about == sorted(about)


def test_what_is_told_with_one_key_waits_once_and_the_newest_is_told() -> None:
    lanes = Lanes(BOUNDS)
    first, second, other = (sequence(names, Lane.REPORTING) for names in ("a", "a", "b"))
    lanes.report(((PODS, "a"), "Unallocatable"), first)
    lanes.report(((PODS, "b"), "Unallocatable"), other)
    lanes.report(((PODS, "a"), "Unallocatable"), second)
    assert lanes.waiting(Lane.REPORTING) == 2
    started = []
    while execution := lanes.start(Lane.REPORTING):
        started.append(execution)
        lanes.end(execution)
    assert started == [other, second]


def test_what_is_told_with_different_reasons_is_all_told() -> None:
    lanes = Lanes({Lane.REPORTING: 9})
    for reason in ("Unallocatable", "WriteRefused"):
        lanes.report(((PODS, "a"), reason), sequence("e" + reason, Lane.REPORTING))
    assert lanes.waiting(Lane.REPORTING) == 2


def test_a_placement_drops_what_was_to_be_written_about_its_pod_before() -> None:
    lanes = Lanes(BOUNDS)
    lanes.report(((PODS, "a"), "condition"), sequence("a", Lane.REPORTING))
    lanes.report(((PODS, "b"), "condition"), sequence("b", Lane.REPORTING))
    lanes.add(sequence("a"))
    assert lanes.waiting(Lane.REPORTING) == 1
    started = lanes.start(Lane.REPORTING)
    assert started is not None
    assert names_of(started) == "b"


def test_nothing_starts_after_everything_that_waits_was_dropped() -> None:
    lanes = Lanes(BOUNDS)
    lanes.add(sequence("a"))
    lanes.report(((PODS, "b"), "condition"), sequence("b", Lane.REPORTING))
    lanes.drop()
    assert [lanes.start(lane) for lane in Lane] == [None, None]
    assert [lanes.waiting(lane) for lane in Lane] == [0, 0]


@pytest.mark.parametrize("lane", Lane)
def test_namespaces_take_turns(lane: Lane) -> None:
    lanes, started = Lanes({lane: 1}), []
    for name in ("a/1", "a/2", "a/3", "b/1", "c/1", "b/2"):
        step = ReadObject(Target(PODS, name, name))
        execution = Execution(WriteSequence(("pod", name), (step,), lane, term=1), OneTerm())
        if lane is Lane.PLACING:
            lanes.add(execution)
        else:
            lanes.report(((PODS, name), "reason"), execution)
    while one := lanes.start(lane):
        started.append(names_of(one))
        lanes.end(one)
    assert started == ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3"]
