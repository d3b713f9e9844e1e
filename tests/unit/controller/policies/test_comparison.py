"""What makes an admission policy weaker is noticed, and what does not is not."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from controller.policies import deviation, expected_policies
from driver.kube.api import Object

POLICIES = {f"{one['kind']} {one['metadata']['name']}": one for one in expected_policies()}
SINGLE = "ValidatingAdmissionPolicy single-allocator.lode.dev"
BINDING = "ValidatingAdmissionPolicyBinding single-allocator.lode.dev"
GATE = "MutatingAdmissionPolicy allocation-gate.lode.dev"
Change = Callable[[Any], Any]


def changed(name: str, change: Change) -> tuple[Object, Object]:
    actual = copy.deepcopy(POLICIES[name])
    change(actual["spec"])
    return POLICIES[name], actual


WEAKER: list[tuple[str, Change, str]] = [
    (SINGLE, lambda spec: spec.update(failurePolicy="Ignore"), "spec.failurePolicy: Ignore"),
    (SINGLE, lambda spec: spec["validations"].clear(), "spec.validations: nothing"),
    (SINGLE, lambda spec: spec["validations"][0].update(expression="true"), "spec.validations[0].expression: true"),
    (SINGLE, lambda spec: spec["matchConditions"].append({"name": "x", "expression": "false"}), "spec.matchConditions"),
    (
        SINGLE,
        lambda spec: spec["matchConstraints"]["resourceRules"][0].update(resourceNames=["a"]),
        "spec.matchConstraints.resourceRules[0].resourceNames",
    ),
    (
        SINGLE,
        lambda spec: spec["matchConstraints"].update(excludeResourceRules=[{"resources": ["*"]}]),
        "spec.matchConstraints.excludeResourceRules",
    ),
    (
        SINGLE,
        lambda spec: spec["matchConstraints"].update(namespaceSelector={"matchLabels": {"a": "b"}}),
        "spec.matchConstraints.namespaceSelector",
    ),
    (SINGLE, lambda spec: spec.update(paramKind={"kind": "ConfigMap"}), "spec.paramKind"),
    (BINDING, lambda spec: spec.update(validationActions=["Warn", "Audit"]), "spec.validationActions"),
    (
        BINDING,
        lambda spec: spec.update(matchResources={"namespaceSelector": {"matchLabels": {"a": "b"}}}),
        "spec.matchR",
    ),
    (BINDING, lambda spec: spec.update(policyName="another"), "spec.policyName: another"),
    (GATE, lambda spec: spec["mutations"].clear(), "spec.mutations: nothing"),
    (
        GATE,
        lambda spec: spec["matchConstraints"]["resourceRules"][0].update(operations=["UPDATE"]),
        "spec.matchConstraints.resourceRules[0].operations",
    ),
    (GATE, lambda spec: spec.update(reinvocationPolicy="Never"), "spec.reinvocationPolicy: nothing"),
]
HARMLESS: list[tuple[str, Change]] = [
    (SINGLE, lambda spec: spec["matchConstraints"].update(matchPolicy="Equivalent", namespaceSelector={})),
    (SINGLE, lambda spec: spec["matchConstraints"]["resourceRules"][0].update(scope="*")),
    (SINGLE, lambda spec: spec["validations"][0].update(messageExpression="'no'", reason="Invalid")),
    (SINGLE, lambda spec: spec["variables"][0].update(expression=f"  {spec['variables'][0]['expression']}\n")),
    (BINDING, lambda spec: spec.update(validationActions=["Deny", "Audit"])),
    (GATE, lambda spec: spec["matchConstraints"].update(namespaceSelector={"matchLabels": {"gated": "yes"}})),
]


@pytest.mark.parametrize(("name", "change", "found"), WEAKER)
def test_a_weaker_policy_is_told_by_its_field(name: str, change: Change, found: str) -> None:
    assert found in deviation(*changed(name, change))


@pytest.mark.parametrize(("name", "change"), HARMLESS)
def test_what_takes_nothing_away_is_no_deviation(name: str, change: Change) -> None:
    assert deviation(*changed(name, change)) == ""


def test_labels_and_annotations_do_not_matter() -> None:
    for policy in POLICIES.values():
        marked = {**policy, "metadata": {**policy["metadata"], "labels": {"a": "b"}, "annotations": {"c": "d"}}}
        assert deviation(policy, marked) == ""


def test_the_service_accounts_are_those_of_the_namespaces() -> None:
    policies = expected_policies("lode.dev", "elsewhere", "lode-system")
    moved = {one["metadata"]["name"]: one for one in policies if "Binding" not in one["kind"]}
    assert "system:serviceaccount:elsewhere:lode-controller" in str(moved["single-allocator.lode.dev"])
    assert "spec.validations[0]" in deviation(moved["single-allocator.lode.dev"], POLICIES[SINGLE])
    assert "system:serviceaccount:lode-system:lode-kubeletplugin" in str(moved["own-slices.lode.dev"])


def test_the_name_of_the_driver_is_everywhere_but_in_labels_of_namespaces_and_nodes() -> None:
    text = str(expected_policies("gpu.example.com"))
    assert "gpu[.]example[.]com" in text
    assert "gpu.example.com/allocation" in text
    labels = {"lode.dev/kubeletplugin": "", "lode.dev/gate": ""}
    for label in labels:
        assert label in text
        text = text.replace(label, "")
    assert "lode.dev" not in text
    assert "lode[.]dev" not in text


def test_the_policies_of_other_drivers_that_are_allocated_name_all_of_them() -> None:
    expected = expected_policies(also=("dra.net", "dra.cpu"))
    differing = {
        one["metadata"]["name"] for one, other in zip(expected, expected_policies(), strict=True) if one != other
    }
    assert differing == {
        f"{name}.lode.dev"
        for name in ("claim-in-use", "controller-writes", "single-allocator", "no-extended-resource-claims")
    }
    text = str(expected)
    assert 'result.driver == "lode.dev"' not in text
    assert text.count('result.driver in ["lode.dev","dra.net","dra.cpu"]') == 5
    assert "(lode[.]dev|dra[.]net|dra[.]cpu)" in text
    assert 'in ["gpu.example.com","dra.net"]' in str(expected_policies("gpu.example.com", also=("dra.net",)))


def test_another_driver_keeps_its_name_though_ours_is_part_of_it() -> None:
    text = str(expected_policies("gpu.example.com", also=("nic.lode.dev",)))
    assert 'in ["gpu.example.com","nic.lode.dev"]' in text
    assert "(gpu[.]example[.]com|nic[.]lode[.]dev)" in text
