"""The victims for one pod: no more than needed, the least important ones, and nobody who may not be one."""

from dataclasses import replace

from controller.placement import PodDemand
from controller.placement.needs import HostPort
from controller.preemption import Preemption, Unevicted
from controller.preemption.occupancy import GangMember, RunningGang
from controller.refusal import Refusal
from tests.unit.controller.allocation.small_fleets import claim
from tests.unit.controller.preemption.cases import HALF, KINDS, PART, SMALL, THIRD, WHOLE, Cluster, nobody, pod, victims


def test_a_pod_of_lower_priority_goes_for_its_card() -> None:
    cluster = Cluster([1])
    cluster.hold("low", WHOLE)
    answer = cluster.preempt(pod(WHOLE))
    assert victims(answer) == ["low"]
    assert isinstance(answer, Preemption)
    assert answer.victims[0].claims == ("ns/low",)
    assert answer.least
    (placement,) = answer.placements
    assert placement.node == "n1"


def test_nobody_goes_if_there_is_room() -> None:
    cluster = Cluster([1, 1])
    cluster.hold("low", WHOLE)
    answer = cluster.preempt(pod(WHOLE))
    assert victims(answer) == []
    assert isinstance(answer, Preemption)
    assert answer.placements[0].node == "n2"


def test_equal_priority_is_not_lower() -> None:
    cluster = Cluster([1])
    cluster.hold("equal", WHOLE, priority=10)
    answer = cluster.preempt(pod(WHOLE))
    assert isinstance(answer, Refusal)
    assert [(one.reason, one.pods, one.some) for one in answer.why.kept] == [
        ("do not have a lower priority", 1, ("ns/equal",))
    ]
    assert answer.why.in_vain == 0


def test_victims_compare_by_priority_then_cards_then_number_then_age() -> None:
    cluster = Cluster([1, 1, 1, 1, 1])
    cluster.hold("higher", SMALL, node="n1", priority=2)
    cluster.hold("whole", WHOLE, node="n2", priority=1)
    for name in ("third", "other-third"):
        cluster.hold(name, THIRD, node="n3", priority=1)
    cluster.hold("old-half", HALF, node="n4", priority=1, created=1)
    cluster.hold("young-half", HALF, node="n5", priority=1, created=2)
    gone = []
    for expected in (["young-half"], ["old-half"], ["other-third", "third"], ["whole"], ["higher"]):
        assert victims(cluster.preempt(pod(WHOLE))) == expected
        for name in expected:
            cluster.change(name, kept="are protected")
        gone += expected
    answer = cluster.preempt(pod(WHOLE))
    assert isinstance(answer, Refusal)
    assert [(one.reason, one.pods) for one in answer.why.kept] == [("are protected", 6)]


def test_the_example_of_the_package() -> None:
    """The table at the top of ``controller.preemption``."""
    cluster = Cluster([2] * 5)
    cluster.hold("a", WHOLE, node="n1", priority=5)
    cluster.hold("b", WHOLE, node="n1")
    cluster.hold("c", WHOLE, node="n2", created=1)
    cluster.hold("d", WHOLE, node="n2", created=2)
    for name, node in (("e", "n3"), ("f", "n4")):
        cluster.hold(name, WHOLE, WHOLE, node=node, gang="ns/gang")
    cluster.gangs = {"ns/gang": RunningGang("ns/gang", (GangMember("uid-e"), GangMember("uid-f")), 2)}
    cluster.hold("g", WHOLE, WHOLE, node="n5", priority=10)
    for expected in (["d", "c"], ["e", "f"], ["b", "a"]):
        found = victims(cluster.preempt(pod(WHOLE, WHOLE)))
        assert (found if "e" not in found else sorted(found)) == expected
        for name in expected:
            cluster.change(name, kept="are protected")
    assert isinstance(cluster.preempt(pod(WHOLE, WHOLE)), Refusal)


def test_two_halves_of_two_cards_are_spared_if_one_card_is_enough() -> None:
    cluster = Cluster([2])
    for name in ("a", "b", "c"):
        assert cluster.hold(name, HALF)
    assert victims(cluster.preempt(pod(WHOLE))) == ["c"]
    assert victims(cluster.preempt(pod(WHOLE, WHOLE))) == ["a", "b", "c"]


