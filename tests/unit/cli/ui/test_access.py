"""Users of a cluster see the fleet with the rights of their own tokens; the API server is asked, and not too often."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import pytest

from cli.ui.access import (
    KEPT_SECONDS,
    MOST_KEPT,
    REFUSED_SECONDS,
    TOKEN_REVIEWS,
    NotAdmitted,
    ReviewedDoor,
)
from cli.ui.questions import ClusterQuestions
from driver.kube.api import ACCESS_REVIEWS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiCall, Unavailable
from tests.simulation.clock import VirtualClock
from tests.unit.cli.ui.fleets import NAMES

USER: dict[str, Any] = {
    "username": "anna",
    "uid": "7",
    "groups": ["team-a", "system:authenticated"],
    "extra": {"k": ["v"]},
}
SPEC: dict[str, Any] = {"user": "anna", **{name: USER[name] for name in ("uid", "groups", "extra")}}
PATIENCE_SECONDS = 30.0


class Reviewer(Api):
    """An API server that reviews tokens and rights, and nothing else."""

    def __init__(self) -> None:
        self.users: dict[str, Any] = {"good": USER}
        self.rights = {("resourceslices", ""), ("resourceclaims", "mine"), ("pods", "mine"), ("pods", "half")}
        self.asked: list[tuple[str, str]] = []
        self.broken = False
        self.spec = SPEC
        """The user who is asked about."""

    def call(self, call: ApiCall) -> Any:
        if self.broken:
            raise Unavailable("no route to host")
        assert call.verb == "create"
        spec = call.body["spec"]
        if call.resource == TOKEN_REVIEWS:
            self.asked.append(("token", spec["token"]))
            user = self.users.get(spec["token"])
            return {"status": {"authenticated": True, "user": user} if user else {"authenticated": False, "error": "?"}}
        assert call.resource == ACCESS_REVIEWS
        wanted = spec.pop("resourceAttributes")
        assert spec == self.spec
        assert wanted["verb"] == "list"
        assert wanted["group"] == ("" if wanted["resource"] == "pods" else "resource.k8s.io")
        place = wanted["resource"], wanted.get("namespace", "")
        self.asked.append(place)
        return {"status": {"allowed": place in self.rights}}


class Entrance:
    def __init__(self, api: Reviewer | None = None) -> None:
        self.api, self.clock = api or Reviewer(), VirtualClock()
        self.connected: list[str] = []
        self.door = ReviewedDoor(self.api, self._connect, self.clock)

    @contextmanager
    def _connect(self, token: str) -> Iterator[ClusterQuestions]:
        self.connected.append(token)
        yield ClusterQuestions(self.api, NAMES)

    def refused(self, token: str) -> NotAdmitted:
        with pytest.raises(NotAdmitted) as raised:
            self.door.admit(token)
        return raised.value


@pytest.fixture
def entrance() -> Entrance:
    return Entrance()


def test_a_user_sees_the_names_where_claims_and_pods_may_be_listed(entrance: Entrance) -> None:
    visitor = entrance.door.admit("good")
    assert [visitor.sees(namespace) for namespace in ("mine", "half", "others", "")] == [True, False, False, False]


def test_who_may_list_everywhere_sees_all_names_with_two_questions(entrance: Entrance) -> None:
    entrance.api.rights |= {(RESOURCE_CLAIMS.plural, ""), (PODS.plural, "")}
    visitor = entrance.door.admit("good")
    entrance.api.asked.clear()
    assert all(map(visitor.sees, ("", "a", "b", "c")))
    assert entrance.api.asked == [("resourceclaims", ""), ("pods", "")]


def test_questions_are_asked_with_the_users_own_token(entrance: Entrance) -> None:
    with entrance.door.admit("good").asking():
        assert entrance.connected == ["good"]


@pytest.mark.parametrize("token", ["", "bad", "x" * 20_000])
def test_who_has_no_token_of_the_cluster_is_told_how_to_get_one(entrance: Entrance, token: str) -> None:
    refused = entrance.refused(token)
    assert (refused.status, "kubectl create token" in str(refused)) == (HTTPStatus.UNAUTHORIZED, True)


def test_who_may_not_list_slices_sees_no_card(entrance: Entrance) -> None:
    entrance.api.rights.discard((RESOURCE_SLICES.plural, ""))
    refused = entrance.refused("good")
    assert (refused.status, "lode-ui-user" in str(refused)) == (HTTPStatus.FORBIDDEN, True)


@pytest.mark.parametrize("user", [{}, {"username": ""}, None])
def test_a_user_without_a_name_is_nobody(entrance: Entrance, user: Any) -> None:
    entrance.api.users["good"] = user
    assert entrance.refused("good").status == HTTPStatus.UNAUTHORIZED


def test_an_answer_counts_for_a_while_and_a_right_that_is_taken_away_for_no_longer(entrance: Entrance) -> None:
    assert entrance.door.admit("good").sees("mine")
    asked = len(entrance.api.asked)
    assert entrance.door.admit("good").sees("mine")
    assert len(entrance.api.asked) == asked
    entrance.api.rights.clear()
    entrance.clock.sleep(KEPT_SECONDS)
    assert entrance.refused("good").status == HTTPStatus.FORBIDDEN
    del entrance.api.users["good"]
    entrance.clock.sleep(KEPT_SECONDS)
    assert entrance.refused("good").status == HTTPStatus.UNAUTHORIZED


def test_another_token_of_a_user_costs_one_review(entrance: Entrance) -> None:
    for number in (1, 2):
        unlike = {"authentication.kubernetes.io/credential-id": [f"JTI={number}"]}
        entrance.api.users[f"token-{number}"] = {**USER, "extra": {**USER["extra"], **unlike}}
    namespaces = ["mine", "half", *(f"other-{number}" for number in range(100))]
    first = [entrance.door.admit("token-1").sees(namespace) for namespace in namespaces]
    entrance.api.asked.clear()
    assert [entrance.door.admit("token-2").sees(namespace) for namespace in namespaces] == first
    assert entrance.api.asked == [("token", "token-2")]


@pytest.mark.parametrize("other", [{"groups": ["team-b"]}, {"uid": "8"}, {"extra": {"scopes": ["few"]}}])
def test_users_whom_the_api_server_tells_apart_are_asked_about_apart(entrance: Entrance, other: Any) -> None:
    entrance.door.admit("good")
    entrance.api.users["other"], entrance.api.spec = {**USER, **other}, {**SPEC, **other}
    entrance.api.asked.clear()
    entrance.door.admit("other")
    assert entrance.api.asked == [("token", "other"), ("resourceslices", "")]


def test_where_a_user_may_list_nothing_is_asked_more_rarely(entrance: Entrance) -> None:
    """Of thousands of namespaces most are those of others; who was refused there gets no more by waiting."""
    asked: dict[str, list[tuple[str, str]]] = {}
    for moment, seconds in (("first", 0.0), ("soon", KEPT_SECONDS), ("later", REFUSED_SECONDS)):
        entrance.clock.sleep(seconds)
        entrance.api.asked.clear()
        visitor = entrance.door.admit("good")
        assert [visitor.sees(namespace) for namespace in ("mine", "others")] == [True, False]
        asked[moment] = [place for place in entrance.api.asked if place[1] in ("mine", "others")]
    of_own = [("resourceclaims", "mine"), ("pods", "mine")]
    assert asked == {"first": [*of_own, ("resourceclaims", "others")], "soon": of_own, "later": asked["first"]}


# Tokens that nobody has


def test_tokens_that_nobody_has_push_out_none_that_somebody_has(entrance: Entrance) -> None:
    entrance.door.admit("good")
    for number in range(MOST_KEPT + 100):
        entrance.refused(f"made-up-{number}")
    entrance.api.asked.clear()
    entrance.door.admit("good")
    entrance.refused(f"made-up-{MOST_KEPT + 99}")
    assert not entrance.api.asked
    entrance.refused("made-up-0")
    assert entrance.api.asked == [("token", "made-up-0")]


def test_tokens_of_the_accounts_of_a_namespace_push_out_only_each_other(entrance: Entrance) -> None:
    """Whoever may make a service account and its tokens makes as many as they like."""
    entrance.door.admit("good")
    for number in range(MOST_KEPT + 100):
        name = f"system:serviceaccount:theirs:{number % 50}"
        entrance.api.users[f"sa-{number}"] = {"username": name}
        entrance.api.spec = {"user": name}
        entrance.door.admit(f"sa-{number}")
    entrance.api.asked.clear()
    assert entrance.door.admit("good").who == "anna"
    assert not entrance.api.asked
    assert entrance.door.admit(f"sa-{MOST_KEPT + 99}").who == "system:serviceaccount:theirs"


def test_a_token_that_nobody_has_any_more_is_not_kept(entrance: Entrance) -> None:
    entrance.door.admit("good")
    del entrance.api.users["good"]
    entrance.clock.sleep(KEPT_SECONDS)
    entrance.refused("good")
    entrance.api.users["good"] = USER
    entrance.clock.sleep(KEPT_SECONDS)
    assert entrance.door.admit("good").sees("mine")


class SlowReviewer(Reviewer):
    """Answers about tokens that nobody has when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()

    def call(self, call: ApiCall) -> Any:
        if call.resource == TOKEN_REVIEWS and call.body["spec"]["token"] not in self.users:
            assert self.answers.wait(PATIENCE_SECONDS)
        return super().call(call)


