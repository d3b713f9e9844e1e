"""Which pods belong together, kept up to date while pods, claims and group objects come, change and go."""

from controller.gangs import Level
from controller.membership import GangTerms, Source
from driver.kube.api import JOBS, PODS, RESOURCE_CLAIMS
from tests.unit.controller.filled_state import FilledState, claim, owned_by_job, placement_config, pod

NAMED = {"name": "train", "minAvailable": 2}


def terms_of(scene: FilledState, gang: str) -> GangTerms:
    terms = scene.state.gangs.terms(gang)
    assert isinstance(terms, GangTerms), terms
    return terms


def faults_of(scene: FilledState, gang: str) -> str:
    faults = scene.state.gangs.terms(gang)
    assert isinstance(faults, tuple)
    return "; ".join(map(str, faults))


def test_pods_are_in_the_gang_that_their_claims_name() -> None:
    scene = FilledState()
    levels = [{"attribute": "lode.dev/ibCluster"}, {"nodeLabel": "rack", "mode": "preferred", "waitSeconds": 9}]
    for name in "ba":
        scene.put(RESOURCE_CLAIMS, claim(name, **placement_config(gang=NAMED, topology=levels, policy="spread")))
        scene.pod(name, name)
    scene.claim("alone")
    scene.pod("alone", "alone")
    gangs = scene.state.gangs
    assert [gangs.gang_of(f"default/{name}") for name in ("a", "b", "alone")] == ["default/train", "default/train", ""]
    assert gangs.members("default/train") == ("default/a", "default/b")
    terms = terms_of(scene, "default/train")
    assert (terms.minimum, terms.size, terms.source, terms.policy) == (2, None, Source.CLAIM, "spread")
    assert terms.levels == (
        Level("lode.dev/ibCluster", "attribute"),
        Level("rack", "nodeLabel", required=False, wait_seconds=9),
    )


def test_a_pod_joins_when_its_claim_comes_and_leaves_when_it_goes() -> None:
    scene = FilledState()
    assert not scene.pod("a", "x").gangs
    assert scene.state.gangs.gang_of("default/a") == ""
    changes = scene.put(RESOURCE_CLAIMS, claim("x", **placement_config(gang=NAMED)))
    assert (list(changes.gangs), list(changes.pods)) == (["default/train"], ["default/a"])
    assert scene.state.gangs.members("default/train") == ("default/a",)
    assert list(scene.state.drop(RESOURCE_CLAIMS, "default/x").gangs) == ["default/train"]
    assert list(scene.state.gangs) == []


def test_every_change_of_a_member_is_a_change_of_its_gang_but_for_what_it_is_told() -> None:
    scene = FilledState()
    scene.put(RESOURCE_CLAIMS, claim("x", **placement_config(gang=NAMED)))
    assert list(scene.pod("a", "x").gangs) == ["default/train"]
    assert list(scene.pod("a", "x", gates=()).gangs) == ["default/train"]
    assert list(scene.pod("a", "x", gates=("other",)).gangs) == ["default/train"]
    assert list(scene.pod("a", "x", gates=("other",), condition="False").gangs) == []
    allocated = claim("x", at="n1/gpu-0", by=("a",), **placement_config(gang=NAMED))
    assert list(scene.put(RESOURCE_CLAIMS, allocated).gangs) == ["default/train"]
    assert list(scene.state.drop(PODS, "default/a").gangs) == ["default/train"]


def test_members_that_contradict_each_other_are_told_so() -> None:
    scene = FilledState()
    for name, minimum in (("a", 2), ("b", 3)):
        scene.put(RESOURCE_CLAIMS, claim(name, **placement_config(gang={"name": "train", "minAvailable": minimum})))
        scene.pod(name, name)
    assert "2 (pod default/a); 3 (pod default/b)" in faults_of(scene, "default/train")
    scene.state.drop(PODS, "default/b")
    assert terms_of(scene, "default/train").minimum == 2


def test_claims_of_one_pod_that_contradict_each_other_are_a_fault() -> None:
    scene = FilledState()
    for name, minimum in (("x", 2), ("y", 3)):
        scene.put(RESOURCE_CLAIMS, claim(name, **placement_config(gang={"name": "train", "minAvailable": minimum})))
    scene.pod("a", "x", "y")
    assert "gang.minAvailable: ResourceClaims of the pod contradict each other: default/x, default/y" in faults_of(
        scene, "default/train"
    )


def test_topology_without_a_gang_is_a_fault_of_the_pod() -> None:
    scene = FilledState()
    scene.put(RESOURCE_CLAIMS, claim("x", **placement_config(topology=[{"nodeLabel": "rack"}])))
    scene.pod("a", "x")
    assert scene.state.gangs.gang_of("default/a") == ""
    assert [str(fault) for fault in scene.state.gangs.faults("default/a")] == [
        "topology: has no meaning for a pod alone; add gang: {} to the same PlacementConfig"
    ]


def test_parameters_that_are_not_valid_make_no_gang() -> None:
    scene = FilledState()
    scene.put(RESOURCE_CLAIMS, claim("x", **placement_config(gang={"name": "train"})))
    scene.pod("a", "x")
    assert scene.state.gangs.gang_of("default/a") == ""
    assert scene.state.gangs.faults("default/a") == ()


def test_by_owner_the_pods_of_one_owner_are_a_gang() -> None:
    scene = FilledState()
    scene.put(RESOURCE_CLAIMS, claim("x", **placement_config(gang={"minAvailable": 2})))
    for name in "ab":
        scene.put(PODS, owned_by_job(pod(name, "x")))
    scene.pod("c", "x")
    assert scene.state.gangs.members("default/Job/train") == ("default/a", "default/b")
    assert terms_of(scene, "default/Job/train") == GangTerms("default/Job/train", "uid-train-0", Source.OWNER, 2)
    assert "the pod has no owner that says which pods belong together" in str(scene.state.gangs.faults("default/c")[0])


