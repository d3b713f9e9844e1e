"""The index of pods is what it would be if only the pods that are there had ever been."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.placement import Needs, needs_of
from controller.placement.needs import PodSelector
from controller.placement.podindex import PodIndex

ZONE = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
ANY = {"topologyKey": "zone", "labelSelector": {}}


def needs(name: str, priority: int, terms: list[Any], claims: list[str]) -> Needs:
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    spec = {"containers": [], "priority": priority, "affinity": affinity, "volumes": volumes}
    return needs_of({"metadata": {"namespace": "ns", "name": name, "labels": {"app": name}}, "spec": spec})


pods = st.builds(
    needs,
    st.sampled_from("ab"),
    st.integers(0, 1),
    st.lists(st.sampled_from([ZONE, ANY]), max_size=2, unique_by=id),
    st.lists(st.sampled_from(["data", "more"]), max_size=2, unique=True),
)
placed = st.lists(st.tuples(pods, st.sampled_from(["n1", "n2"])), max_size=6)


def kept(index: PodIndex) -> dict[str, object]:
    """All that the index keeps, without the time of each change."""
    found = {name: value for name, value in vars(index).items() if name != "clock"}
    for name in ("_terms", "_users", "_groups"):
        found[name] = {key: counts.by_node for key, counts in found[name].items()}
    return found


@given(placed, placed)
def test_pods_that_are_gone_leave_nothing_behind(stay: list[tuple[Needs, str]], go: list[tuple[Needs, str]]) -> None:
    index, expected = PodIndex(), PodIndex()
    for pod, node in (*go, *stay):
        index.add(pod, node)
    for pod, node in go:
        index.remove(pod, node)
    for pod, node in stay:
        expected.add(pod, node)
    assert kept(index) == kept(expected)


@given(placed.filter(bool))
def test_every_change_of_a_term_or_of_the_users_of_a_claim_has_a_time_of_its_own(pods: list[tuple[Needs, str]]) -> None:
    index, times = PodIndex(), Counter[tuple[object, int]]()
    for pod, node in pods:
        index.add(pod, node)
        times.update((term, index._terms[term].changed) for term in pod.pod_anti_affinity)
        times.update((use.claim, index.users(use.claim).changed) for use in pod.volumes)
    assert max(times.values(), default=1) == 1


def test_counts_that_were_made_anew_have_a_later_time_than_those_that_were_forgotten() -> None:
    index = PodIndex()
    asked, *others = [(PodSelector(frozenset({f"ns-{number}"}), None),) for number in range(2000)]
    before = index.group(asked).changed
    for other in others:
        index.group(other)
    assert index.group(asked).changed > before
