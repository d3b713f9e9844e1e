"""Checks the admission policies again and again. Without them, two programs could allocate one device.

API servers act on a policy a moment after it is stored. Where devices are allocated that kube-scheduler may have been
allocating until then, the policies have to be as expected in two looks in a row, and whoever decides has to read the
claims once more after that: what kube-scheduler wrote before is seen then, and it writes nothing more.
"""

from collections.abc import Sequence
from typing import Final

from controller.policies.comparison import deviation
from controller.policies.shipped import policy_resource
from driver.kube.api import Api, ApiError, Forbidden, NotFound, Object
from driver.observe import Logger, Metrics

INTERVAL_SECONDS: Final = 10.0
"""Time between two looks: how long a missing policy can go unnoticed."""
_REMEDY: Final = "apply the manifests of this version again, or set controller.verifyPolicies to false"


class PolicyGuard:
    """Compares the policies in the API with those that are expected. It has no threads: its owner calls ``step``.

    Args:
        from_others: whether the policies take drivers from kube-scheduler, which may have been allocating for them.
    """

    def __init__(
        self, api: Api, expected: Sequence[Object], metrics: Metrics, log: Logger, *, from_others: bool = False
    ):
        self._api = api
        self._from_others = from_others
        self._expected = {f"{obj['kind']} {obj['metadata']['name']}": obj for obj in expected}
        self._problems: dict[str, str | None] = dict.fromkeys(self._expected)
        """Reason why each policy is not in force, "" if it is; None while it could not be read yet."""
        self._settled = not from_others
        """Whether every API server acts on the policies that are in force."""
        self._log = log
        self._gauge = metrics.gauge(
            "controller_policy_in_force", "1 while the admission policy or binding is as expected.", "policy"
        )

    @property
    def problem(self) -> str:
        """Reason why nothing may be allocated; "" if every policy was in force at the last look. Safe in any thread."""
        problems = dict(self._problems)
        wrong = [f"{name}: {problem}" for name, problem in problems.items() if problem]
        if wrong:
            return f"admission policies are not in force: {'; '.join(wrong)}; {_REMEDY}"
        if None in problems.values():
            return "the admission policies could not be read yet"
        return "" if self._settled else "the admission policies are new, and API servers may not act on them yet"

    def step(self) -> float:
        """Look at every policy; return the seconds to wait before the next step.

        An API that does not answer changes nothing: the last answer holds.
        """
        before = set(self._problems.values())
        answers = {name: self._look_at(expected) for name, expected in self._expected.items()}
        for name, problem in answers.items():
            if problem is not None and problem != self._problems[name]:
                self._note(name, problem)
        found = set(answers.values())
        if found <= {""}:
            self._settled |= before <= {""}
        elif not found <= {"", None}:
            self._settled = not self._from_others
        return INTERVAL_SECONDS

    def _look_at(self, expected: Object) -> str | None:
        try:
            return deviation(expected, self._api.get(policy_resource(expected), expected["metadata"]["name"]))
        except NotFound:
            return "does not exist"
        except Forbidden as error:
            return f"cannot be read: {error}"
        except ApiError:
            return None

    def _note(self, name: str, problem: str) -> None:
        if problem:
            self._log.error("admission policy not in force", policy=name, problem=problem, remedy=_REMEDY)
        elif self._problems[name]:
            self._log.info("admission policy in force again", policy=name)
        self._problems[name] = problem
        self._gauge.labels(name).set(0 if problem else 1)
