"""Workloads become the pods, and templates the claims, that Kubernetes' own controllers make of them."""

import re
from typing import Any

import pytest

from cli.objects.checks import InputObject, check
from cli.objects.documents import Document, Origin
from cli.objects.expand import claims_of, owned_claims, pods_of
from driver.kube.api import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, Object, Resource
from memoryapi import JOBS
from tests.unit.cli.cluster import claim, pod, stored, template


def workload(resource: Resource, **spec: Any) -> InputObject:
    content = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x", of="card")["spec"]}
    if resource == JOBS:
        content["spec"] = {**content["spec"], "restartPolicy": "Never"}
    else:
        spec = {"selector": {"matchLabels": {"app": "x"}}, **spec}
    raw = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "w"},
        "spec": {**spec, "template": content},
    }
    checked = check([Document(Origin("f", 1), raw)], "default")
    assert not checked.faults
    return checked.objects[0]


def names(made: list[Object]) -> list[str]:
    return [pod["metadata"]["name"] for pod in made]


@pytest.mark.parametrize(
    ("resource", "spec", "patterns"),
    [
        (JOBS, {}, ["w-{5}"]),
        (JOBS, {"parallelism": 2}, ["w-{5}", "w-{5}"]),
        (JOBS, {"parallelism": 3, "completions": 2}, ["w-{5}", "w-{5}"]),
        (JOBS, {"parallelism": 2, "completions": 9, "completionMode": "Indexed"}, ["w-0-{5}", "w-1-{5}"]),
        (JOBS, {"parallelism": 2, "suspend": True}, []),
        (DEPLOYMENTS, {"replicas": 2}, ["w-{5}-{5}", "w-{5}-{5}"]),
        (REPLICA_SETS, {}, ["w-{5}"]),
        (STATEFUL_SETS, {"replicas": 2, "ordinals": {"start": 3}}, ["w-3", "w-4"]),
        (STATEFUL_SETS, {"replicas": 0}, []),
    ],
)
def test_pods_are_as_many_and_called_as_their_controller_would(
    resource: Resource, spec: dict[str, Any], patterns: list[str]
) -> None:
    made = names(pods_of(workload(resource, **spec), []))
    assert len(set(made)) == len(patterns)
    for name, pattern in zip(made, patterns, strict=True):
        assert re.fullmatch(pattern.replace("{5}", "[a-z0-9]{5}"), name)
    assert names(pods_of(workload(resource, **spec), [])) == made


def owned(name: str, kind: str, owner: str) -> Object:
    made = stored(pod(name))
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": owner, "uid": "u", "controller": True}]
    return made


@pytest.mark.parametrize(
    ("resource", "existing", "left"),
    [
        (JOBS, owned("w-abcde", "Job", "w"), 1),
        (JOBS, owned("v-abcde", "Job", "v"), 2),
        (DEPLOYMENTS, owned("w-hash1-abcde", "ReplicaSet", "w-hash1"), 1),
        (DEPLOYMENTS, owned("w-api-hash1-abcde", "ReplicaSet", "w-api-hash1"), 2),
        (STATEFUL_SETS, owned("w-0", "StatefulSet", "w"), 1),
    ],
)
def test_pods_that_exist_are_not_made_again(resource: Resource, existing: Object, left: int) -> None:
    asked = {"parallelism": 2} if resource == JOBS else {"replicas": 2}
    made = names(pods_of(workload(resource, **asked), [existing]))
    assert len(made) == left
    assert existing["metadata"]["name"] not in made


def test_a_pod_of_a_workload_has_what_its_template_says_and_the_servers_defaults() -> None:
    (made,) = pods_of(workload(JOBS), [])
    assert made["metadata"]["labels"] == {"app": "x"}
    assert made["metadata"]["ownerReferences"][0]["kind"] == "Job"
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


def made_of(user: Object, templates: dict[str, Object], *claims: Object) -> tuple[Object, list[Object]]:
    existing = {f"default/{one['metadata']['name']}" for one in claims}
    return claims_of(user, templates, existing, owned_claims(claims))


def test_a_claim_is_made_of_its_template_and_recorded_in_the_pod() -> None:
    user, of = stored(pod("p", of="card")), template("card", count=2)
    of["spec"]["metadata"] = {"labels": {"a": "b"}}
    after, (made,) = made_of(user, {"default/card": of})
    assert re.fullmatch("p-t-[a-z0-9]{5}", made["metadata"]["name"])
    assert made["spec"] == of["spec"]["spec"]
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "t"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-p"
    recorded = [{"name": "t", "resourceClaimName": made["metadata"]["name"]}]
    assert after["status"]["resourceClaimStatuses"] == recorded
    assert made_of(after, {"default/card": of}, made) == (after, [])
    assert made_of(user, {"default/card": of}, made) == (after, [])


def test_a_claim_that_is_recorded_but_gone_is_made_again_under_its_name() -> None:
    user = stored(pod("p", of="card"), resourceClaimStatuses=[{"name": "t", "resourceClaimName": "p-t-xxxxx"}])
    _, (made,) = made_of(user, {"default/card": template("card")})
    assert made["metadata"]["name"] == "p-t-xxxxx"


def test_no_claim_is_made_whose_name_the_api_server_would_refuse() -> None:
    user, entry = stored(pod("p", of="card")), "e" * 63
    user["spec"]["resourceClaims"][0]["name"] = entry
    assert made_of(user, {"default/card": template("card")}) == (user, [])


def test_without_its_template_no_claim_is_made() -> None:
    user = stored(pod("p", "c", of="card"))
    assert made_of(user, {}, claim("c")) == (user, [])


def test_an_entry_that_needs_no_claim_gets_none() -> None:
    user = stored(pod("p", of="card"), resourceClaimStatuses=[{"name": "t"}])
    assert made_of(user, {"default/card": template("card")}) == (user, [])
