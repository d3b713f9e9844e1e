"""The first source that is found says to which gang a pod belongs; what cannot be kept is refused with the remedy."""

from typing import Any

import pytest

from controller.gangs import Level
from controller.membership import (
    NO_CONFIG,
    ConfiguredGang,
    GangTerms,
    Group,
    GroupObjects,
    Membership,
    MembershipInput,
    Source,
    Workload,
    agreed,
    group_from,
    hints_of,
    job_from,
    membership_of,
    rank_of_pod,
    stateful_set_from,
)
from driver.kube.api import (
    COMPOSITE_POD_GROUPS,
    COSCHEDULING_POD_GROUPS,
    GROVE_POD_GANGS,
    POD_GROUPS,
    VOLCANO_POD_GROUPS,
    Object,
)

LABEL = "lode.dev/gang"
NAMED = ConfiguredGang(gang=True, name="named", minimum=2)
BY_OWNER = ConfiguredGang(gang=True)
POD_GROUP: dict[str, Any] = {"schedulingGroup": {"podGroupName": "k8s"}}
VOLCANO = {"scheduling.k8s.io/group-name": "volcano"}
COSCHEDULING = {"scheduling.x-k8s.io/pod-group": "coscheduling"}
KUEUE = {"kueue.x-k8s.io/pod-group-name": "kueue"}
COUNT = {"kueue.x-k8s.io/pod-group-total-count": "4"}
GROVE = {"grove.io/podgang": "grove", "grove.io/podclique": "decode"}


def a_pod(
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: tuple[str, str] | None = ("Job", "job"),
    **spec: Any,
) -> Object:
    owners = [{"kind": owner[0], "name": owner[1], "uid": f"uid-{owner[1]}", "controller": True}] if owner else []
    metadata = {"namespace": "ns", "labels": labels, "annotations": annotations, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"resourceClaims": [{"name": "gpus"}], **spec}}


def objects() -> GroupObjects:
    known = GroupObjects()
    known.put_group(POD_GROUPS[0], Group("ns/k8s", "uid-k8s", 3))
    known.put_group(VOLCANO_POD_GROUPS, Group("ns/volcano", "uid-volcano", 3))
    known.put_group(COSCHEDULING_POD_GROUPS, Group("ns/coscheduling", "uid-coscheduling", 3))
    known.put_group(GROVE_POD_GANGS, Group("ns/grove", "uid-grove", 3, task_minimums=(("decode", 3),)))
    known.put_workload("Job", "ns/job", Workload("uid-job", 5))
    return known


def joined(pod: Object, asked: ConfiguredGang = NO_CONFIG, known: GroupObjects | None = None) -> Membership | None:
    facts = MembershipInput("ns", hints_of(pod, LABEL), rank_of_pod(pod), asked)
    return membership_of(facts, objects() if known is None else known)


def faults(pod: Object, asked: ConfiguredGang = NO_CONFIG, known: GroupObjects | None = None) -> str:
    membership = joined(pod, asked, known)
    assert membership
    terms = agreed("ns/g", {membership.terms: ("ns/pod",)})
    return terms.awaited if isinstance(terms, GangTerms) else "; ".join(map(str, terms))


REQUIRED = {"kueue.x-k8s.io/podset-required-topology": "block"}
SLICES = {"kueue.x-k8s.io/podset-slice-required-topology": "rack", "kueue.x-k8s.io/podset-slice-size": "4"}
EVERYTHING = a_pod({**COSCHEDULING, **GROVE, **KUEUE}, {**VOLCANO, **COUNT}, **POD_GROUP)


