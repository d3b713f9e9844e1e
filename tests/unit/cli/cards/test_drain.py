"""`lode drain` evicts the pods that hold a card and no others, keeps budgets, and can be called again at any time."""

import pytest

from cli.commands import seconds_of
from driver.kube.api import PODS, RESOURCE_CLAIMS, Forbidden, Object, Unavailable
from tests.unit.cli.cards.operator import CONTROLLED, Operator
from tests.unit.cli.cluster import pod

ON_DISK = [{"name": "scratch", "emptyDir": {}}]


def test_only_pods_that_hold_the_card_are_evicted(operator: Operator) -> None:
    operator.hold("whole", "n/gpu-0")
    operator.hold("share", "n/gpu-1-share")
    operator.hold("elsewhere", "m/gpu-1")
    status, out, err = operator.call("drain", "n/gpu-1")
    assert (status, err) == (0, "")
    assert out.splitlines()[1:] == ["evicting pod default/share", "pod default/share evicted", "card n/gpu-1 drained"]
    assert operator.pods == ["elsewhere", "whole"]
    assert operator.rules == ["gpu-1-share.n.cordon.lode.dev", "gpu-1.n.cordon.lode.dev"]


def test_every_tenant_of_a_card_and_every_partition_is_evicted(operator: Operator) -> None:
    for number, place in enumerate(("m/gpu-2-mig-1g-5gb-0", "m/gpu-2-mig-1g-5gb-1", "m/gpu-3-mig-1g-5gb-1")):
        operator.hold(f"p{number}", place)
    assert operator.call("drain", "m/gpu-2")[0] == 0
    assert operator.pods == ["p2"]


def test_a_node_is_drained_card_by_card_and_pods_without_cards_stay(operator: Operator) -> None:
    operator.hold("a", "n/gpu-0")
    operator.hold("b", "n/gpu-1")
    operator.stored.create(PODS, pod("web", nodeName="n"), "default")
    assert operator.call("drain", "n")[0] == 0
    assert operator.pods == ["web"]
    assert operator.rules == ["all.n.cordon.lode.dev"]


def test_a_budget_is_respected_until_it_allows_the_eviction(operator: Operator) -> None:
    operator.hold("train", "n/gpu-0", labels={"app": "train"})
    operator.budget(0, app="train")
    waited = []

    def meanwhile() -> None:
        waited.append(operator.clock.monotonic())
        if len(waited) == 12:
            operator.budget(1, app="train")
        operator.pods_end()

    operator.meanwhile = meanwhile
    status, out, err = operator.call("drain", "n/gpu-0", "--timeout", "1m")
    assert status == 0
    assert out.endswith("card n/gpu-0 drained\n")
    assert err.count("pod default/train is not evicted yet, and is tried again:") == 1
    assert "disruption budget b" in err
    assert len(operator.api.evictions) == 4, "every five seconds"


def test_a_budget_that_never_allows_it_ends_with_the_timeout(operator: Operator) -> None:
    operator.hold("train", "n/gpu-0", labels={"app": "train"})
    operator.budget(0, app="train")
    status, _, err = operator.call("drain", "n/gpu-0", "--timeout", "90s")
    assert status == 1
    assert "lode drain: not within 90 s; card n/gpu-0 stays cordoned" in err
    assert "  pod default/train is not evicted: Cannot evict pod as it would violate the pod's disruption budget" in err
    assert "  held by claim default/train (n/gpu-0), used by pods/train" in err
    assert operator.pods == ["train"]


def test_it_ends_after_an_hour_and_says_which_pods_have_not_ended(operator: Operator) -> None:
    operator.hold("train", "n/gpu-0", terminationGracePeriodSeconds=90)
    operator.meanwhile = lambda: None
    status, _, err = operator.call("drain", "n/gpu-0")
    assert status == 1
    assert 3600 <= operator.clock.monotonic() < 3700
    assert "lode drain: not within 3600 s; card n/gpu-0 stays cordoned" in err
    assert "  pod default/train was told to end, with 90 s for it, and has not ended\n" in err
    assert "  held by claim default/train (n/gpu-0), used by pods/train" in err


def test_without_an_end_it_waits_on(operator: Operator) -> None:
    operator.hold("train", "n/gpu-0")

    def meanwhile() -> None:
        if operator.clock.monotonic() > 5000:
            operator.pods_end()

    operator.meanwhile = meanwhile
    assert operator.call("drain", "n/gpu-0", "--timeout", "0")[0] == 0


def test_a_pod_that_waits_at_the_gate_for_the_claim_is_left_alone(operator: Operator) -> None:
    operator.hold("serve", "n/gpu-0")

    def meanwhile() -> None:
        if "next" not in operator.pods:
            made = pod("next", "serve", schedulingGates=[{"name": "lode.dev/allocation"}])
            made["metadata"]["ownerReferences"] = CONTROLLED
            operator.stored.create(PODS, made, "default")
        operator.pods_end()

    operator.meanwhile = meanwhile
    assert operator.call("drain", "n/gpu-0")[0] == 0
    assert operator.evicted == ["serve"]
    assert operator.pods == ["next"]


def test_a_call_that_was_interrupted_is_continued(operator: Operator) -> None:
    operator.hold("train", "n/gpu-0")

    def interrupted() -> None:
        raise KeyboardInterrupt

    operator.meanwhile = interrupted
    with pytest.raises(KeyboardInterrupt):
        operator.call("drain", "n/gpu-0")
    operator.meanwhile = operator.pods_end
    assert operator.call("drain", "n/gpu-0")[0] == 0
    assert operator.evicted == ["train"], "a pod that ends already is not evicted again"
    status, out, _ = operator.call("drain", "n/gpu-0")
    assert (status, out) == (0, "card n/gpu-0 already cordoned\ncard n/gpu-0 drained\n")