def test_while_tokens_that_nobody_has_are_reviewed_users_who_are_known_come_in() -> None:
    entrance = Entrance(SlowReviewer())
    entrance.door.admit("good")
    with ThreadPoolExecutor(20) as pool:
        made_up = [pool.submit(entrance.refused, f"made-up-{number}") for number in range(12)]
        entrance.clock.sleep(KEPT_SECONDS)
        assert entrance.door.admit("good").sees("mine")
        entrance.api.users["new"] = USER
        new = pool.submit(entrance.door.admit, "new")
        assert isinstance(entrance.api, SlowReviewer)
        entrance.api.answers.set()
        assert new.result(PATIENCE_SECONDS).sees("mine")
        assert {one.result(PATIENCE_SECONDS).status for one in made_up} == {HTTPStatus.UNAUTHORIZED}


def test_nobody_is_let_in_while_the_api_server_does_not_answer(entrance: Entrance) -> None:
    entrance.api.broken = True
    refused = entrance.refused("good")
    assert (refused.status, "no route to host" in str(refused)) == (HTTPStatus.SERVICE_UNAVAILABLE, True)
    entrance.api.broken = False
    visitor = entrance.door.admit("good")
    entrance.api.broken = True
    with pytest.raises(NotAdmitted):
        visitor.sees("mine")
