"""Whatever the API server answers to writes, for however long: no device is in use for nobody, nobody else waits."""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from controller.worker.writes_in_flight import MOST_TRIES
from driver.backoff import delay
from driver.kube.api import PODS, RESOURCE_CLAIMS, Api, ApiCall, ApiError
from tests.simulation.answers import ANSWERS, WRITES, Answer, AnsweringApi, Answers, Trouble
from tests.simulation.clock import VirtualClock
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.world import GATE

TRYING_SECONDS = sum(delay(tried, bound=5) for tried in range(1, MOST_TRIES))
"""From the first try of a write to the last one, if each is answered at once."""
MARGIN_SECONDS = 1.0
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev"}}]}}
NEVER_ANSWERED: tuple[Answer, ...] = (429, 500, 502, 503, 504, "lost", "made", "late", "without a version")
LATER = 3000.0


class AnsweredWorld(PreemptingWorld):
    """A world whose API server gives odd answers to the controller's writes. It notes how long devices are in use that
    no claim has."""

    def __init__(self, nodes: int = 1, cards: int = 1, seed: int = 0, **more: Any):
        self._random = random.Random(seed)
        self._late: list[tuple[float, Callable[[], object]]] = []
        self.answers = Answers(VirtualClock(), self._hang)
        self._since: dict[str, float] = {}
        self.longest_held = 0.0
        super().__init__(nodes, cards, **more)

    def network(self) -> Api:
        self.answers = Answers(self.clock, self._hang)
        return AnsweringApi(self.api, self.answers)

    def _hang(self, call: ApiCall, proceed: Callable[[], object]) -> None:
        after = self._random.uniform(0, self.settings.controller.longest_write_seconds)
        self._late.append((self.clock.monotonic() + after, proceed))

    def trouble(self, trouble: Trouble) -> None:
        self.answers.troubles.append(trouble)

    @property
    def longest_allowed(self) -> float:
        return TRYING_SECONDS + self.settings.controller.longest_write_seconds + MARGIN_SECONDS

    def observe(self) -> None:
        due = [write for at, write in self._late if at <= self.clock.monotonic()]
        self._late = [one for one in self._late if one[1] not in due]
        for write in due:
            with suppress(ApiError):
                write()
        super().observe()
        claims = {f"default/{one['metadata']['name']}": one for one in self.api.list(RESOURCE_CLAIMS).items}
        # What is kept for a preemptor has an object that says so: the pod.
        holders = {key for key in self.controller.state.devices_in_use().values() if not key.startswith("what is kept")}
        promised = {key for key in holders if not (claims.get(key, {}).get("status") or {}).get("allocation")}
        now = self.clock.monotonic()
        self._since = {key: self._since.get(key, now) for key in promised}
        self.longest_held = max([self.longest_held, *(now - since for since in self._since.values())])


def evil(name: str) -> bool:
    return name.startswith("evil")


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("write", [write for write in WRITES if "claims" in write or "patch pods" in write])
def test_a_claim_whose_writes_fail_for_ever_keeps_nobody_elses_devices(write: str, answer: Answer) -> None:
    world = AnsweredWorld()
    world.trouble(Trouble(write, answer, about=evil))
    world.wanting("evil", priority=1)
    world.settle(5)
    world.wanting("good")
    world.settle(2 * (world.longest_allowed + 60))
    assert world.longest_held <= world.longest_allowed
    # Who has devices that are written keeps them: then an object says who has them.
    assert world.devices("evil") or world.devices("good") == ["n1/gpu-0"]
    world.check()


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_pod_whose_claim_cannot_be_written_is_told_why(answer: Answer) -> None:
    world = AnsweredWorld()
    world.trouble(Trouble("patch resourceclaims/status", answer, about=evil))
    world.wanting("evil")
    world.settle(world.longest_allowed * 4)
    if world.devices("evil"):
        assert answer in ("made", "late", "without a version")
    else:
        assert world.condition("evil")[:2] == ("False", "WriteRefused")
        assert world.gates("evil") == [GATE]


class AsLateAsPossible(random.Random):
    """Chance by which a write that hangs is made in the last moment in which it can be."""

    def uniform(self, a: float, b: float) -> float:
        return b - 0.01


@pytest.mark.parametrize("goes", [False, True], ids=["the pod stays", "the pod goes"])
def test_what_is_made_in_the_last_moment_is_not_given_to_somebody_else(goes: bool) -> None:
    world = AnsweredWorld()
    world._random = AsLateAsPossible()
    world.trouble(Trouble("patch resourceclaims/status", "late", about=evil))
    world.wanting("evil", HIGH)
    world.settle(1)
    world._late.clear()  # The first write is never made, and those after it are late.
    if goes:
        world.settle(2)
        world.api.delete(PODS, "evil", "default", grace_period_seconds=0)
    world.wanting("good")
    for _ in range(200):
        world.settle(0.5)
        world.check()
    assert (world.devices("evil"), world.devices("good")) == (["n1/gpu-0"], [])


