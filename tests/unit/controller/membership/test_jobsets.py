"""JobSets: how many members they have, which come first, and which are still to come."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.membership import (
    Coming,
    ConfiguredGang,
    GroupObjects,
    JobSet,
    MembershipInput,
    coming,
    hints_of,
    job_set_from,
    membership_of,
    rank_of_pod,
)
from controller.membership.jobsets import MOST_IN_ORDER
from driver.errors import InvalidInput
from driver.kube.api import Object
from driver.names import Names

LABEL = Names().gang
PREFIX = "jobset.sigs.k8s.io"
WITH_CLAIMS: Object = {"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}}
WITH_LABEL: Object = {"metadata": {"labels": {LABEL: ""}}, "spec": {}}
WITHOUT: Object = {"spec": {}}
BY_OWNER = ConfiguredGang(gang=True)


def part(
    name: str,
    pods: int | None = None,
    replicas: int | None = None,
    completions: int | None = None,
    template: Object = WITH_CLAIMS,
    **fields: Any,
) -> Object:
    job = {"parallelism": pods, "completions": completions, "template": template}
    kept = {key: value for key, value in job.items() if value is not None}
    return {"name": name, **({} if replicas is None else {"replicas": replicas}), "template": {"spec": kept}, **fields}


def after(*names: str, status: str = "Ready") -> dict[str, Any]:
    return {"dependsOn": [{"name": name, "status": status} for name in names]}


def job_set(*parts: Object, order: str = "", namespace: str = "ns") -> JobSet:
    spec: Object = {"replicatedJobs": list(parts)}
    if order:
        spec["startupPolicy"] = {"startupPolicyOrder": order}
    return job_set_from({"metadata": {"namespace": namespace, "name": "train", "uid": "set"}, "spec": spec}, LABEL)


@pytest.mark.parametrize(
    ("parts", "members"),
    [
        ([part("a")], 1),
        ([part("a", 2, 3)], 6),
        ([part("a", 4, 2, completions=3)], 6),
        ([part("a", 1, 1), part("b", 2, 2, completions=8)], 5),
        ([part("a", 2, template=WITHOUT), part("b", 3)], 3),
        ([part("a", 2, template=WITH_LABEL), part("b", 3)], 5),
        ([part("a", 2, replicas=0), part("b", 0)], 0),
        ([], 0),
    ],
)
def test_the_spec_says_how_many_members_there_are(parts: list[Object], members: int) -> None:
    assert job_set(*parts).members == members


INIT, LEADER, WORKERS = part("init", template=WITHOUT), part("leader", 1), part("workers", 2, 2)


@pytest.mark.parametrize(
    ("made", "there", "ended", "missing", "later"),
    [
        # All at once: everything is awaited.
        (job_set(LEADER, WORKERS), {}, {}, 5, {}),
        (job_set(LEADER, WORKERS, order="AnyOrder"), {"leader": 1}, {}, 4, {}),
        # One after another: the first part is awaited, and the others are to come.
        (job_set(LEADER, WORKERS, order="InOrder"), {}, {}, 1, {"workers": 4}),
        (job_set(LEADER, WORKERS, order="InOrder"), {"leader": 1}, {}, 0, {"workers": 4}),
        (job_set(LEADER, {**WORKERS, **after("leader")}), {"leader": 1}, {}, 0, {"workers": 4}),
        # A part of which a member exists is being made.
        (job_set(LEADER, WORKERS, order="InOrder"), {"leader": 1, "workers": 1}, {}, 3, {"workers": 3}),
        (job_set(LEADER, WORKERS, order="InOrder"), {"leader": 1, "workers": 4}, {}, 0, {}),
        (job_set(LEADER, WORKERS, order="InOrder"), {"workers": 3}, {"leader": 1, "workers": 1}, 0, {}),
        # What waits for no member comes first, whatever else it waits for.
        (job_set(INIT, LEADER, WORKERS, order="InOrder"), {}, {}, 1, {"workers": 4}),
        (job_set(INIT, {**LEADER, **after("init")}, {**WORKERS, **after("init")}), {}, {}, 5, {}),
        # What waits for the end of members can have their devices.
        (job_set(LEADER, {**WORKERS, **after("leader", status="Complete")}), {"leader": 1}, {}, 0, {}),
        (job_set(LEADER, {**WORKERS, **after("leader", status="Complete")}), {}, {"leader": 1}, 0, {"workers": 4}),
        (
            job_set(part("a"), {**part("b", 2), **after("a", status="Complete")}, {**part("c", 3), **after("b")}),
            {"a": 1},
            {},
            0,
            {},
        ),
        # A part can only wait for one that stands before it.
        (job_set({**LEADER, **after("workers")}, WORKERS), {}, {}, 5, {}),
    ],
)
def test_which_members_are_awaited_and_which_come_later(
    made: JobSet, there: dict[str, int], ended: dict[str, int], missing: int, later: dict[str, int]
) -> None:
    found = coming(made, there, ended)
    assert (found.missing, {one.part.name: one.count for one in found.later}) == (missing, later)
    assert found.count == sum(later.values())


SETS = st.lists(
    st.tuples(
        st.integers(1, 3), st.integers(1, 3), st.sampled_from([WITH_CLAIMS, WITHOUT]), st.sets(st.integers(0, 3))
    ),
    min_size=1,
    max_size=4,
).map(
    lambda rows: job_set(
        *(
            part(f"p{number}", pods, jobs, template=template, **after(*(f"p{one}" for one in before if one < number)))
            for number, (pods, jobs, template, before) in enumerate(rows)
        )
    )
)


@given(SETS, st.data())
def test_members_that_are_made_when_others_are_ready_are_first_later_and_then_there(made: JobSet, data: Any) -> None:
    """Whenever nothing is missing, members that exist and that come later are all; and so it goes on to the end."""
    there, ready = Counter[str](), set[str]()
    for _ in range(len(made.parts) + 1):
        found: Coming = coming(made, there, {})
        assert found.missing or there.total() + found.count == made.members
        due = [one for one in made.parts.values() if one.name not in ready and ready.issuperset(one.after_ready)]
        if not due:
            break
        for one in due:
            partly = data.draw(st.integers(0, one.members))
            there[one.name] = partly
            found = coming(made, there, {})
            assert (found.missing > 0) >= (0 < partly < one.members)
            there[one.name] = one.members
            ready.add(one.name)
    assert there.total() == made.members
    assert coming(made, there, {}) == Coming(0, ())


def test_ranks_are_in_the_order_of_the_spec_before_the_jobs_exist() -> None:
    known = GroupObjects()
    made = job_set(part("launch", 3, template=WITHOUT), part("a", 2, 2, completions=4), WORKERS, order="InOrder")
    known.job_sets.add(made)
    ranks = {}
    for name, job, index in (("a", 0, 1), ("a", 1, 0), ("workers", 0, 0), ("workers", 1, 1)):
        labels = {
            f"{PREFIX}/jobset-uid": "set",
            f"{PREFIX}/jobset-name": "train",
            f"{PREFIX}/replicatedjob-name": name,
            f"{PREFIX}/job-index": str(job),
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        pod = {"metadata": {"labels": labels}, "spec": WITH_CLAIMS["spec"]}
        membership = membership_of(MembershipInput("ns", hints_of(pod, LABEL), rank_of_pod(pod), BY_OWNER), known)
        assert membership
        assert (membership.terms.size, membership.terms.awaited) == (made.members, "")
        ranks[name, job, index] = membership.rank
    assert list(ranks.values()) == [1, 4, 8, 11]
    later = {rank: (job, index) for rank, job, index in made.parts["workers"].ranks()}
    assert later == {8: (0, 0), 9: (0, 1), 10: (1, 0), 11: (1, 1)}


def test_pods_of_another_namespace_learn_nothing_of_a_job_set() -> None:
    known = GroupObjects()
    known.job_sets.add(job_set(LEADER, WORKERS))
    labels = {f"{PREFIX}/jobset-uid": "set", f"{PREFIX}/jobset-name": "train", f"{PREFIX}/global-replicas": "3"}
    facts = MembershipInput(
        "other", hints_of({"metadata": {"labels": labels}, "spec": WITH_CLAIMS["spec"]}, LABEL), None, BY_OWNER
    )
    membership = membership_of(facts, known)
    assert membership
    assert membership.terms.size is None
    assert "0 of 3 Jobs of JobSet train exist" in membership.terms.awaited


def test_a_job_set_that_goes_or_changes_is_told_to_those_whom_it_concerns() -> None:
    known = GroupObjects().job_sets
    first, second = job_set(LEADER, WORKERS), job_set(LEADER, WORKERS, order="InOrder")
    assert set(known.add(first)) == {"set"}
    assert known.add(first) == ()
    assert known.in_order("ns") == ()
    assert set(known.add(second)) == {"set"}
    assert (known.in_order("ns"), known.in_order("other")) == (("set",), ())
    assert set(known.remove("ns/train")) == {"set"}
    assert known.remove("ns/train") == ()
    assert (known.find("ns", "set"), known.in_order("ns")) == (None, ())


def test_no_job_set_makes_each_of_its_pods_cost_much() -> None:
    parts = [part(f"p{number}") for number in range(MOST_IN_ORDER + 1)]
    assert job_set(*parts).members == len(parts)
    assert job_set(*parts[:-1], order="InOrder").is_in_order
    with pytest.raises(InvalidInput, match="more than 256 that are made one after another"):
        job_set(*parts, order="InOrder")


def test_only_job_sets_with_an_order_keep_what_their_pods_ask_for() -> None:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {**WITH_CLAIMS["spec"], "nodeSelector": {"rack": "a"}}}
    at_once = job_set(part("a"), part("b", template=template)).parts["b"]
    in_order = job_set(part("a"), part("b", template=template), order="InOrder").parts["b"]
    assert at_once.template is None
    assert in_order.template
    assert in_order.template.needs.labels == (("rack", "a"),)
    assert [(use.entry, use.template) for use in in_order.template.claims] == [("gpu", "gpu")]


def test_resources_that_admission_may_take_out_of_pods_do_not_count_before_they_exist() -> None:
    """Where pods are adopted, no node may have such a resource; an InOrder JobSet would never start."""
    names = ("nvidia.com/gpu", "nvidia.com/gpumem", "volcano.sh/vgpu-number", "huawei.com/Ascend910", "example.com/nic")
    container = {"name": "main", "resources": {"requests": {"cpu": "2", **dict.fromkeys(names, 1)}}}
    template = {"metadata": WITH_LABEL["metadata"], "spec": {"containers": [container]}}
    made = job_set(part("a"), part("b", template=template), order="InOrder").parts["b"]
    assert made.template
    assert set(made.template.needs.requests) == {"cpu", "example.com/nic"}
