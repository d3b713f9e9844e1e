"""Whether the pods of a Workload would get their devices now, and why not."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.kueue.fitsnow import MOST_CLAIMS, FitAnswer, FitsNow, fits_now
from controller.kueue.queued import QueuedWorkload, queued_from
from controller.refusal import Refusal
from driver.kube.api import NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_QUOTAS, RESOURCE_SLICES, Object
from driver.kube.reflector import Unreadable
from tests.unit.controller.filled_state import (
    FilledState,
    in_gang,
    node,
    owned_by_job,
    placement_config,
    pod,
    slice_on,
)
from tests.unit.controller.workloads import claim_template, pod_set, workload


def refuses(answer: FitAnswer) -> bool:
    """Whether it does not fit, and that is decided."""
    return isinstance(answer, Refusal) and answer.after is None


class Cluster(FilledState):
    """Nodes of two cards, and the template ``gpu`` for one card."""

    def __init__(self, nodes: int = 2, **devices: Any):
        super().__init__(nodes)
        self.template("gpu", **devices)

    def template(self, name: str, *args: Any, **options: Any) -> None:
        self.put(RESOURCE_CLAIM_TEMPLATES, claim_template(name, *args, **options))

    def use(self, *places: str) -> None:
        """Devices that pods hold."""
        for place in places:
            name = place.replace("/", "-")
            self.claim(name, at=place, by=(name,))
            self.pod(name, name, nodeName=place.split("/")[0], gates=())

    def ask(self, *pod_sets: Object, **options: Any) -> FitAnswer:
        return fits_now(self.state, queued("w", *pod_sets), **options)

    def why(self, *pod_sets: Object) -> str:
        answer = self.ask(*pod_sets)
        assert isinstance(answer, Refusal), answer
        assert answer.after is None, answer
        return answer.why


def queued(name: str, *pod_sets: Object) -> QueuedWorkload:
    return queued_from(workload(name, *pod_sets))


@pytest.mark.parametrize(
    ("pod_sets", "used", "fits"),
    [
        pytest.param([pod_set(count=4)], [], True, id="all cards"),
        pytest.param([pod_set(count=5)], [], False, id="more than there are"),
        pytest.param([pod_set(count=3)], ["n1/gpu-0"], True, id="what is left"),
        pytest.param([pod_set(count=4)], ["n1/gpu-0"], False, id="one is in use"),
        pytest.param([pod_set("a", 2), pod_set("b", 2)], [], True, id="two pod sets"),
        pytest.param([pod_set("a", 2), pod_set("b", 3)], [], False, id="together too many"),
        pytest.param([pod_set(count=2, of="two")], [], True, id="two cards each"),
        pytest.param([pod_set(of="two")], ["n1/gpu-0", "n2/gpu-1"], False, id="two cards, but on no node"),
        pytest.param([pod_set(cpu="9")], [], False, id="more CPU than a node has"),
        pytest.param([pod_set(count=0)], ["n1/gpu-0"], True, id="no pods"),
        pytest.param([pod_set(of="", cpu="99")], [], True, id="pods without claims are kube-scheduler's"),
        pytest.param([pod_set(of="nic")], [], True, id="so are pods with devices of others only"),
    ],
)
def test_pods_fit_if_all_get_their_devices(pod_sets: list[Object], used: list[str], fits: bool) -> None:
    cluster = Cluster()
    cluster.template("two", count=2)
    cluster.template("nic", "nic.example.com")
    cluster.use(*used)
    answer = cluster.ask(*pod_sets)
    assert isinstance(answer, FitsNow) if fits else refuses(answer)


@pytest.mark.parametrize(
    ("pod_sets", "why"),
    [
        (
            [pod_set(count=4)],
            "2 of 4 pods fit now; 2 of 4 such devices are in use, by default/n1-gpu-0, default/n1-gpu-1",
        ),
        ([pod_set(of="none")], "pod set main: ResourceClaimTemplate default/none does not exist; create it"),
        ([pod_set(claim="mine")], "pod set main: ResourceClaim mine: only templates are looked at; use one"),
        ([pod_set(of="typo")], "pod set main: ResourceClaimTemplate default/typo: no DeviceClass is named gpu.lode.de"),
        ([pod_set(count=MOST_CLAIMS + 1)], "spec.podSets: 1001 claims of their pods; more than 1000 claims"),
        ([pod_set(of="a10")], "0 of 1 pods fit now; no node has such devices"),
        ([pod_set(of="wrong")], "pod set main: ResourceClaimTemplate default/wrong: "),
        ([{"name": "main"}], "spec.podSets cannot be decoded: "),
    ],
)
def test_a_no_says_what_is_lacking_and_names_the_object(pod_sets: list[Object], why: str) -> None:
    cluster = Cluster()
    cluster.template("typo", "gpu.lode.de")
    selectors = [{"cel": {"expression": 'device.attributes["lode.dev"].kind == "a10"'}}]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev", "count": 1, "selectors": selectors}}
    cluster.template("a10", requests=[request])
    cluster.template("wrong", **placement_config(policy="best"))
    cluster.use("n1/gpu-0", "n1/gpu-1")
    assert cluster.why(*pod_sets).startswith(why)


def of_kind(kind: str) -> list[Object]:
    selectors = [{"cel": {"expression": f'device.attributes["lode.dev"].kind == "{kind}"'}}]
    return [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev", "selectors": selectors}}]


@pytest.mark.parametrize(
    ("align_with", "why"),
    [
        (None, ""),
        ({"claim": "b", "attribute": "lode.dev/kind", "mode": "preferred"}, ""),
        ({"claim": "b", "attribute": "lode.dev/kind"}, "0 of 1 pods fit now"),
        ({"claim": "c", "attribute": "lode.dev/kind"}, "pod set main: spec.devices.config[0].opaque.parameters.alignW"),
    ],
)
def test_claims_that_must_be_aligned_fit_only_together(align_with: Any, why: str) -> None:
    cluster = Cluster(0)
    cluster.put(NODES, node("n1"))
    cluster.put(RESOURCE_SLICES, slice_on("n1", 1))
    two = slice_on("n1", 1, kind="npu")
    two["spec"]["pool"]["name"], two["metadata"]["name"] = "more", "more"
    cluster.put(RESOURCE_SLICES, two)
    cluster.template("a", requests=of_kind("gpu"), **(placement_config(alignWith=align_with) if align_with else {}))
    cluster.template("b", requests=of_kind("npu"))
    asking = pod_set(of="a")
    asking["template"]["spec"]["resourceClaims"] = [
        {"name": name, "resourceClaimTemplateName": name} for name in ("a", "b")
    ]
    answer = cluster.ask(asking)
    assert answer.why.startswith(why) if isinstance(answer, Refusal) else not why


def test_all_faults_are_said_at_once() -> None:
    why = Cluster().why(pod_set("a", of="none"), pod_set("b", claim="mine"))
    assert why.startswith("pod set a: ResourceClaimTemplate default/none does not exist")
    assert Cluster().why(pod_set("b", of="none", claim="mine")).count("pod set b: ") == 2


def test_a_template_on_demand_need_not_exist_before_the_pods_do() -> None:
    cluster = Cluster()
    assert isinstance(cluster.ask(pod_set(of="lode.gpu", count=4)), FitsNow)
    assert cluster.why(pod_set(of="lode.gpu", count=5)).startswith("4 of 5 pods fit now")
    assert "lode.unicorn: " in cluster.why(pod_set(of="lode.unicorn"))


def test_templates_that_may_not_be_read_are_a_matter_of_the_operator() -> None:
    cluster = FilledState()
    cluster.state.apply(Unreadable(RESOURCE_CLAIM_TEMPLATES))
    answer = fits_now(cluster.state, queued("w"))
    assert isinstance(answer, Refusal)
    assert refuses(answer)
    assert "may not read ResourceClaimTemplates; an operator must allow it" in answer.why


def test_a_quota_of_ours_that_leaves_too_little_is_a_no_with_the_numbers() -> None:
    cluster = Cluster()
    hard = {"metadata": {"name": "cards", "namespace": "default"}, "spec": {"hard": {"lode.dev/cores": "200"}}}
    cluster.put(RESOURCE_QUOTAS, hard)
    assert isinstance(cluster.ask(pod_set(count=2)), FitsNow)
    why = cluster.why(pod_set(count=3))
    assert why == "ResourceQuota default/cards, lode.dev/cores: asked 300, used 0, limit 200"


def test_claims_of_other_namespaces_are_not_named() -> None:
    cluster = Cluster(1)
    cluster.use("n1/gpu-0", "n1/gpu-1")
    obj = workload("w")
    obj["metadata"]["namespace"] = "team"
    template = claim_template("gpu")
    cluster.put(RESOURCE_CLAIM_TEMPLATES, {**template, "metadata": {"name": "gpu", "namespace": "team"}})
    answer = fits_now(cluster.state, queued_from(obj))
    assert answer == Refusal(
        "team/w", why="0 of 1 pods fit now; 2 of 2 such devices are in use, by 2 claims in other namespaces"
    )


def test_nodes_that_are_held_back_for_pods_do_not_count() -> None:
    cluster = Cluster()
    assert isinstance(cluster.ask(pod_set(count=2), closed={"n1"}), FitsNow)
    assert refuses(cluster.ask(pod_set(count=3), closed={"n1"}))


# Gangs


def fabrics(**devices: Any) -> Cluster:
    """Two nodes of two cards in each of two fabrics."""
    cluster = Cluster(0, **devices)
    for fabric in "ab":
        for number in range(2):
            name = f"{fabric}{number}"
            cluster.put(NODES, node(name, labels={"fabric": fabric}))
            cluster.put(RESOURCE_SLICES, slice_on(name))
    return cluster


LEVEL = {"nodeLabel": "fabric", "mode": "required"}


def test_a_gang_fits_if_as_many_pods_do_as_have_to_start() -> None:
    cluster = Cluster(**in_gang(name="train", minAvailable=3))
    assert isinstance(cluster.ask(pod_set(count=6)), FitsNow)
    cluster.use("n1/gpu-0", "n1/gpu-1")
    assert cluster.why(pod_set(count=6)).startswith("2 of 3 members fit in the cluster")


def test_a_gang_fits_only_inside_one_domain() -> None:
    cluster = fabrics(**placement_config(gang={"name": "train", "minAvailable": 4}, topology=[LEVEL]))
    assert isinstance(cluster.ask(pod_set(count=4)), FitsNow)
    cluster.use("a0/gpu-0", "b1/gpu-1")
    why = cluster.why(pod_set(count=4))
    assert "3 of 4 members fit in a" in why
    assert "3 of 4 members fit in b" in why


def test_a_preferred_domain_is_no_condition() -> None:
    level = {**LEVEL, "mode": "preferred", "waitSeconds": 600}
    cluster = fabrics(**placement_config(gang={"name": "train", "minAvailable": 4}, topology=[level]))
    cluster.use("a0/gpu-0", "b1/gpu-1")
    assert isinstance(cluster.ask(pod_set(count=4)), FitsNow)


# Workloads that were let go a moment ago


def test_devices_for_which_another_workload_was_let_go_are_not_promised_twice() -> None:
    cluster, first = Cluster(), queued("first", pod_set(count=3))
    assert isinstance(cluster.ask(pod_set(count=1), ahead=[first]), FitsNow)
    answer = cluster.ask(pod_set(count=2), ahead=[first])
    assert isinstance(answer, Refusal), answer
    assert answer.after is not None
    assert answer.after > 0
    assert refuses(cluster.ask(pod_set(count=5), ahead=[first]))


def test_pods_of_it_that_have_their_place_count_once() -> None:
    cluster, first = Cluster(), queued("first", pod_set(count=2))
    for number in range(2):
        name = f"p{number}"
        cluster.claim(name, at=f"n1/gpu-{number}", by=(name,))
        cluster.put(PODS, owned(name))
    assert isinstance(cluster.ask(pod_set(count=2), ahead=[first]), FitsNow)


def owned(name: str) -> Object:
    obj = owned_by_job(pod(name, name, nodeName="n1", gates=()), name="first")
    obj["metadata"]["ownerReferences"][0]["uid"] = "uid-first"
    return obj


def test_a_workload_is_not_ahead_of_itself() -> None:
    cluster = Cluster()
    assert isinstance(cluster.ask(pod_set(count=4), ahead=[queued("w", pod_set(count=4))]), FitsNow)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 4), max_size=4),
    st.lists(st.sampled_from(["n1/gpu-0", "n1/gpu-1", "n2/gpu-0", "n2/gpu-1"]), unique=True),
)
def test_what_is_let_go_fits_together_and_nothing_is_changed(counts: list[int], used: list[str]) -> None:
    cluster = Cluster()
    cluster.use(*used)
    before = cluster.state.devices.ledger.usage_snapshot(), cluster.state.nodes.generation
    let_go: list[QueuedWorkload] = []
    for number, count in enumerate(counts):
        one = queued(f"w{number}", pod_set(count=count))
        if isinstance(fits_now(cluster.state, one, let_go), FitsNow):
            let_go.append(one)
    assert sum(one.pod_sets[0].count for one in let_go) <= 4 - len(used)
    assert before == (cluster.state.devices.ledger.usage_snapshot(), cluster.state.nodes.generation)
