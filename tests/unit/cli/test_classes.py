"""Device classes for the resources of device plugins."""

from typing import Any

import pytest
import yaml

from cli.__main__ import main as lode
from cli.resource_classes import PublishedResource, class_of, published, refusal_of
from driver.names import Names
from tests.unit.cli.cluster import slices

NAMES = Names()


def part(node: str, *resources: object, driver: str = "lode.dev") -> dict[str, Any]:
    devices = [
        {"name": f"device-{number}", "attributes": {"lode.dev/resource": {"string": resource}}}
        for number, resource in enumerate(resources)
    ]
    return {"spec": {"driver": driver, "nodeName": node, "devices": devices}}


def test_the_resources_of_a_cluster_are_counted_by_device_and_node() -> None:
    found = published([part("n1", "amd.com/gpu", "amd.com/gpu", "rdma/hca"), part("n2", "amd.com/gpu")], NAMES)
    assert found == [PublishedResource("amd.com/gpu", 3, 2), PublishedResource("rdma/hca", 1, 1)]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"spec": None},
        {"spec": {"driver": "lode.dev", "devices": [{"name": "x"}]}},
        {"spec": {"driver": "lode.dev", "devices": [{"name": "x", "attributes": {"lode.dev/resource": 3}}]}},
        {"spec": {"driver": "lode.dev", "devices": 7}},
        part("n1", "no slash"),
        part("n1", 'amd.com/gpu"'),
        part("n1", 5),
        part("n1", "amd.com/gpu", driver="other.dev"),
    ],
)
def test_slices_that_make_no_sense_and_those_of_others_hide_nothing(odd: Any) -> None:
    assert published([odd, part("n1", "amd.com/gpu")], NAMES) == [PublishedResource("amd.com/gpu", 1, 1)]


def test_slices_with_other_cards_have_none() -> None:
    assert published(slices("n1", "a100x4"), NAMES) == []


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("amd.com/gpu", "gpu.amd.com.lode.dev"),
        ("nvidia.com/mig-1g.5gb", "mig-1g.5gb.nvidia.com.lode.dev"),
        ("rdma/hca", "hca.rdma.lode.dev"),
        ("example.com/a._.b", "a-54c318.b.example.com.lode.dev"),
        ("rebellions.ai/ATOM", "atom-2218c3.rebellions.ai.lode.dev"),
        ("aws.ec2.nitro/nitro_enclaves", "nitro-enclaves-3f174b.aws.ec2.nitro.lode.dev"),
    ],
)
def test_a_class_is_named_after_its_resource(resource: str, name: str) -> None:
    assert class_of(PublishedResource(resource), NAMES, by_scheduler=True).name == name


@pytest.mark.parametrize(
    ("resource", "refusal"),
    [
        ("gpu", "must be DOMAIN/NAME"),
        ("amd.com/", "must be DOMAIN/NAME"),
        ("amd.com/gpu/x", "must be DOMAIN/NAME"),
        ("requests.amd.com/gpu", "cannot be extended resources"),
        ("deviceclass.resource.kubernetes.io/gpu", "cannot be extended resources"),
        (f"amd.com/{'g' * 64}", "more than 63"),
        ("amd.com/gpu", ""),
    ],
)
def test_names_that_no_class_can_have_are_refused(resource: str, refusal: str) -> None:
    assert refusal in refusal_of(resource)
    assert bool(refusal_of(resource)) is bool(refusal)


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = lode(["classes", *argv])
    done = capsys.readouterr()
    return status, done.out, done.err


def test_where_kube_scheduler_allocates_the_class_has_the_name_of_the_resource(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, _ = printed(capsys, "--allocator", "kube-scheduler", "amd.com/gpu", "rdma/hca", "amd.com/gpu")
    classes = list(yaml.safe_load_all(out))
    assert (status, [one["spec"]["extendedResourceName"] for one in classes]) == (0, ["amd.com/gpu", "rdma/hca"])


def test_where_the_controller_allocates_pods_are_adopted_and_it_is_said_how(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = printed(capsys, "amd.com/gpu")
    (one,) = yaml.safe_load_all(out)
    assert (status, list(one["spec"])) == (0, ["selectors"])
    assert '["amd.com/gpu=gpu.amd.com.lode.dev"]' in out
    assert """adopt.plain='{"amd.com/gpu": "gpu.amd.com.lode.dev"}'""" in out


def test_all_faults_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = printed(capsys, "gpu", "amd.com/gpu", "requests.x/y")
    assert (status, out, err.count("\n")) == (2, "", 2)
