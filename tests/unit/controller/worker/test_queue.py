"""The queue gives each key once, when it is due, in order; the back-off grows and is bounded; writes are made again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.worker import AFTER_FAILURE_SECONDS, KeyedQueue, RetryTimes
from driver.backoff import delay
from driver.errors import OperatorFault
from driver.kube.api import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Unavailable

Times = st.integers(0, 20)
Steps = st.lists(st.one_of(st.tuples(st.sampled_from("abcde"), Times), st.tuples(st.none(), Times)), max_size=60)


@given(st.integers(0, 10_000), st.floats(0.001, 10), st.floats(0.001, 1000))
def test_the_back_off_grows_up_to_its_bound(attempt: int, base: float, bound: float) -> None:
    assert 0 <= delay(attempt, base=base, bound=bound) <= delay(attempt + 1, base=base, bound=bound) <= bound


@given(Steps)
def test_a_key_comes_up_once_for_each_time_it_was_wanted_and_never_too_early(
    steps: list[tuple[str | None, int]],
) -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    due: dict[str, int] = {}
    now = 0
    for key, time in steps:
        if key is not None:
            queue.add(key, time)
            due[key] = min(due.get(key, time), time)
            continue
        now = max(now, time)
        if (found := queue.pop(now)) is not None:
            assert due[found] == min(due.values()) <= now
            del due[found]
            assert found not in queue
        assert len(queue) == len(due)
        assert queue.due(now) == sum(time <= now for time in due.values())
        assert queue.next_due() == (min(due.values()) if due else None)


@given(st.lists(st.tuples(st.integers(0, 9), Times), max_size=30), Times)
def test_of_the_keys_that_are_due_the_one_that_ranks_first_comes_up(keys: list[tuple[int, int]], now: int) -> None:
    queue: KeyedQueue[tuple[int, int]] = KeyedQueue(rank=lambda key: key[0])
    for key in keys:
        queue.add(key, key[1])
    found = list(iter(lambda: queue.pop(now), None))
    assert found == sorted({key for key in keys if key[1] <= now})
    assert queue.next_due() == min((due for _, due in keys if due > now), default=None)


def test_a_key_that_is_due_makes_way_for_one_that_becomes_due_and_ranks_before_it() -> None:
    queue: KeyedQueue[str] = KeyedQueue(rank=lambda key: key)
    for key in "bc":
        queue.add(key, 1)
    assert queue.pop(1) == "b"
    queue.add("a", 1)
    assert queue.next_due() == 1
    assert [queue.pop(1), queue.pop(1)] == ["a", "c"]


def test_equals_come_up_in_the_order_in_which_they_were_added() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    for key in "cab":
        queue.add(key, 1)
    assert [queue.pop(1) for _ in range(4)] == ["c", "a", "b", None]


def test_a_discarded_key_does_not_come_up() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a", 1)
    queue.discard("a")
    assert queue.pop(5) is None
    queue.add("a", 9)
    assert queue.pop(5) is None
    assert queue.pop(9) == "a"


# Namespaces


def flooded(most: int = 1000) -> KeyedQueue[str]:
    """``most`` keys of namespace a, which come first, and then one of b."""
    queue: KeyedQueue[str] = KeyedQueue(rank=lambda key: key, namespace=lambda key: key[0])
    for number in range(most):
        queue.add(f"a{number:04}", 0)
    queue.add("b", 0)
    return queue


def decisions_before(queue: KeyedQueue[str], last: str, seconds: float) -> int:
    count = 0
    while (key := queue.pop(0)) != last:
        assert key is not None
        queue.charge(key, seconds)
        count += 1
    return count


@pytest.mark.parametrize(("seconds", "decisions"), [(0, 100), (0.001, 100), (0.01, 10), (0.04, 3), (1, 1)])
def test_a_namespace_with_much_to_decide_keeps_others_waiting_for_one_turn(seconds: float, decisions: int) -> None:
    assert decisions_before(flooded(), "b", seconds) == decisions


def test_while_all_have_their_turn_the_rank_decides_alone() -> None:
    queue = flooded(50)
    assert decisions_before(queue, "b", 0.001) == 50


def test_a_long_decision_is_paid_for_with_later_turns() -> None:
    queue = flooded()
    for number in range(100):
        queue.add(f"b{number:02}", 0)
    first = queue.pop(0)
    assert first == "a0000"
    queue.charge(first, 0.35)
    order = []
    for _ in range(60):
        key = queue.pop(0)
        assert key is not None
        queue.charge(key, 0.01)
        order.append(key[0])
    assert "".join(order).index("a") == 30, "three turns of b"
    assert 10 <= order.count("a") <= 20


def test_of_two_levels_the_first_comes_up_whoever_has_a_turn() -> None:
    queue: KeyedQueue[str] = KeyedQueue(level=lambda key: int(key[1]), namespace=lambda key: key[0])
    for number in range(200):
        queue.add(f"a0{number}", 0)
    queue.add("b1", 0)
    assert decisions_before(queue, "b1", 0.01) == 200


def test_when_nothing_is_due_everybody_gets_a_whole_turn_again() -> None:
    queue = flooded(1)
    for key in ("a0000", "b"):
        assert queue.pop(0) == key
    queue.charge("a", 5)
    assert queue.pop(0) is None
    queue.add("a", 0)
    queue.add("b", 0)
    assert queue.pop(0) == "a"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 0.5)), min_size=1, max_size=80))
def test_whatever_decisions_cost_everything_comes_up_once(steps: list[tuple[str, float]]) -> None:
    queue: KeyedQueue[tuple[str, int]] = KeyedQueue(namespace=lambda key: key[0])
    costs = {(name, number): cost for number, (name, cost) in enumerate(steps)}
    for key in costs:
        queue.add(key, 0)
    found = []
    while (popped := queue.pop(0)) is not None:
        queue.charge(popped, costs[popped])
        found.append(popped)
    assert sorted(found) == sorted(costs)


# Writes that are made again


@pytest.mark.parametrize(
    ("error", "seconds", "lasting"),
    [
        (Conflict("changed"), 2, False),
        (NotFound("gone"), 2, False),
        (AlreadyExists("made by others"), 2, False),
        (Unavailable("no answer"), 5, False),
        (Forbidden("no right"), AFTER_FAILURE_SECONDS, True),
        (Invalid("refused"), AFTER_FAILURE_SECONDS, True),
        (OperatorFault("fields are dropped"), AFTER_FAILURE_SECONDS, True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_pause_after_a_write_depends_on_who_has_to_act(error: Exception, seconds: float, lasting: bool) -> None:
    retries: RetryTimes[str] = RetryTimes(changed=2, unanswered=5)
    retries.begin("a")
    assert (retries.end("a", error, now=10), retries.at("a")) == (lasting, 10 + seconds)


def test_no_object_is_written_twice_at_a_time_and_one_that_was_written_may_be_at_once() -> None:
    retries: RetryTimes[str] = RetryTimes(changed=2, unanswered=5)
    retries.begin("a")
    retries.begin("b")
    retries.end("c", Conflict("changed"), now=10)
    assert (retries.at("a"), retries.at("c"), retries.at("d")) == (float("inf"), 12, float("-inf"))
    assert not retries.end("a", None, now=10)
    assert (retries.at("a"), retries.at("b")) == (float("-inf"), float("inf"))


def test_nothing_is_kept_of_a_pause_that_has_passed() -> None:
    retries: RetryTimes[str] = RetryTimes(changed=2, unanswered=5)
    retries.end("a", Conflict("changed"), now=10)
    retries.end("b", Conflict("changed"), now=20)
    assert (retries.at("a"), retries.at("b")) == (float("-inf"), 22)
