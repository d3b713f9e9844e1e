"""Nodes that are held back for a gang are open to pods that end before it can start."""

from driver.kube.api import PODS
from tests.unit.controller.loop.busy import GRACE, HOLD_AFTER, LIMIT, Busy
from tests.unit.controller.loop.gangworld import GangWorld


class Stream(GangWorld):
    """Every 200 s a pod comes that takes one of four nodes for ``LIMIT`` seconds. All four are never free at once."""

    def __init__(self, hold_after: float):
        super().__init__(settings={"hold": {"afterSeconds": hold_after}}, a=4)
        self._came = 0
        self._ends: dict[str, float] = {}

    def go_on(self) -> None:
        """The next pod comes, and those end whose time has passed."""
        name = f"job-{self._came}"
        self._came += 1
        self.add_claim(name, 2)
        self.add_pod(name, name)
        for _ in range(20):
            self.settle(10)
            self._end_some()

    def _end_some(self) -> None:
        now = self.clock.monotonic()
        for pod in self.api.list(PODS).items:
            job = pod["metadata"]["name"]
            if job.startswith("job-") and self.devices(job) and self._ends.setdefault(job, now + LIMIT) <= now:
                self.remove_pod(job)


def seconds_until_a_gang_starts(hold_after: float, most: float) -> float:
    """How long a gang that needs all four nodes waits while the stream goes on."""
    world = Stream(hold_after)
    for _ in range(6):
        world.go_on()
    pods, came = world.add_gang("train", 8), world.clock.monotonic()
    while len(world.let_go(*pods)) < 8 and world.clock.monotonic() - came < most:
        world.go_on()
    world.check_gang(*pods, minimum=8)
    return world.clock.monotonic() - came


def test_a_stream_of_pods_delays_a_gang_by_no_more_than_the_longest_of_them() -> None:
    pause = 200
    assert seconds_until_a_gang_starts(HOLD_AFTER, most=10 * LIMIT) <= HOLD_AFTER + LIMIT + pause
    assert seconds_until_a_gang_starts(100 * LIMIT, most=10 * LIMIT) >= 10 * LIMIT, "without that it never starts"


# Deadlines


def test_a_held_node_is_open_to_a_pod_that_ends_before_the_gang_can_start() -> None:
    world = Busy(LIMIT, LIMIT, LIMIT)
    assert world.nodes_of(*world.gang) == [""] * 4
    short, long, endless = world.single("short", 60), world.single("long", LIMIT), world.single("endless")
    assert world.passes(short, long, endless) == [short]


def test_nobody_uses_held_nodes_if_nothing_tells_when_the_gang_can_start() -> None:
    world = Busy(LIMIT, LIMIT, None)
    assert world.passes(world.single("short", 60)) == []


def test_the_gang_starts_when_predicted_although_others_used_its_nodes() -> None:
    world = Busy(LIMIT, LIMIT, LIMIT)
    start = world.clock.now()
    short = world.single("short", 60)
    assert world.passes(short) == [short]
    world.run(short)
    world.settle(60 + GRACE)
    world.remove_pod(short)
    assert world.nodes_of(*world.gang) == [""] * 4
    world.settle(LIMIT - 120)
    for pod in world.old:
        world.remove_pod(pod)
    world.settle(5)
    assert len(world.let_go(*world.gang)) == 4
    assert world.clock.now() - start < LIMIT + GRACE


def test_pods_with_deadlines_never_put_a_gang_off_by_turns() -> None:
    """One after the other asks for the free card. None is placed that would end after the first prediction."""
    world = Busy(LIMIT, LIMIT, LIMIT)
    predicted = world.clock.now() + LIMIT
    for number in range(30):
        pod = world.single(f"short-{number}", 60)
        if world.passes(pod):
            world.run(pod)
            world.settle(60 + GRACE)
            assert world.clock.now() < predicted
            world.remove_pod(pod)
        else:
            world.remove_pod(pod)
            world.settle(30)


def test_a_pod_that_waits_is_placed_when_a_prediction_becomes_possible() -> None:
    world = Busy(LIMIT, LIMIT, None)
    short = world.single("short", 60)
    assert world.passes(short) == []
    world.remove_pod(world.old[2])
    assert world.passes(short) == [short]


def test_a_deadline_that_is_set_later_counts() -> None:
    world = Busy(LIMIT, LIMIT, None)
    short = world.single("short", 60)
    assert world.passes(short) == []
    world.api.patch(PODS, world.old[2], {"spec": {"activeDeadlineSeconds": LIMIT}}, namespace="default")
    assert world.passes(short) == [short]


def test_pods_of_one_shape_are_told_apart_by_their_deadlines() -> None:
    world = Busy(LIMIT, LIMIT, LIMIT)
    endless, short = world.single("endless"), world.single("short", 60)
    assert world.passes(endless, short) == [short]


def test_a_later_gang_uses_held_nodes_if_all_its_members_end_in_time() -> None:
    world = Busy(LIMIT, LIMIT, LIMIT)
    pair = world.add_gang("pair", 1, activeDeadlineSeconds=60)
    late = world.add_gang("late", 1)
    assert world.passes(*pair, *late) == [*pair]
