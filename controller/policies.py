"""Checks the admission policies again and again. Without them, two programs could allocate one device.

API servers act on a policy a moment after it is stored. Where devices are allocated that kube-scheduler may have been
allocating until then, the policies have to be as expected in two looks in a row, and whoever decides has to read the
claims once more after that: what kube-scheduler wrote before is seen then, and it writes nothing more.

The policies that are expected are those of ``manifests/``: beside this module in the wheel, in ``manifests`` in a
checkout. Any difference in the spec counts, because whether an expression still refuses as much cannot be told from its
text. These do not count: labels, annotations, white space, defaults that the API server fills in, messages to users,
and the selection of namespaces in a mutating policy. Which pods wait for the controller is the operator's choice, and a
pod without the gate is only served later.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from driver.allocated_texts import with_drivers
from driver.errors import Fault, InvalidInput
from driver.kube.api import Api, ApiError, Forbidden, NotFound, Object, Resource
from driver.names import CONTROLLER_NAMESPACE, DEFAULT_DRIVER, PLUGIN_NAMESPACE, pattern_of, renamed
from driver.observe import Logger, Metrics
from driver.yaml_values import LOADER

_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parent / "manifests"
_ACCOUNT = re.compile(f"(system:serviceaccount:)({CONTROLLER_NAMESPACE}|{PLUGIN_NAMESPACE}):")
"""Service accounts of the namespaces that the manifests install into."""
_PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


def policy_resource(policy: Object) -> Resource:
    """Return the resource under which the API serves the policy or binding."""
    kind = policy["kind"]
    return Resource("admissionregistration.k8s.io", "v1", _PLURALS[kind], kind, namespaced=False)


def expected_policies(
    driver: str = DEFAULT_DRIVER,
    controller: str = CONTROLLER_NAMESPACE,
    plugin: str = PLUGIN_NAMESPACE,
    also: Sequence[str] = (),
) -> Sequence[Object]:
    """Return the admission policies and bindings that must exist if the two programs run in these namespaces.

    Args:
        driver: the driver's name.
        also: other drivers whose devices the controller allocates.

    Raises:
        InvalidInput: the files are missing; the installation is damaged.
    """
    return [*base_policies(driver, controller, plugin, also), *controller_policies(driver, controller, plugin, also)]


def base_policies(driver: str, controller: str, plugin: str, also: Sequence[str] = ()) -> Sequence[Object]:
    """Return the policies of both flavors.

    Raises:
        InvalidInput: the files are missing; the installation is damaged.
    """
    return _policies("base", driver, {CONTROLLER_NAMESPACE: controller, PLUGIN_NAMESPACE: plugin}, also)


def controller_policies(driver: str, controller: str, plugin: str, also: Sequence[str] = ()) -> Sequence[Object]:
    """Return the policies of the flavor in which the controller allocates.

    Raises:
        InvalidInput: the files are missing; the installation is damaged.
    """
    return _policies("controller", driver, {CONTROLLER_NAMESPACE: controller, PLUGIN_NAMESPACE: plugin}, also)


def _policies(folder: str, driver: str, namespaces: Mapping[str, str], also: Sequence[str]) -> list[Object]:
    places = (_HERE / "manifests" / folder, _CHECKOUT / folder)
    files = next((found for place in places if (found := sorted(place.glob("*-policy.yaml")))), None)
    if files is None:
        raise InvalidInput("manifests", [Fault(str(places[0]), "missing files *-policy.yaml; reinstall lode-dra")])
    # First ours, then those of others: what they are called is nobody's to change.
    texts = [with_drivers(renamed(file.read_text(), driver, pattern_of(driver)), driver, also) for file in files]
    documents = [document for text in texts for document in yaml.load_all(text, Loader=LOADER) if document]
    text = json.dumps([document for document in documents if "AdmissionPolicy" in document["kind"]])
    policies: list[Object] = json.loads(_ACCOUNT.sub(lambda match: f"{match[1]}{namespaces[match[2]]}:", text))
    return policies


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


_DEFAULTS: Final[Mapping[str, Any]] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "reinvocationPolicy": "Never",
    "scope": "*",
}
"""Values that the API server takes for missing fields (admissionregistration.k8s.io/v1)."""
_MESSAGES: Final = frozenset({"auditAnnotations", "message", "messageExpression", "reason"})


def deviation(expected: Object, actual: Object) -> str:
    """Return the first field of the spec of ``actual`` that is not as expected, and both values; "" if all are."""
    return _difference("spec", _essence(expected), _essence(actual))


def _essence(obj: Object) -> Any:
    spec = dict(obj.get("spec") or {})
    if obj["kind"].startswith("Mutating") and "matchConstraints" in spec:
        spec["matchConstraints"] = {**spec["matchConstraints"], "namespaceSelector": None}
    if "Deny" in (spec.get("validationActions") or ()):
        # More actions, such as Audit, take nothing away.
        spec["validationActions"] = ["Deny"]
    return _canonical(spec)


def _canonical(value: Any) -> Any:
    match value:
        case Mapping():
            parts = {name: _canonical(part) for name, part in value.items() if name not in _MESSAGES}
            return {
                name: part
                for name, part in parts.items()
                if part not in (None, "", [], {}) and _DEFAULTS.get(name) != part
            }
        case list():
            return [_canonical(part) for part in value]
        case str():
            return " ".join(value.split())
    return value


def _difference(path: str, expected: Any, actual: Any) -> str:
    if isinstance(expected, dict) and isinstance(actual, dict):
        names = sorted({*expected, *actual})
        found = (_difference(f"{path}.{name}", expected.get(name), actual.get(name)) for name in names)
        return next(filter(None, found), "")
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return next(filter(None, (_difference(f"{path}[{at}]", one, other) for at, (one, other) in pairs)), "")
    if expected == actual:
        return ""
    return f"{path}: {_text(actual)} in the place of {_text(expected)}"


def _text(value: Any) -> str:
    return "nothing" if value is None else str(value)
