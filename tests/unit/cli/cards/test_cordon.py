"""`lode cordon`, `lode uncordon` and `lode reset` on an API server."""

import pytest

from controller.state import DEVICE_TAINT_RULES_BETA
from driver.kube.api import DEVICE_TAINT_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES, NotFound
from tests.unit.cli.cards.operator import Operator
from tests.unit.cli.cluster import slices

OF_GPU_1 = ["gpu-1-share.n.cordon.lode.dev", "gpu-1.n.cordon.lode.dev"]


def other_rule(name: str, **selector: str) -> dict[str, object]:
    spec = {"taint": {"key": "example.com/repair", "value": "fan", "effect": "NoExecute"}, "deviceSelector": selector}
    return {
        "apiVersion": DEVICE_TAINT_RULES.api_version,
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_card_is_cordoned_and_uncordoned_by_one_command_which_may_be_repeated(operator: Operator) -> None:
    status, out, _ = operator.call("cordon", "n/1")
    assert status == 0
    assert out.startswith("card n/gpu-1 cordoned: gpu-1 (T4, GPU-")
    assert operator.rules == OF_GPU_1
    assert operator.call("cordon", "n/gpu-1-share") == (0, "card n/gpu-1 already cordoned\n", "")
    assert operator.rules == OF_GPU_1
    assert operator.call("uncordon", "n/gpu-1") == (0, "card n/gpu-1 uncordoned\n", "")
    assert operator.rules == []
    assert operator.call("uncordon", "n/gpu-1") == (0, "card n/gpu-1 was not cordoned by this command\n", "")


def test_all_partitions_of_a_card_are_cordoned_and_those_of_no_other_card(operator: Operator) -> None:
    assert operator.call("cordon", "m/gpu-2")[0] == 0
    devices = [
        device["name"]
        for part in operator.stored.list(RESOURCE_SLICES).items
        for device in part["spec"].get("devices", ())
    ]
    expected = {f"{name}.m.cordon.lode.dev" for name in devices if name.startswith("gpu-2")}
    assert set(operator.rules) == expected
    assert len(expected) > 10


def test_a_node_is_cordoned_by_one_rule_that_also_taints_what_it_publishes_later(operator: Operator) -> None:
    assert operator.call("cordon", "n")[1] == (
        "all cards of node n cordoned: gpu-0, gpu-1, and what the node publishes later\n"
    )
    (rule,) = operator.stored.list(DEVICE_TAINT_RULES).items
    assert rule["spec"]["deviceSelector"] == {"driver": "lode.dev", "pool": "n/lode.dev"}
    status, out, _ = operator.call("uncordon", "n/gpu-1")
    assert status == 1
    assert out.splitlines() == [
        "card n/gpu-1 was not cordoned by this command",
        "  still out of service: gpu-1: cordoned: kubectl lode uncordon n",
    ]
    assert operator.call("uncordon", "n") == (0, "all cards of node n uncordoned\n", "")


def test_a_card_that_is_cordoned_by_itself_stays_so_when_its_node_is_uncordoned(operator: Operator) -> None:
    operator.call("cordon", "n/gpu-1")
    operator.call("cordon", "n")
    status, out, _ = operator.call("uncordon", "n")
    assert status == 1
    assert out.splitlines() == [
        "all cards of node n uncordoned",
        "  still out of service: gpu-1: cordoned: kubectl lode uncordon n/gpu-1",
    ]
    assert operator.rules == OF_GPU_1


def test_a_rule_of_somebody_else_is_left_alone_and_told(operator: Operator) -> None:
    operator.stored.create(DEVICE_TAINT_RULES, other_rule("repair", pool="n/lode.dev", device="gpu-1"))
    operator.call("cordon", "n/gpu-1")
    status, out, _ = operator.call("uncordon", "n/gpu-1")
    assert status == 1
    assert "still out of service: gpu-1: example.com/repair=fan:NoExecute, of DeviceTaintRule repair" in out
    assert operator.rules == ["repair"]


def test_a_taint_of_the_plugin_is_told(operator: Operator) -> None:
    for part in operator.stored.list(RESOURCE_SLICES).items:
        devices = part["spec"].get("devices", ())
        if part["spec"]["nodeName"] == "n" and devices:
            marked = [{**one, "taints": [{"key": "lode.dev/unhealthy", "effect": "NoSchedule"}]} for one in devices]
            operator.stored.update(RESOURCE_SLICES, {**part, "spec": {**part["spec"], "devices": marked}})
    operator.call("cordon", "n")
    status, out, _ = operator.call("uncordon", "n")
    assert status == 1
    assert "still out of service: gpu-0, gpu-1: lode.dev/unhealthy:NoSchedule, of the plugin of the node" in out


def test_a_card_that_is_gone_can_still_be_uncordoned_by_its_name(operator: Operator) -> None:
    operator.call("cordon", "n/gpu-1")
    for part in operator.stored.list(RESOURCE_SLICES).items:
        operator.stored.delete(RESOURCE_SLICES, part["metadata"]["name"])
    assert operator.call("uncordon", "n/gpu-1")[:2] == (0, "card n/gpu-1 uncordoned\n")
    assert operator.rules == []


def test_a_dry_run_changes_nothing(operator: Operator) -> None:
    assert "cordoned (dry run)" in operator.call("cordon", "n", "--dry-run")[1]
    assert operator.rules == []
    operator.call("cordon", "n")
    assert "uncordoned (dry run)" in operator.call("uncordon", "n", "--dry-run=client")[1]
    assert len(operator.rules) == 1


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["cordon", "x"], "node x publishes no cards of lode.dev; correct the name"),
        (["cordon", "n/7"], "node n has no card '7'; its cards: gpu-0 (T4, GPU-"),
        (["cordon", "n/GPU-"], "'GPU-' names several cards of node n: gpu-0 (T4, GPU-"),
        (["uncordon", "n/7"], "node n has no card '7'"),
        (["drain", "/"], "'/' names no card"),
        (["reset", "n"], "'n' names no single card; write one of n/gpu-0, n/gpu-1"),
    ],
)
def test_what_names_no_card_is_refused(operator: Operator, argv: list[str], problem: str) -> None:
    status, out, err = operator.call(*argv)
    assert (status, out) == (2, "")
    assert err.startswith(f"lode {argv[0]}: {problem}")