def test_partitions_count_what_they_take_of_a_card() -> None:
    cluster = Cluster([1])
    cluster.hold("part", PART)
    for at in range(3):
        assert cluster.hold(f"small-{at}", SMALL)
    # Three sevenths are less than half a card.
    assert victims(cluster.preempt(pod(PART))) == ["small-0", "small-1", "small-2"]
    cluster.change("small-1", kept="are protected")
    assert victims(cluster.preempt(pod(PART))) == ["part"]


def test_preemption_policy_never_preempts_nobody() -> None:
    cluster = Cluster([1])
    cluster.hold("low", WHOLE)
    answer = cluster.preempt(pod(WHOLE, preempts=False))
    assert nobody(answer) == Unevicted(never="its preemptionPolicy is Never")


def test_a_pod_that_is_going_counts_as_gone() -> None:
    cluster = Cluster([1, 1])
    cluster.hold("low", WHOLE)
    cluster.hold("going", WHOLE, node="n2", priority=20, going=True)
    answer = cluster.preempt(pod(WHOLE, preempts=False))
    assert victims(answer) == []
    assert isinstance(answer, Preemption)
    assert [one.pod for one in answer.awaited] == ["ns/going"]
    assert answer.placements[0].node == "n2"


def test_cpu_of_the_victims_counts() -> None:
    cluster = Cluster([2], cpus=4)
    cluster.hold("one", WHOLE, cpus=1)
    cluster.hold("three", WHOLE, cpus=3)
    assert victims(cluster.preempt(pod(WHOLE, cpus=1))) == ["one"]
    assert victims(cluster.preempt(pod(WHOLE, cpus=2))) == ["three"]
    assert victims(cluster.preempt(pod(WHOLE, cpus=4))) == ["one", "three"]


def test_a_node_that_the_pod_may_not_use_loses_nobody() -> None:
    cluster = Cluster([1, 1])
    cluster.hold("a", WHOLE, node="n1", priority=0)
    cluster.hold("b", WHOLE, node="n2", priority=1)
    assert victims(cluster.preempt(pod(WHOLE))) == ["a"]
    assert victims(cluster.preempt(pod(WHOLE, avoid=frozenset({"n1"})))) == ["b"]
    assert victims(cluster.preempt(replace(pod(WHOLE), among=("n2",)))) == ["b"]


def test_host_ports_of_the_victims_count() -> None:
    port = HostPort("TCP", "0.0.0.0", 80)
    cluster = Cluster([2])
    cluster.hold("other", WHOLE, priority=0)
    cluster.hold("listens", WHOLE, priority=1, ports=(port,))
    listening = pod(WHOLE)
    listening = replace(listening, needs=replace(listening.needs, ports=(port,)))
    assert victims(cluster.preempt(pod(WHOLE))) == ["other"]
    assert victims(cluster.preempt(listening)) == ["listens"]


def first_of(*kinds: str) -> PodDemand:
    """A pod that takes the first of these kinds that it can get."""
    either = claim(tuple(replace(KINDS[kind], name=kind) for kind in kinds), name="either")
    return replace(pod(), claims=(either,))


def test_a_later_alternative_without_victims_comes_before_an_earlier_one_with_some() -> None:
    cluster = Cluster([1])
    cluster.hold("half", HALF)
    answer = cluster.preempt(first_of(WHOLE, HALF))
    assert victims(answer) == []
    assert isinstance(answer, Preemption)
    (result,) = answer.placements[0].allocations[0].results
    assert result.request == "r0/half"


def test_of_two_alternatives_with_victims_the_one_with_the_least_is_taken() -> None:
    cluster = Cluster([1, 1])
    cluster.hold("whole", WHOLE, node="n1")
    for name in ("third", "half"):
        assert cluster.hold(name, THIRD if name == "third" else HALF, node="n2")
    assert victims(cluster.preempt(first_of(WHOLE, HALF))) == ["third"]