def test_pods_whose_loss_nobody_agreed_to_are_named_all_at_once_and_none_is_evicted(operator: Operator) -> None:
    operator.hold("bare", "n/gpu-0", owners=())
    operator.hold("scratch", "n/gpu-1", volumes=ON_DISK)
    operator.hold("third", "n/gpu-1-share")
    status, _, err = operator.call("drain", "n")
    assert status == 1
    assert "pod default/bare: it has no controller, so nobody makes it again (--force evicts it)" in err
    assert "pod default/scratch: the content of its emptyDir would be lost (--delete-emptydir-data evicts it)" in err
    assert operator.api.evictions == []
    assert operator.rules == ["all.n.cordon.lode.dev"]
    assert operator.call("drain", "n", "--force", "--delete-emptydir-data")[0] == 0
    assert operator.pods == []


def test_a_claim_that_was_decided_before_the_cordon_and_written_after_it_is_found(operator: Operator) -> None:
    late: list[Object] = []

    def meanwhile() -> None:
        if not late:
            late.append(operator.hold("late", "n/gpu-0"))
        operator.pods_end()

    operator.meanwhile = meanwhile
    assert operator.call("drain", "n/gpu-0")[0] == 0
    assert operator.pods == []
    assert operator.evicted == ["late"]


def test_it_waits_for_a_claim_that_no_pod_uses(operator: Operator) -> None:
    operator.allocate("orphan", "n/gpu-0")

    def meanwhile() -> None:
        if operator.clock.monotonic() > 20:
            for found in operator.stored.list(RESOURCE_CLAIMS).items:
                operator.stored.update(RESOURCE_CLAIMS, {**found, "status": {}}, "status")

    operator.meanwhile = meanwhile
    assert operator.call("drain", "n/gpu-0")[0] == 0
    assert operator.clock.monotonic() > 20


def test_without_waiting_it_ends_when_every_eviction_is_accepted(operator: Operator) -> None:
    operator.hold("train", "n/gpu-0")
    operator.meanwhile = lambda: None
    status, out, _ = operator.call("drain", "n/gpu-0", "--wait=false")
    assert status == 0
    assert out.endswith("card n/gpu-0: every eviction is accepted\n")


def test_who_only_watches_the_card_is_left_alone(operator: Operator) -> None:
    operator.hold("monitoring", "n/gpu-0", owners=(), result={"adminAccess": True})
    assert operator.call("drain", "n/gpu-0")[0] == 0
    assert operator.pods == ["monitoring"]


def test_the_grace_period_is_passed_on(operator: Operator) -> None:
    operator.hold("a", "n/gpu-0")
    operator.call("drain", "n/gpu-0", "--grace-period", "7")
    operator.hold("b", "n/gpu-1")
    operator.call("drain", "n/gpu-1")
    assert [one.grace_period_seconds for one in operator.api.evictions] == [7, None]
    assert all(one.uid for one in operator.api.evictions), "never another pod of the same name"


def test_a_dry_run_changes_nothing(operator: Operator) -> None:
    operator.hold("train", "n/gpu-0")
    operator.allocate("orphan", "n/gpu-0-share")
    status, out, _ = operator.call("drain", "n/gpu-0", "--dry-run")
    assert status == 0
    assert out.splitlines()[1:] == [
        "evicting pod default/train (dry run)",
        "waiting for claim default/orphan (n/gpu-0-share), which no pod uses (dry run)",
    ]
    assert operator.rules == []
    assert operator.api.evictions == []


@pytest.mark.parametrize("minimum", [2, 3])
def test_it_says_which_gang_it_stops(operator: Operator, minimum: int) -> None:
    for number, place in enumerate(("n/gpu-0", "n/gpu-1", "m/gpu-0")):
        labels = {"lode.dev/gang": "ring"}
        operator.hold(f"w{number}", place, labels=labels, gang={"minAvailable": minimum})
    out = operator.call("drain", "n/gpu-1")[1]
    assert "gang default/ring loses 1 of its 3 members (w1): 2 are left" in out
    assert ("so it stops" in out) == (minimum == 3)


def test_a_missing_right_to_evict_is_told(operator: Operator) -> None:
    operator.hold("train", "n/gpu-0")
    operator.api.broken = Forbidden("pods/eviction is forbidden", status=403)
    status, _, err = operator.call("drain", "n/gpu-0")
    assert status == 2
    assert "you may not create pods/eviction in namespace default" in err


def test_an_api_server_that_is_busy_is_asked_again(operator: Operator) -> None:
    operator.hold("train", "n/gpu-0")
    operator.api.broken = Unavailable("try later", status=503)

    def meanwhile() -> None:
        if operator.clock.monotonic() > 20:
            operator.api.broken = None
        operator.pods_end()

    operator.meanwhile = meanwhile
    assert operator.call("drain", "n/gpu-0")[0] == 0


@pytest.mark.parametrize(
    "option", ["--timeout=soon", "--timeout=", "--wait=perhaps", "--dry-run=server", "--grace-period=x"]
)
def test_a_value_that_no_option_takes_is_refused(operator: Operator, option: str) -> None:
    with pytest.raises(SystemExit) as ended:
        operator.call("drain", "n", option)
    assert ended.value.code == 2


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("90s", 90), ("15m", 900), ("1h30m", 5400), ("1.5s", 1.5)])
def test_durations_are_written_as_for_kubectl(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
