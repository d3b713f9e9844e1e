"""What 1.38 refuses, and 1.37 takes: in memory as on a real server of the version."""

import copy
from typing import Any

import pytest

from cli.doctor.cluster_checks import minor
from driver.kube.api import NAMESPACES, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Invalid, Object, Resource
from driver.kube.client import KubeClient
from memoryapi import V1_37, V1_38, MemoryApi
from tests.contract.objects import claim, resource_slice
from tests.contract.of_137 import LONG_VERSION, OBJECTS, TERM, TWO_SLASHES, consuming, device, on_nodes
from tests.simulation.clock import VirtualClock


@pytest.fixture(params=["1.37 in memory", "1.38 in memory", "real"])
def versioned(request: pytest.FixtureRequest) -> tuple[Api, bool]:
    """An API, and whether it has the rules of 1.38."""
    if request.param == "real":
        real: KubeClient = request.getfixturevalue("admin")
        return real, (minor(real.server_version()) or V1_37) >= V1_38
    memory, is_strict = MemoryApi(VirtualClock()), request.param.startswith("1.38")
    memory.upgrade(V1_38 if is_strict else V1_37)
    return memory, is_strict


def written(api: Api, resource: Resource, obj: Object, name: str) -> Object:
    """What is stored of the object under this name, which is removed again."""
    api.create(NAMESPACES, {"metadata": {"name": name}})
    namespace = name if resource.namespaced else ""
    stored = api.create(resource, {**obj, "metadata": {"name": name}}, namespace)
    api.delete(resource, name, namespace)
    return stored


@pytest.mark.parametrize(("field", "resource", "obj"), OBJECTS)
def test_what_is_new_is_refused_since_138(
    versioned: tuple[Api, bool], unique: str, field: str, resource: Resource, obj: Object
) -> None:
    api, is_strict = versioned
    if not is_strict:
        stored = written(api, resource, obj, unique)
        assert stored["metadata"]["name"] == unique
        return
    with pytest.raises(Invalid, match=field) as error:
        written(api, resource, obj, unique)
    assert error.value.status == 422


@pytest.mark.parametrize("name", ["not-a-name", TWO_SLASHES])
def test_consumed_capacities_have_qualified_names_since_138(
    versioned: tuple[Api, bool], unique: str, name: str
) -> None:
    api, is_strict = versioned
    api.create(NAMESPACES, {"metadata": {"name": unique}})
    created = api.create(RESOURCE_CLAIMS, claim("c", unique))
    allocated = {**created, "status": {"allocation": consuming(**{name: "1"})}}
    if is_strict:
        with pytest.raises(Invalid, match="consumedCapacity"):
            api.update(RESOURCE_CLAIMS, allocated, "status")
    else:
        results = api.update(RESOURCE_CLAIMS, allocated, "status")["status"]["allocation"]["devices"]["results"]
        assert results[0]["consumedCapacity"] == {name: "1"}


def test_a_device_of_one_term_is_taken_and_of_none_is_not(versioned: tuple[Api, bool], unique: str) -> None:
    api, _ = versioned
    written(api, RESOURCE_SLICES, on_nodes(TERM), unique)
    with pytest.raises(Invalid, match="nodeSelectorTerms"):
        api.create(RESOURCE_SLICES, {**on_nodes(), "metadata": {"name": unique}})


def changed(part: Object, **device_fields: Any) -> Object:
    """The slice with another device in the place of the second."""
    new = copy.deepcopy(part)
    new["spec"]["devices"][1] = device("gpu-1", **device_fields)
    new["spec"]["pool"]["generation"] += 1
    return new


def test_a_slice_with_what_was_taken_before_can_change_where_the_rules_do_not_look(unique: str) -> None:
    """1.38 holds what an older version stored: the devices may stay as they are, and no other device may change."""
    api = MemoryApi(VirtualClock())
    wrong = device(attributes={"a": {"version": LONG_VERSION}})
    stored = api.create(RESOURCE_SLICES, resource_slice(unique, wrong, device("gpu-1")))
    api.upgrade(V1_38)
    stored["spec"]["pool"]["generation"] += 1
    again = api.update(RESOURCE_SLICES, stored)
    with pytest.raises(Invalid, match=r"devices\[0\].*version"):
        api.update(RESOURCE_SLICES, changed(again, attributes={"b": {"int": 1}}))