def test_without_the_api_of_the_rules_the_remedy_is_told(operator: Operator) -> None:
    operator.api.absent = {DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA}
    status, _, err = operator.call("cordon", "n")
    assert status == 2
    assert "serves no DeviceTaintRules" in err
    assert "--runtime-config=resource.k8s.io/v1beta2=true" in err


def test_rules_are_made_in_the_version_that_is_served(operator: Operator) -> None:
    operator.api.absent = {DEVICE_TAINT_RULES}
    with pytest.MonkeyPatch.context() as patch:
        made: list[tuple[str, str]] = []
        call = operator.stored.call

        def beta(asked):  # type: ignore[no-untyped-def]
            if asked.resource != DEVICE_TAINT_RULES_BETA:
                return call(asked)
            if asked.verb == "create":
                made.append((asked.resource.version, asked.body["apiVersion"]))
                return {**asked.body, "metadata": {**asked.body["metadata"], "uid": "u", "resourceVersion": "1"}}
            return call(type(asked)("list", DEVICE_TAINT_RULES))

        patch.setattr(operator.stored, "call", beta)
        assert operator.call("cordon", "n")[0] == 0
    assert made == [("v1beta2", "resource.k8s.io/v1beta2")]


@pytest.mark.parametrize(
    ("command", "verb", "resource"),
    [
        ("cordon", "list", RESOURCE_SLICES),
        ("cordon", "list", DEVICE_TAINT_RULES),
        ("cordon", "create", DEVICE_TAINT_RULES),
        ("uncordon", "delete", DEVICE_TAINT_RULES),
        ("reset", "list", RESOURCE_CLAIMS),
    ],
)
def test_a_missing_right_is_told_with_its_role(operator: Operator, command: str, verb: str, resource: object) -> None:
    if command == "uncordon":
        operator.call("cordon", "n/gpu-0")
    operator.api.denied = {(verb, resource)}  # type: ignore[arg-type]
    status, _, err = operator.call(command, "n/gpu-0")
    assert status == 2
    assert f"you may not {verb} {resource.plural}" in err  # type: ignore[attr-defined]
    assert "docs/cards.md has the ClusterRole" in err


# Reset


def test_a_card_that_is_cordoned_and_free_is_reset_by_hand(operator: Operator) -> None:
    operator.call("cordon", "n/gpu-1")
    status, out, err = operator.call("reset", "n/gpu-1")
    assert (status, err) == (0, "")
    assert out.startswith("To reset card n/gpu-1 gpu-1 (T4, GPU-")
    assert "nvidia-smi --gpu-reset -i GPU-" in out
    assert out.splitlines()[-1].partition(". ")[2].startswith("when the card works again, put it back into service")


def test_the_steps_of_another_vendor_are_other_steps(operator: Operator) -> None:
    for part in slices("a", "ascend310px4"):
        operator.stored.create(RESOURCE_SLICES, part)
    operator.call("cordon", "a/npu-2")
    out = operator.call("reset", "a/2")[1]
    assert "npu-smi info -m" in out
    assert "Chip Phy-ID 2" in out
    assert "npu-smi set -t reset -i ID -c CHIP" in out
    assert "nvidia" not in out


def test_a_card_that_a_claim_holds_must_not_be_reset(operator: Operator) -> None:
    operator.hold("train", "n/gpu-1-share")
    operator.call("cordon", "n/gpu-1")
    status, out, err = operator.call("reset", "n/gpu-1")
    assert (status, out) == (1, "")
    assert "card n/gpu-1 must not be reset now; kubectl lode drain n/gpu-1" in err
    assert "held by claim default/train (n/gpu-1-share), used by pods/train" in err
    assert operator.call("reset", "n/gpu-0")[0] == 1, "not cordoned"


def test_a_card_that_a_new_claim_could_get_must_not_be_reset(operator: Operator) -> None:
    status, out, err = operator.call("reset", "n/gpu-1")
    assert (status, out) == (1, "")
    assert "a new claim could get it: it is not cordoned" in err


def test_who_watches_a_card_with_admin_access_is_named_among_the_steps(operator: Operator) -> None:
    operator.hold("monitoring", "n/gpu-1", result={"adminAccess": True})
    operator.call("cordon", "n/gpu-1")
    status, out, _ = operator.call("reset", "n/gpu-1")
    assert status == 0
    assert "1. end the pods that watch the card: claim default/monitoring (n/gpu-1), used by pods/monitoring" in out


def test_a_rule_that_is_gone_already_is_no_error(operator: Operator) -> None:
    operator.call("cordon", "n")
    call = operator.stored.call

    def gone(asked):  # type: ignore[no-untyped-def]
        if asked.verb == "delete":
            call(asked)
            raise NotFound("gone", status=404)
        return call(asked)

    operator.stored.call = gone  # type: ignore[method-assign]
    assert operator.call("uncordon", "n")[0] == 0
