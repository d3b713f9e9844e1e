"""The page in a cluster, over real sockets: a user who asks much keeps nobody else from asking."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
import yaml

from cli.shipped import device_classes
from cli.ui.access import LIMITS, TOKEN_REVIEWS
from cli.ui.questions import ClusterQuestions
from cli.ui.run import served_to_all
from driver.clock import SystemClock
from driver.kube.api import ACCESS_REVIEWS, Api, ApiCall, Object
from driver.kube.decorator import ApiDecorator
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.unit.cli.cluster import node, slices, stored, template
from tests.unit.cli.ui.fleets import NAMES
from tests.unit.cli.ui.served import Browser, memory_api, page_of

PATIENCE_SECONDS = 30.0


def manifest(replicas: int) -> bytes:
    spec = {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        "containers": [{"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "many"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "many"}},
            "template": {"metadata": {"labels": {"app": "many"}}, "spec": spec},
        },
    }
    return yaml.safe_dump_all([template("one"), deployment]).encode()


class ReviewingApi(ApiDecorator):
    """Everybody has the token that is their name, and may list everything."""

    def call(self, call: ApiCall) -> Any:
        if call.resource == TOKEN_REVIEWS:
            return {"status": {"authenticated": True, "user": {"username": call.body["spec"]["token"]}}}
        return {"status": {"allowed": True}} if call.resource == ACCESS_REVIEWS else super().call(call)


class HeldApi(ApiDecorator):
    """Answers when it is told to."""

    def __init__(self, api: Api, asked: Event, told: Event):
        super().__init__(api)
        self._asked, self._told = asked, told

    def call(self, call: ApiCall) -> Any:
        self._asked.set()
        assert self._told.wait(PATIENCE_SECONDS)
        return super().call(call)


class TickingClock(VirtualClock):
    """Each look at it takes a while."""

    def monotonic(self) -> float:
        self.advance(0.01)
        return super().monotonic()


class ManyUsers:
    """Those who look at one page in a cluster.

    Attributes:
        api: asked by users about the cluster, by name; the others ask the same one without delay.
        clock: by which the seconds of a question count.
    """

    def __init__(self, api: MemoryApi):
        self.everybody = api
        self.api: dict[str, Api] = {}
        self.clock: Any = SystemClock()

    @contextmanager
    def connect(self, token: str) -> Iterator[ClusterQuestions]:
        yield ClusterQuestions(self.api.get(token, self.everybody), NAMES, clock=self.clock)

    @contextmanager
    def serve(self) -> Iterator[Callable[[str], Browser]]:
        own = ClusterQuestions(ReviewingApi(self.everybody), NAMES)
        with served_to_all(own, self.connect, "127.0.0.1:0") as port:
            yield lambda user: Browser(port, user)


def objects() -> list[Object]:
    return [stored(node("a")), *device_classes(), *slices("a", "t4x2", ("whole",))]


@pytest.fixture
def cluster() -> ManyUsers:
    return ManyUsers(memory_api(*objects()))


def test_a_user_asks_one_question_at_a_time_and_others_have_their_turn(cluster: ManyUsers) -> None:
    asked, told = Event(), Event()
    cluster.api["anna"] = HeldApi(cluster.everybody, asked, told)
    with cluster.serve() as browser, ThreadPoolExecutor(2) as pool:
        first = pool.submit(browser("anna").ask, "/simulate", manifest(1))
        assert asked.wait(PATIENCE_SECONDS)
        second = browser("anna").ask("/simulate", manifest(1))
        assert (second.status, "another question of yours" in second.json["error"]) == (429, True)
        other = pool.submit(browser("bob").ask, "/simulate", manifest(1))
        assert browser("bob").ask("/healthz").status == 200
        told.set()
        assert [one.result(PATIENCE_SECONDS).status for one in (first, other)] == [200, 200]


def test_a_what_if_is_about_a_bounded_number_of_pods(cluster: ManyUsers) -> None:
    with cluster.serve() as browser:
        began = time.monotonic()
        refused = browser("anna").ask("/simulate", manifest(2_000_000_000))
        assert time.monotonic() - began < PATIENCE_SECONDS
        assert refused.status == 413
        assert f"a question here may be about {LIMITS.pods}" in refused.json["error"]
        assert "lode simulate --live -f FILE" in refused.json["error"]
        answered = browser("anna").ask("/simulate", manifest(500))
        assert (answered.status, len(answered.json["pods"])) == (200, LIMITS.pods)


def test_a_what_if_ends_when_its_seconds_are_over(cluster: ManyUsers) -> None:
    cluster.clock = TickingClock()
    with cluster.serve() as browser:
        refused = browser("anna").ask("/simulate", manifest(500))
        assert refused.status == 413
        assert f"takes longer to decide than {LIMITS.seconds:g} seconds" in refused.json["error"]
        assert "lode simulate --live -f FILE" in refused.json["error"]
        assert browser("anna").ask("/simulate", manifest(5)).status == 200


def test_on_your_own_machine_a_what_if_has_no_limit() -> None:
    with page_of(memory_api(*objects())) as browser:
        assert len(browser.ask("/simulate", manifest(501)).json["pods"]) == 501