@pytest.mark.parametrize(
    ("pod", "asked", "gang", "source", "minimum", "size"),
    [
        (EVERYTHING, NAMED, "ns/named", Source.CLAIM, 2, None),
        (EVERYTHING, BY_OWNER, "ns/k8s", Source.POD_GROUP, 3, None),
        (EVERYTHING, ConfiguredGang(gang=True, minimum=1), "ns/k8s", Source.POD_GROUP, 1, None),
        (EVERYTHING, NO_CONFIG, "ns/k8s", Source.POD_GROUP, 3, None),
        (a_pod({**COSCHEDULING, **KUEUE}, VOLCANO), NO_CONFIG, "ns/volcano", Source.VOLCANO, 3, None),
        (a_pod({}, {"scheduling.volcano.sh/group-name": "volcano"}), NO_CONFIG, "ns/volcano", Source.VOLCANO, 3, None),
        (a_pod({**COSCHEDULING, **GROVE}), NO_CONFIG, "ns/coscheduling", Source.COSCHEDULING, 3, None),
        (a_pod({**GROVE, **KUEUE}), NO_CONFIG, "ns/grove", Source.GROVE, 3, None),
        (a_pod(KUEUE, COUNT), NO_CONFIG, "ns/kueue", Source.KUEUE, None, 4),
        (a_pod({}, {**KUEUE, **COUNT}), NO_CONFIG, "ns/kueue", Source.KUEUE, None, 4),
        (a_pod(), BY_OWNER, "ns/Job/job", Source.OWNER, None, 5),
        (a_pod(), ConfiguredGang(gang=True, minimum=3), "ns/Job/job", Source.OWNER, 3, 5),
        (a_pod({LABEL: "named"}, resourceClaims=None), NO_CONFIG, "ns/named", Source.CLAIM, None, None),
        (a_pod({LABEL: ""}, resourceClaims=None), NO_CONFIG, "ns/Job/job", Source.OWNER, None, 5),
        (a_pod({LABEL: "", **COSCHEDULING}), NO_CONFIG, "ns/coscheduling", Source.COSCHEDULING, 3, None),
    ],
)
def test_the_first_source_that_is_found_counts(
    pod: Object, asked: ConfiguredGang, gang: str, source: Source, minimum: int | None, size: int | None
) -> None:
    membership = joined(pod, asked)
    assert membership
    said = membership.terms
    assert (membership.gang, said.source, said.minimum, said.size) == (gang, source, minimum, size)
    assert said.problems == ()


@pytest.mark.parametrize("pod", [a_pod(), a_pod({"app": "x"}, resourceClaims=None), a_pod(owner=None)])
def test_a_pod_that_says_nothing_is_in_no_gang(pod: Object) -> None:
    assert joined(pod) is None


def test_only_pods_that_can_be_in_a_gang_cost_anything() -> None:
    assert hints_of(a_pod({"app": "x"}, resourceClaims=None), LABEL) is None


