"""Templates on demand, with the controller beside real components: made, removed, and made by nobody else."""

from collections.abc import Iterator

import pytest

from driver.kube.api import EVENTS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_QUOTAS, Api, Forbidden, NotFound, Object
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import eventually, exceeds_quota, used_of_quota
from tests.contract.running import installed, nodes_of, remove, running_controller, waits_because

GPU = "lode.gpu"
ADOPTED = "lode-adopt.nvidia.n1"
UNUSED_SECONDS = 5


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[ControlPlane, Api]]:
    """A node with four cards; no controller runs."""
    settings = {"templates": {"unusedSeconds": UNUSED_SECONDS}}
    with installed({"n1": {}}, settings, {"vendor": "nvidia"}) as cluster:
        yield cluster


@pytest.fixture
def api(cluster: tuple[ControlPlane, Api]) -> Api:
    return cluster[1]


def pod(name: str, template: str) -> Object:
    spec = {
        "containers": [{"name": "main", "image": "none"}],
        "resourceClaims": [{"name": "card", "resourceClaimTemplateName": template}],
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def template(**metadata: object) -> Object:
    request = {"name": "card", "exactly": {"deviceClassName": "gpu.lode.dev"}}
    return {
        "metadata": {"namespace": "default", **metadata},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def exists(api: Api, name: str) -> Object | None:
    try:
        return api.get(RESOURCE_CLAIM_TEMPLATES, name, "default")
    except NotFound:
        return None


def missed(api: Api, name: str) -> bool:
    """Whether the resource-claim-controller has reported that the template of the pod is missing."""
    events = api.list(EVENTS, namespace="default").items
    return any(
        event["reason"] == "FailedResourceClaimCreation" and event["involvedObject"]["name"] == name for event in events
    )


def test_a_template_is_made_after_it_was_missed_and_removed_after_its_last_pod(
    cluster: tuple[ControlPlane, Api],
) -> None:
    plane, api = cluster
    api.create(PODS, pod("early", GPU))
    eventually(lambda: missed(api, "early"), 60)
    with running_controller(plane):
        api.create(PODS, pod("adopted", ADOPTED))
        assert eventually(lambda: nodes_of(api, "early", "adopted"), 90) == ["n1", "n1"]
        api.delete(RESOURCE_CLAIM_TEMPLATES, ADOPTED, "default")  # whoever has the right may, and it does no harm
        remove(api, "early", "adopted")
        eventually(lambda: not exists(api, GPU), 60)
        api.create(PODS, pod("late", GPU))
        assert eventually(lambda: nodes_of(api, "late"), 60) == ["n1"]
        remove(api, "late")


def test_a_quota_that_leaves_no_room_is_told_on_the_pod(cluster: tuple[ControlPlane, Api]) -> None:
    plane, api = cluster
    hard = {"count/resourceclaimtemplates.resource.k8s.io": "0"}
    metadata = {"name": "templates", "namespace": "default"}
    api.create(RESOURCE_QUOTAS, {"metadata": metadata, "spec": {"hard": hard}})
    eventually(lambda: exceeds_quota(api, RESOURCE_CLAIM_TEMPLATES, template(name="beyond")))
    eventually(lambda: used_of_quota(api, "default", "templates").keys() == hard.keys())
    try:
        with running_controller(plane):
            api.create(PODS, pod("over", "lode.3-gpu"))
            condition = eventually(lambda: waits_because(api, "over", "TemplateRefused"))
            assert "exceeded quota: templates" in condition["message"]
        remove(api, "over")
    finally:
        api.delete(RESOURCE_QUOTAS, "templates", "default")


@pytest.mark.parametrize(
    "metadata", [{"name": "lode.2-gpu"}, {"name": "lode-adopt.hami.n1"}, {"generateName": "lode.gpu-"}]
)
def test_nobody_else_makes_one(api: Api, metadata: Object) -> None:
    with pytest.raises(Forbidden, match="are reserved: lode-controller makes such a template"):
        api.create(RESOURCE_CLAIM_TEMPLATES, template(**metadata))


def test_other_names_are_free(api: Api) -> None:
    for name in ("lode", "lode-adopt", "lodestar.gpu", "my.lode.gpu"):
        api.create(RESOURCE_CLAIM_TEMPLATES, template(name=name))
        api.delete(RESOURCE_CLAIM_TEMPLATES, name, "default")
