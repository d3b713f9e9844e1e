"""The policies that adopt pods: generated from the tables, and complete."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.adoption import FOLDER, files, policies
from driver.adoption import SOURCES

MANIFESTS = Path(__file__).parents[3] / "manifests"
EXPRESSIONS = 128 * 1024
"""Bytes of the policies of a source: an object in etcd has at most ten times as many."""


def test_the_files_are_those_of_the_tables() -> None:
    expected = files()
    assert {name: (MANIFESTS / name).read_text() for name in expected} == expected, "run `make chart`"
    found = {str(path.relative_to(MANIFESTS)) for path in (MANIFESTS / FOLDER).glob("**/*.yaml")}
    assert found == {name for name in expected if name.startswith(FOLDER)}


@pytest.mark.parametrize("name", SOURCES)
def test_policies_fail_closed_for_new_pods_of_namespaces_that_opt_in(name: str) -> None:
    objects: list[dict[str, Any]] = list(yaml.safe_load_all(files()[f"{FOLDER}/{name}/policies.yaml"]))
    assert objects == policies(SOURCES[name])
    bound = {obj["spec"]["policyName"] for obj in objects if obj["kind"].endswith("Binding")}
    its_policies = [obj for obj in objects if not obj["kind"].endswith("Binding")]
    assert bound == {obj["metadata"]["name"] for obj in its_policies}
    for policy in its_policies:
        spec = policy["spec"]
        assert spec["failurePolicy"] == "Fail"
        (rule,) = spec["matchConstraints"]["resourceRules"]
        assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])
        selector = spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
        assert selector[0] == {"key": f"lode.dev/adopt-{name}", "operator": "In", "values": ["on"]}
    assert sum(len(yaml.safe_dump(policy)) for policy in its_policies) < EXPRESSIONS


def test_a_source_excludes_those_that_take_the_same_resources() -> None:
    excluded = {
        name: [
            one["key"]
            for one in policies(source)[0]["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"][1:]
        ]
        for name, source in SOURCES.items()
    }
    assert excluded == {
        "nvidia": ["lode.dev/adopt-hami"],
        "hami": ["lode.dev/adopt-nvidia"],
        "volcano": [],
        "ascend": [],
        "plain": [],
    }
