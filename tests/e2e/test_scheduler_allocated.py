"""The other flavour: kube-scheduler allocates the same examples from the same slices, and they run."""

from collections.abc import Iterator

import pytest

from tests.e2e import flavours, nodes
from tests.e2e.client import Client, names
from tests.e2e.test_examples import check_each_example_got_what_it_asks_for, check_views, run_all_examples


@pytest.fixture(scope="module", autouse=True)
def allocated_by_kube_scheduler(client: Client) -> Iterator[None]:
    """The flavour, and afterwards the default one again."""
    before = nodes.published(client)
    flavours.install(client, flavours.SCHEDULER_ALLOCATED)
    assert nodes.published(client) == before
    yield
    flavours.install(client, flavours.CONTROLLER_ALLOCATED)


def test_there_is_no_controller_no_gate_and_no_rule_about_who_allocates(client: Client) -> None:
    assert client.list("deployments", "lode-system") == []
    assert [it for it in names(client.list("mutatingadmissionpolicies")) if it.endswith("lode.dev")] == []
    rules = [it for it in names(client.list("validatingadmissionpolicies")) if it.endswith("lode.dev")]
    assert rules == ["own-slices.lode.dev"]


def test_all_examples_run_as_they_are(client: Client, space: str) -> None:
    pods = run_all_examples(client, space)
    assert not any(it["spec"].get("schedulingGates") for it in pods)
    check_each_example_got_what_it_asks_for(client, space, pods)
    check_views(client, space, pods)
