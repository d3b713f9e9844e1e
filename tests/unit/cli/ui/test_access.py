"""Users of a cluster see the fleet with the rights of their own tokens; the API server is asked, and not too often."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import pytest

from cli.ui.access import ACCESS_REVIEWS, KEPT_SECONDS, TOKEN_REVIEWS, NotAdmitted, ReviewedDoor
from cli.ui.questions import ClusterQuestions
from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiCall, Unavailable
from simulation.clock import VirtualClock
from tests.unit.cli.ui.fleets import NAMES

USER = {"username": "anna", "uid": "7", "groups": ["team-a", "system:authenticated"], "extra": {"k": ["v"]}}
SPEC = {"user": "anna", "uid": "7", "groups": ["team-a", "system:authenticated"], "extra": {"k": ["v"]}}


class Reviewer(Api):
    """An API server that reviews tokens and rights, and nothing else."""

    def __init__(self) -> None:
        self.users: dict[str, Any] = {"good": USER}
        self.rights = {("resourceslices", ""), ("resourceclaims", "mine"), ("pods", "mine"), ("pods", "half")}
        self.asked: list[tuple[str, str]] = []
        self.broken = False

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
        assert spec == SPEC
        assert wanted["verb"] == "list"
        assert wanted["group"] == ("" if wanted["resource"] == "pods" else "resource.k8s.io")
        place = wanted["resource"], wanted.get("namespace", "")
        self.asked.append(place)
        return {"status": {"allowed": place in self.rights}}


class Entrance:
    def __init__(self) -> None:
        self.api, self.clock = Reviewer(), VirtualClock()
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


def test_tokens_that_nobody_has_are_forgotten(entrance: Entrance) -> None:
    entrance.door.admit("good")
    for number in range(600):
        entrance.refused(f"made-up-{number}")
    entrance.api.asked.clear()
    entrance.refused("made-up-599")
    assert not entrance.api.asked
    entrance.door.admit("good")
    assert ("token", "good") in entrance.api.asked


def test_nobody_is_let_in_while_the_api_server_does_not_answer(entrance: Entrance) -> None:
    entrance.api.broken = True
    refused = entrance.refused("good")
    assert (refused.status, "no route to host" in str(refused)) == (HTTPStatus.SERVICE_UNAVAILABLE, True)
    entrance.api.broken = False
    visitor = entrance.door.admit("good")
    entrance.api.broken = True
    with pytest.raises(NotAdmitted):
        visitor.sees("mine")