@pytest.mark.parametrize("answer", NEVER_ANSWERED)
def test_a_pod_that_goes_leaves_nothing_in_use(answer: Answer) -> None:
    world = AnsweredWorld()
    world.trouble(Trouble("patch resourceclaims/status", answer, about=evil))
    world.wanting("evil")
    world.settle(1)
    world.remove_pod("evil")
    world.wanting("good")
    world.settle(world.settings.controller.longest_write_seconds + 6)
    # A write that was made shows in the claim, and Kubernetes clears it, as nobody uses it.
    assert world.devices("good") == ["n1/gpu-0"] or world.devices("evil") == ["n1/gpu-0"]
    world.check()


def test_a_claim_near_the_limit_of_the_store_is_refused_before_it_is_written() -> None:
    world = AnsweredWorld()
    labels = {f"example.com/{number:05}": "x" * 60 for number in range(13_000)}
    claim = {"metadata": {"name": "evil", "namespace": "default", "labels": labels}, "spec": SPEC}
    world.api.create(RESOURCE_CLAIMS, claim)
    world.add_pod("evil", "evil", priority=HIGH)
    world.wanting("good")
    world.settle(1)
    assert world.devices("good") == ["n1/gpu-0"]
    assert world.condition("evil")[:2] == ("False", "InvalidClaim")
    assert "1048576" in world.condition("evil")[2]
    assert "fewer or shorter labels and annotations" in world.condition("evil")[2]
    assert not [
        call
        for call, body in zip(world.meddler.calls, world.meddler.bodies, strict=True)
        if "claims" in call and "evil" in body
    ]


class Deployment(AnsweredWorld):
    """A world in which pods that are evicted are made again, and get what is free."""

    def minutes(self, count: int) -> int:
        """Let minutes pass; return how many pods were evicted."""
        evictions = 0
        for _ in range(count):
            self.settle(60)
            for name in self.evicted():
                evictions += 1
                self.end(name)
                self.wanting(f"{name}-again")
                self.settle()
                if held := self.devices(f"{name}-again"):
                    self.bind(f"{name}-again", held[0].split("/")[0])
                    self.settle()
        return evictions


@pytest.mark.parametrize("write", ["patch resourceclaims/status", "patch pods"])
@pytest.mark.parametrize("answer", [403, 409, 422, 500, "too large", "lost"])
def test_a_placement_that_is_refused_has_others_evicted_ever_more_rarely(write: str, answer: Answer) -> None:
    world = Deployment()
    world.trouble(Trouble(write, answer, about=evil))
    world.running("low")
    world.wanting("evil", HIGH)
    assert world.minutes(120) <= 6, "at 0, 5, 15, 35 and 75 minutes, and once more after a first conflict"


REFUSED: tuple[Answer, ...] = tuple(answer for answer in ANSWERS if answer not in (401, "made", "late"))
"""Answers after which one pod stays; 401 is about all."""


@pytest.mark.parametrize("answer", REFUSED)
def test_another_pod_goes_in_place_of_one_that_is_never_evicted(answer: Answer) -> None:
    world = AnsweredWorld(nodes=2)
    world.trouble(Trouble("evict pods", answer, about=evil))
    world.running("evil")
    world.running("good", priority=1)
    world.wanting("important", HIGH)
    world.settle(world.longest_allowed)
    assert world.evicted() == (["evil"] if answer == "without a version" else ["good"])


@pytest.mark.parametrize("answer", REFUSED)
def test_a_pod_that_is_never_evicted_is_asked_for_ever_more_rarely(answer: Answer) -> None:
    world = AnsweredWorld()
    world.trouble(Trouble("evict pods", answer, about=evil))
    world.running("evil")
    world.wanting("important", HIGH)
    world.settle(2 * LATER)
    before = len(world.meddler.calls)
    world.settle(LATER)
    assert len(world.meddler.calls) - before < 40


TROUBLES = st.builds(
    lambda write, answer, ends, about: (write, answer, ends, about),
    st.sampled_from(WRITES),
    st.sampled_from(ANSWERS),
    st.sampled_from(["once", "for a while", "for ever"]),
    st.sampled_from(["evil", "everybody"]),
)


@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@example([("evict pods", 409, "for ever", "everybody")], 424)
@given(st.lists(TROUBLES, min_size=1, max_size=3), st.integers(0, 2**16))
def test_any_answers_to_any_writes_harm_nobody_else(troubles: list[tuple[str, Answer, str, str]], seed: int) -> None:
    world = AnsweredWorld(nodes=2, seed=seed)
    world.running("low-0")
    world.running("low-1")
    lasting = False
    for write, answer, ends, about in troubles:
        trouble = Trouble(write, answer)
        if ends == "once":
            trouble.times = 1
        elif ends == "for a while":
            trouble.until = world.clock.monotonic() + 100
        if about == "evil":
            trouble.about = evil
        lasting = lasting or (ends == "for ever" and about != "evil")
        world.trouble(trouble)
    world.wanting("evil", HIGH)
    for _ in range(8):
        world.settle(40)
        for name in world.evicted():
            world.end(name)
        world.check()
    world.wanting("good", HIGH)
    for _ in range(50):
        world.settle(LATER / 50)
        for name in world.evicted():
            world.end(name)
    assert world.longest_held <= world.longest_allowed
    world.check()
    assert lasting or world.devices("good"), "one of two nodes is free for it"