def test_succeeded_members_count_while_their_owner_has_others_also_after_a_restart() -> None:
    live, restarted = FilledState(), FilledState()
    ended = [(name, owned_by_job(pod(name, "x", phase="Succeeded", gates=(), nodeName="n1"))) for name in "ab"]
    for scene in (live, restarted):
        scene.put(RESOURCE_CLAIMS, claim("x", **placement_config(gang={"minAvailable": 3})))
        scene.put(PODS, owned_by_job(pod("c", "x")))
    for name, _ in ended:
        live.put(PODS, owned_by_job(pod(name, "x", gates=(), nodeName="n1")))
    assert live.state.gangs.succeeded("default/Job/train") == 0
    for scene in (live, restarted):
        for name, obj in ended:
            assert list(scene.put(PODS, obj).gangs) == ["default/Job/train"], name
        assert scene.state.gangs.members("default/Job/train") == ("default/c",)
        assert scene.state.gangs.succeeded("default/Job/train") == 2
        assert "default/a" not in scene.state.pods
        assert list(scene.state.drop(PODS, "default/a").gangs) == ["default/Job/train"]
        assert scene.state.gangs.succeeded("default/Job/train") == 1


def test_members_of_a_job_that_have_succeeded_count_although_their_pods_are_gone() -> None:
    scene = FilledState()
    scene.put(RESOURCE_CLAIMS, claim("x", **placement_config(gang={})))
    scene.put(PODS, owned_by_job(pod("a", "x")))
    spec = {"parallelism": 4, "completions": 4, "template": {"spec": {}}}
    job = {"metadata": {"name": "train", "namespace": "default", "uid": "uid-train-0"}, "spec": spec}
    assert list(scene.put(JOBS, job).gangs) == ["default/Job/train"]
    assert (terms_of(scene, "default/Job/train").size, scene.state.gangs.succeeded("default/Job/train")) == (4, 0)
    assert list(scene.put(JOBS, {**job, "status": {"succeeded": 3}}).gangs) == ["default/Job/train"]
    assert scene.state.gangs.succeeded("default/Job/train") == 3
    scene.put(PODS, owned_by_job(pod("b", "x", phase="Succeeded")))
    assert scene.state.gangs.succeeded("default/Job/train") == 3, "it is one of these"
    assert list(scene.state.drop(JOBS, "default/train").gangs) == ["default/Job/train"]
    assert "Job train does not say how many pods it makes" in faults_of(scene, "default/Job/train")


def test_a_pod_that_is_being_deleted_contradicts_nobody() -> None:
    scene = FilledState()
    scene.put(RESOURCE_CLAIMS, claim("x", **placement_config(gang={"minAvailable": 1})))
    scene.put(PODS, owned_by_job(pod("a", "x"), number=1))
    scene.put(PODS, owned_by_job(pod("b", "x"), number=2))
    assert "owner: members contradict each other" in faults_of(scene, "default/Job/train")
    leaving = owned_by_job(pod("a", "x"), number=1)
    leaving["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    assert list(scene.put(PODS, leaving).gangs) == ["default/Job/train"]
    assert terms_of(scene, "default/Job/train").uid == "uid-train-2"


def test_members_of_an_earlier_run_of_another_owner_do_not_count() -> None:
    scene = FilledState()
    scene.put(RESOURCE_CLAIMS, claim("x", **placement_config(gang=NAMED)))
    scene.put(PODS, owned_by_job(pod("a", "x", phase="Succeeded"), number=1))
    scene.put(PODS, owned_by_job(pod("b", "x"), number=2))
    scene.put(PODS, pod("c", "x"))
    assert scene.state.gangs.members("default/train") == ("default/b", "default/c")
    assert scene.state.gangs.succeeded("default/train") == 0


def test_members_that_have_succeeded_count_no_more_when_the_last_pod_of_their_owner_has_gone() -> None:
    scene = FilledState()
    scene.put(RESOURCE_CLAIMS, claim("x", **placement_config(gang=NAMED)))
    scene.put(PODS, owned_by_job(pod("a", "x"), number=1))
    scene.put(PODS, owned_by_job(pod("b", "x", phase="Succeeded"), number=1))
    scene.put(PODS, owned_by_job(pod("c", "x"), number=2))
    assert scene.state.gangs.succeeded("default/train") == 1
    scene.state.drop(PODS, "default/a")
    assert scene.state.gangs.succeeded("default/train") == 0


def test_a_pod_that_failed_counts_no_more() -> None:
    scene = FilledState()
    scene.put(RESOURCE_CLAIMS, claim("x", **placement_config(gang={"minAvailable": 2})))
    for name in "ab":
        scene.put(PODS, owned_by_job(pod(name, "x")))
    scene.put(PODS, owned_by_job(pod("a", "x", phase="Failed")))
    assert scene.state.gangs.members("default/Job/train") == ("default/b",)
    assert scene.state.gangs.succeeded("default/Job/train") == 0


def test_owners_of_two_kinds_with_one_name_have_a_gang_each() -> None:
    scene = FilledState()
    scene.put(RESOURCE_CLAIMS, claim("x", **placement_config(gang={"minAvailable": 1})))
    scene.put(PODS, owned_by_job(pod("a", "x")))
    of_set = owned_by_job(pod("b", "x"))
    of_set["metadata"]["ownerReferences"][0] |= {"kind": "StatefulSet", "uid": "uid-set"}
    scene.put(PODS, of_set)
    assert sorted(scene.state.gangs) == ["default/Job/train", "default/StatefulSet/train"]
    assert terms_of(scene, "default/Job/train").minimum == 1