def test_a_group_that_is_no_gang_leaves_the_pod_to_the_next_source() -> None:
    known = GroupObjects()
    basic = {"metadata": {"namespace": "ns", "name": "k8s", "uid": "u"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    known.put_group(POD_GROUPS[2], group_from(basic, Source.POD_GROUP, {}))
    assert joined(a_pod(**POD_GROUP), NO_CONFIG, known) is None
    membership = joined(a_pod(KUEUE, COUNT, **POD_GROUP), NO_CONFIG, known)
    assert membership
    assert membership.gang == "ns/kueue"


def in_tree() -> GroupObjects:
    """PodGroup ``k8s`` is one of the two that CompositePodGroup ``all`` needs."""
    known = objects()
    known.put_group(COMPOSITE_POD_GROUPS[1], Group("ns/all", "uid-all", 2, (Level("zone", "nodeLabel"),)))
    known.put_group(POD_GROUPS[0], Group("ns/k8s", "uid-k8s", 3, parent="ns/all"))
    known.put_group(POD_GROUPS[0], Group("ns/other", "uid-other", 2, parent="ns/all"))
    return known


def test_a_pod_group_in_a_composite_one_leads_to_the_gang_of_that() -> None:
    membership = joined(EVERYTHING, NO_CONFIG, in_tree())
    assert membership
    assert (membership.gang, membership.task) == ("ns/CompositePodGroup/all", "k8s")
    said = membership.terms
    assert (said.source, said.uid, said.minimum) == (Source.COMPOSITE, "uid-all", 5)
    assert said.levels == (Level("zone", "nodeLabel"),)


def test_a_claim_says_the_levels_of_a_gang_of_groups_instead_of_these() -> None:
    known, rack = in_tree(), (Level("rack", "nodeLabel"),)
    known.put_group(POD_GROUPS[0], Group("ns/k8s", "uid-k8s", 3, (Level("a", "nodeLabel"),), parent="ns/all"))
    known.put_group(POD_GROUPS[0], Group("ns/other", "uid-other", 2, (Level("b", "nodeLabel"),), parent="ns/all"))
    assert "a, b: nothing says which" in faults(EVERYTHING, NO_CONFIG, known)
    membership = joined(EVERYTHING, ConfiguredGang(levels=rack), known)
    assert membership
    terms = agreed("ns/g", {membership.terms: ("ns/pod",)})
    assert isinstance(terms, GangTerms)
    assert terms.levels == rack


def test_a_claim_says_the_levels_that_tiers_of_volcano_do_not() -> None:
    known = GroupObjects()
    metadata = {"namespace": "ns", "name": "volcano", "uid": "u"}
    spec = {"minMember": 1, "networkTopology": {"highestTierAllowed": 2}}
    known.put_group(VOLCANO_POD_GROUPS, group_from({"metadata": metadata, "spec": spec}, Source.VOLCANO, {}))
    assert "tier 2 stands for no attribute" in faults(a_pod({}, VOLCANO), NO_CONFIG, known)
    assert faults(a_pod({}, VOLCANO), ConfiguredGang(levels=(Level("rack", "nodeLabel"),)), known) == ""


def test_the_task_of_a_pod_of_grove_is_its_clique() -> None:
    membership = joined(a_pod(GROVE))
    assert membership
    assert (membership.gang, membership.task) == ("ns/grove", "decode")
    assert membership.terms.task_minimums == (("decode", 3),)


def test_the_best_version_of_a_group_counts() -> None:
    known = GroupObjects()
    for version, minimum in ((2, 1), (0, 3), (1, 2)):
        known.put_group(POD_GROUPS[version], Group("ns/k8s", "u", minimum))
    membership = joined(a_pod(**POD_GROUP), NO_CONFIG, known)
    assert membership
    assert membership.terms.minimum == 3


@pytest.mark.parametrize(
    ("pod", "asked", "said"),
    [
        (
            a_pod(**POD_GROUP),
            NO_CONFIG,
            "PodGroup of scheduling.k8s.io ns/k8s does not exist, or this program may",
        ),
        (a_pod({}, VOLCANO), NO_CONFIG, "PodGroup of scheduling.volcano.sh ns/volcano does not exist"),
        (a_pod(COSCHEDULING), NO_CONFIG, "PodGroup of scheduling.x-k8s.io ns/coscheduling does not exist"),
        (
            a_pod(KUEUE),
            NO_CONFIG,
            "metadata.annotations[kueue.x-k8s.io/pod-group-total-count]: pod group of Kueue ns/kueue: needs the number",
        ),
        (a_pod(KUEUE, {"kueue.x-k8s.io/pod-group-total-count": "many"}), NO_CONFIG, "needs the number of its pods"),
        (
            a_pod(),
            BY_OWNER,
            "gang.minAvailable: Job job does not say how many pods it makes; set it in the PlacementConfig",
        ),
        (
            a_pod(owner=("MPIJob", "mpi")),
            BY_OWNER,
            "gang.minAvailable: MPIJob mpi does not say how many pods it makes; set it",
        ),
        (a_pod(owner=None), BY_OWNER, "gang: the pod has no owner that says which pods belong together; set gang.name"),
        (
            a_pod({}, {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}),
            NAMED,
            "metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]: rack: a domain for one",
        ),
        (
            a_pod({}, {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}),
            NAMED,
            "leaderworkerset.sigs.k8s.io/exclusive-topology]: rack: a domain for one group alone is not supported",
        ),
        (
            a_pod(
                {}, {"kueue.x-k8s.io/podset-slice-required-topology": "rack", "kueue.x-k8s.io/podset-slice-size": "x"}
            ),
            NAMED,
            "metadata.annotations[kueue.x-k8s.io/podset-slice-size]: x: not what Kueue reads; correct it, or ask for t",
        ),
        (
            a_pod({}, {"kueue.x-k8s.io/podset-slice-required-topology": "rack"}),
            NAMED,
            "podset-slice-size]: is missing, beside kueue.x-k8s.io/podset-slice-required-topology; add the size, or",
        ),
        (
            a_pod({}, {"kueue.x-k8s.io/podset-slice-required-topology-constraints": "[{}]"}),
            NAMED,
            "podset-slice-required-topology-constraints]: [{}]: not what Kueue reads",
        ),
        *(
            (
                a_pod({}, {"kueue.x-k8s.io/podset-slice-required-topology-constraints": layers}),
                NAMED,
                f"podset-slice-required-topology-constraints]: {layers[:100]}: not what Kueue reads",
            )
            for layers in (
                '[{"topology": ["rack"], "size": 1}]',
                '[{"topology": "rack", "size": true}]',
                '[{"topology": "rack", "size": 1e400}]',
                '[{"topology": "rack", "size": [1]}]',
                "[" * 2_000,
                "7",
                '{"a": 1}',
            )
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_remedy(pod: Object, asked: ConfiguredGang, said: str) -> None:
    assert said in faults(pod, asked, GroupObjects())


def test_exclusive_placement_by_node_selectors_waits_for_no_pod_and_is_accepted() -> None:
    prefix = "alpha.jobset.sigs.k8s.io"
    pod = a_pod({}, {f"{prefix}/exclusive-topology": "rack", f"{prefix}/node-selector": "true"})
    assert faults(pod, NAMED) == ""


# Topology


LAYERS = '[{"topology": "rack", "size": 8}, {"topology": "host", "size": 2}]'
BLOCK, RACKS = Level("block", "nodeLabel"), Level("rack", "nodeLabel", group_size=4)


@pytest.mark.parametrize(
    ("annotations", "levels"),
    [
        (REQUIRED, (BLOCK,)),
        ({"kueue.x-k8s.io/podset-preferred-topology": "block"}, (Level("block", "nodeLabel", required=False),)),
        ({**REQUIRED, **SLICES}, (BLOCK, RACKS)),
        (SLICES, (RACKS,)),
        (
            {"kueue.x-k8s.io/podset-slice-required-topology-constraints": LAYERS},
            (Level("rack", "nodeLabel", group_size=8), Level("host", "nodeLabel", group_size=2)),
        ),
        ({}, None),
    ],
)
def test_annotations_of_kueue_say_the_topology(annotations: dict[str, str], levels: tuple[Level, ...] | None) -> None:
    membership = joined(a_pod({}, annotations), NAMED)
    assert membership
    assert membership.terms.levels == levels


@pytest.mark.parametrize(
    ("annotations", "spec"),
    [
        ({}, {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}),
        ({"kueue.x-k8s.io/workload": "job-x"}, {"nodeSelector": {"kubernetes.io/hostname": "n1"}}),
        ({}, {"nodeSelector": {"block": "b1"}}),
    ],
    ids=["not chosen yet", "chosen down to the host", "chosen"],
)
def test_what_kueue_enforces_is_not_enforced_twice(annotations: dict[str, str], spec: Any) -> None:
    membership = joined(a_pod({}, {**REQUIRED, **annotations}, **spec), NAMED)
    assert membership
    assert membership.terms.levels is None


def test_topology_in_a_claim_comes_before_that_of_the_group_and_that_before_annotations() -> None:
    known, level = GroupObjects(), Level("spine", "nodeLabel")
    known.put_group(VOLCANO_POD_GROUPS, Group("ns/volcano", "u", 3, (level,)))
    pod, own = a_pod({}, {**VOLCANO, **REQUIRED}), Level("lode.dev/ibLeaf", "attribute")
    said = [
        joined(pod, ConfiguredGang(levels=(own,)), known),
        joined(pod, NO_CONFIG, known),
        joined(a_pod({}, REQUIRED), NAMED),
    ]
    assert [one.terms.levels for one in said if one] == [(own,), (level,), (BLOCK,)]


# Ranks


@pytest.mark.parametrize(
    ("labels", "annotations", "rank"),
    [
        ({"batch.kubernetes.io/job-completion-index": "3"}, {}, 3),
        ({}, {"batch.kubernetes.io/job-completion-index": "3"}, 3),
        ({"leaderworkerset.sigs.k8s.io/worker-index": "2", "apps.kubernetes.io/pod-index": "7"}, {}, 2),
        ({"apps.kubernetes.io/pod-index": "11"}, {}, 11),
        ({"training.kubeflow.org/replica-index": "4"}, {}, 4),
        ({"volcano.sh/task-index": "5"}, {}, 5),
        ({"kueue.x-k8s.io/pod-group-pod-index": "6"}, {}, 6),
        ({"volcano.sh/task-index": "first"}, {}, 0),
        ({}, {}, 0),
    ],
)
def test_labels_say_the_rank(labels: dict[str, str], annotations: dict[str, str], rank: int) -> None:
    membership = joined(a_pod(labels, annotations), NAMED)
    assert membership
    assert membership.rank == rank


@pytest.mark.parametrize(
    ("labels", "leads"),
    [
        ({"leaderworkerset.sigs.k8s.io/worker-index": "0"}, True),
        ({"leaderworkerset.sigs.k8s.io/worker-index": "1"}, False),
        ({"training.kubeflow.org/job-role": "master"}, True),
        ({}, False),
    ],
)
def test_labels_say_who_leads(labels: dict[str, str], leads: bool) -> None:
    membership = joined(a_pod(labels), NAMED)
    assert membership
    assert membership.leader is leads


# Owners


def a_job(name: str, parallelism: int | None, completions: int | None, **labels: str) -> Object:
    metadata = {
        "namespace": "ns",
        "name": name,
        "uid": f"uid-{name}",
        "labels": {LABELS[k]: v for k, v in labels.items()},
    }
    spec = {"parallelism": parallelism, "completions": completions, "completionMode": "Indexed"}
    template = {"spec": {"resourceClaims": [{"name": "gpus"}]}}
    kept = {key: value for key, value in spec.items() if value is not None}
    return {"metadata": metadata, "spec": {**kept, "template": template}}


LABELS = {"set": "jobset.sigs.k8s.io/jobset-uid"}


@pytest.mark.parametrize(
    ("parallelism", "completions", "size"), [(4, 8, 4), (8, 4, 4), (4, None, 4), (None, None, 1), (0, 4, 0)]
)
def test_a_job_keeps_as_many_pods_as_it_may_and_needs(parallelism: int, completions: int, size: int) -> None:
    key, job = job_from(a_job("job", parallelism, completions), LABEL)
    assert (key, job.size) == ("ns/job", size)


def test_a_stateful_set_that_waits_for_each_pod_can_never_be_a_gang_of_all() -> None:
    known = GroupObjects()
    made: Any = {"metadata": {"namespace": "ns", "name": "web", "uid": "uid-web"}, "spec": {"replicas": 3}}
    known.put_workload("StatefulSet", *stateful_set_from(made))
    pod = a_pod(owner=("StatefulSet", "web"))
    assert "set podManagementPolicy: Parallel in it" in faults(pod, BY_OWNER, known)
    assert faults(pod, ConfiguredGang(gang=True, minimum=1), known) == ""
    made["spec"]["podManagementPolicy"] = "Parallel"
    known.put_workload("StatefulSet", *stateful_set_from(made))
    membership = joined(pod, BY_OWNER, known)
    assert membership
    assert (membership.terms.size, membership.terms.problems) == (3, ())


def test_a_job_set_has_the_pods_of_all_its_jobs_that_can_be_in_a_gang() -> None:
    known, prefix = GroupObjects(), "jobset.sigs.k8s.io"
    labels = {
        f"{prefix}/jobset-uid": "set",
        f"{prefix}/jobset-name": "train",
        f"{prefix}/global-replicas": "3",
        f"{prefix}/job-global-index": "1",
        "batch.kubernetes.io/job-completion-index": "1",
    }
    pod = a_pod(labels, owner=("Job", "train-b-0"))
    first = a_job("train-a-0", 1, 1, set="set")
    first["spec"]["template"]["spec"].pop("resourceClaims")
    for number, job in enumerate([first, a_job("train-b-0", 2, 2, set="set"), a_job("train-b-1", 2, 2, set="set")]):
        assert f"{number} of 3 Jobs of JobSet train exist" in faults(pod, BY_OWNER, known)
        assert faults(pod, ConfiguredGang(gang=True, minimum=1), known) == ""
        known.put_workload("Job", *job_from(job, LABEL))
    membership = joined(pod, BY_OWNER, known)
    assert membership
    assert (membership.gang, membership.terms.size) == ("ns/JobSet/train", 4)
    first["spec"]["template"]["metadata"] = {"labels": {LABEL: ""}}
    known.put_workload("Job", *job_from(first, LABEL))
    membership = joined(pod, BY_OWNER, known)
    assert membership
    assert membership.terms.size == 5, "the label joins pods without claims, too"


def ranks_in_set(*jobs: tuple[int, int | None, int]) -> list[int]:
    """Ranks of the pods of a JobSet's Jobs, one after the other: parallelism, completions, and how many pods exist."""
    known, prefix, found = GroupObjects(), "jobset.sigs.k8s.io", list[int]()
    for number, (parallelism, completions, _) in reversed([*enumerate(jobs)]):
        job = a_job(f"train-{number}", parallelism, completions, set="set")
        job["metadata"]["labels"][f"{prefix}/job-global-index"] = str(number)
        known.put_workload("Job", *job_from(job, LABEL))
    for number, (_, completions, pods) in enumerate(jobs):
        for index in range(pods):
            labels = {f"{prefix}/jobset-uid": "set", f"{prefix}/jobset-name": "train"}
            if completions is not None:
                labels["batch.kubernetes.io/job-completion-index"] = str(index)
            membership = joined(a_pod(labels, owner=("Job", f"train-{number}")), BY_OWNER, known)
            assert membership
            found.append(membership.rank)
    return found


@pytest.mark.parametrize(
    ("jobs", "ranks"),
    [
        ([(2, 2, 2), (2, 2, 2)], [0, 1, 2, 3]),
        ([(1, 1, 1), (3, 3, 3), (2, 2, 2)], [0, 1, 2, 3, 4, 5]),
        ([(2, 4, 4), (1, 1, 1)], [0, 1, 2, 3, 4]),
        ([(2, None, 2), (2, 2, 2)], [0, 0, 2, 3]),
    ],
)
def test_ranks_of_a_job_set_never_overlap_whatever_its_jobs_complete(
    jobs: list[tuple[int, int | None, int]], ranks: list[int]
) -> None:
    assert ranks_in_set(*jobs) == ranks


def test_a_workload_that_goes_is_forgotten_and_those_are_named_whom_it_concerns() -> None:
    known = GroupObjects()
    job = Workload("uid-a", 2, set_uid="set")
    assert known.put_workload("Job", "ns/a", job) == {"uid-a", "set"}
    assert known.put_workload("Job", "ns/a", job) == ()
    assert known.jobs_of("set").count == 1
    assert known.put_workload("Job", "ns/a", Workload("uid-a", 3, set_uid="set")) == {"uid-a", "set"}
    assert known.remove_workload("Job", "ns/a") == {"uid-a", "set"}
    assert known.remove_workload("Job", "ns/a") == ()
    assert (known.jobs_of("set").count, known.workload("uid-a")) == (0, None)
