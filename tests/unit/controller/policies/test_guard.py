"""The guard says why nothing may be allocated, and takes it back by itself."""

import copy
from typing import Any

from structlog.testing import capture_logs

from controller.policies import PolicyGuard, expected_policies
from driver.kube.api import Api, ApiError, Forbidden, NotFound, Object, Unavailable
from driver.observe import Metrics, logger

POLICIES = expected_policies()
NAME = "single-allocator.lode.dev"
POLICY, BINDING = f"ValidatingAdmissionPolicy {NAME}", f"ValidatingAdmissionPolicyBinding {NAME}"


class Stored:
    """The policies in the API."""

    def __init__(self, *, from_others: bool = False) -> None:
        self.objects: dict[str, Object | ApiError] = {
            f"{one['kind']} {one['metadata']['name']}": copy.deepcopy(one) for one in POLICIES
        }
        self.metrics = Metrics()
        self.guard = PolicyGuard(self._api(), POLICIES, self.metrics, logger("test"), from_others=from_others)

    def _api(self) -> Api:
        return self  # type: ignore[return-value]

    def get(self, resource: Any, name: str, namespace: str = "") -> Object:
        found = self.objects.get(f"{resource.kind} {name}", NotFound("no", status=404))
        if isinstance(found, ApiError):
            raise found
        return found

    def problem(self) -> str:
        self.guard.step()
        return self.guard.problem

    def gauge(self, policy: str) -> float | None:
        return self.metrics.registry.get_sample_value("lode_controller_policy_in_force", {"policy": policy})


def test_policies_as_installed_are_no_problem() -> None:
    stored = Stored()
    assert stored.guard.problem == "the admission policies could not be read yet"
    assert stored.problem() == ""
    assert stored.gauge(POLICY) == 1


def test_a_missing_binding_is_a_problem_until_it_is_back() -> None:
    stored = Stored()
    stored.problem()
    kept = stored.objects.pop(BINDING)
    with capture_logs() as lines:
        problems = [stored.problem() for _ in range(3)]
    assert f"{BINDING}: does not exist; apply the manifests of this version again" in problems[0]
    assert len(set(problems)) == 1
    assert [(line["event"], line["policy"]) for line in lines] == [("admission policy not in force", BINDING)]
    assert stored.gauge(BINDING) == 0
    stored.objects[BINDING] = kept
    assert stored.problem() == ""
    assert stored.gauge(BINDING) == 1


def test_a_policy_that_must_not_be_read_is_a_problem() -> None:
    stored = Stored()
    stored.objects[POLICY] = Forbidden("no right", status=403)
    assert f"{POLICY}: cannot be read: no right" in stored.problem()


def test_an_api_that_does_not_answer_changes_nothing() -> None:
    stored = Stored()
    stored.problem()
    answers = dict(stored.objects)
    stored.objects = dict.fromkeys(answers, Unavailable("down"))
    assert stored.problem() == ""
    stored.objects = {**answers, POLICY: NotFound("no", status=404)}
    assert "does not exist" in stored.problem()
    stored.objects = dict.fromkeys(answers, Unavailable("down"))
    assert "does not exist" in stored.problem()


def test_policies_that_take_drivers_from_kube_scheduler_have_to_be_seen_twice_in_a_row() -> None:
    new = "the admission policies are new, and API servers may not act on them yet"
    stored = Stored(from_others=True)
    assert [stored.problem(), stored.problem(), stored.problem()] == [new, "", ""]
    kept = stored.objects.pop(BINDING)
    assert f"{BINDING}: does not exist" in stored.problem()
    stored.objects[BINDING] = kept
    assert [stored.problem(), stored.problem()] == [new, ""]


def test_what_was_seen_twice_holds_while_the_api_does_not_answer() -> None:
    stored = Stored(from_others=True)
    answers = dict(stored.objects)
    stored.problem()
    stored.objects = dict.fromkeys(answers, Unavailable("down"))
    assert stored.problem() != ""
    stored.objects = answers
    assert stored.problem() == ""
    stored.objects = dict.fromkeys(answers, Unavailable("down"))
    assert stored.problem() == ""
