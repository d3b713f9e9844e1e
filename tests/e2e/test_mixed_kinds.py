"""Whole cards, shares and partitions are requested at once on the same cards: each card is used as one kind only."""

from collections import defaultdict

from tests.e2e.client import Client, Object, eventually, results
from tests.e2e.container import Published
from tests.e2e.controller import check_usage_matches_claims
from tests.e2e.pods import pod, request, template
from tests.e2e.test_examples import check_views
from tests.e2e.watcher import Watcher


def kinds_by_card(client: Client, namespace: str) -> dict[tuple[str, int], set[str]]:
    """The kinds of the allocated devices of each card."""
    published = Published.read(client)
    held: dict[tuple[str, int], set[str]] = defaultdict(set)
    for claim in client.list("resourceclaims", namespace):
        for result in results(claim):
            attributes = published.devices[result["pool"], result["device"]]["attributes"]
            held[result["pool"], attributes["index"]["int"]].add(attributes["kind"]["string"])
    return held


def settled_pods(client: Client, namespace: str, pods: int) -> list[Object]:
    """Wait until each pod either runs or has an event that says why it waits; returns the running pods."""

    def running_pods() -> list[Object]:
        listed = client.list("pods", namespace)
        events = client.list("events", namespace)
        explained = {
            event["involvedObject"]["name"] for event in events if event.get("reportingComponent") != "kubelet"
        }
        running = [it for it in listed if it["status"].get("phase") == "Running"]
        waiting = {it["metadata"]["name"] for it in listed} - {it["metadata"]["name"] for it in running}
        assert len(listed) == pods
        assert waiting <= explained, f"no event: {waiting - explained}"
        assert not any(it["spec"].get("nodeName") for it in listed if it["metadata"]["name"] in waiting)
        return running

    return eventually("every pod runs or has a reason", running_pods)


def mix(client: Client, namespace: str, profile: str, wanted: dict[str, tuple[Object, int]]) -> int:
    """Create pods of several kinds with one command; returns their number."""
    client.apply(namespace, *(template(name, it) for name, (it, _) in wanted.items()))
    pods = [pod(f"{name}-{n}", name, profile=profile) for name, (_, count) in wanted.items() for n in range(count)]
    client.create(namespace, *sorted(pods, key=lambda it: str(it["metadata"]["name"])[::-1]))
    return len(pods)


def test_whole_cards_shares_and_mig_partitions_never_overlap(client: Client, namespace: str, watcher: Watcher) -> None:
    small = 'device.attributes["lode.dev"].profile == "1g.5gb"'
    large = 'device.attributes["lode.dev"].profile == "3g.20gb"'
    wanted = {
        "whole": (request("gpu"), 2),
        "share": (request("gpu-share", memory="10Gi", cores="30"), 3),
        "small": (request("mig", selector=small), 3),
        "large": (request("mig", selector=large), 1),
    }
    pods = mix(client, namespace, "a100x4", wanted)
    running = settled_pods(client, namespace, pods)
    held = kinds_by_card(client, namespace)
    assert all(len(kinds) == 1 for kinds in held.values()), held
    assert len(held) == 4
    check_views(client, namespace, running)
    check_usage_matches_claims(client, watcher)
    client.delete(namespace, "pods", *(f"whole-{n}" for n in range(2)))
    assert len(settled_pods(client, namespace, pods - 2)) == pods - 2
    assert all(len(kinds) == 1 for kinds in kinds_by_card(client, namespace).values())


def test_whole_npus_shares_and_vnpus_never_overlap(client: Client, namespace: str, watcher: Watcher) -> None:
    half = 'device.attributes["lode.dev"].profile == "vir04"'
    quarter = 'device.attributes["lode.dev"].profile == "vir02"'
    wanted = {
        "whole": (request("npu"), 2),
        "share": (request("npu-share", memory="4Gi"), 2),
        "half": (request("vnpu", selector=half), 1),
        "quarter": (request("vnpu", selector=quarter), 3),
    }
    pods = mix(client, namespace, "ascend310px4", wanted)
    running = settled_pods(client, namespace, pods)
    held = kinds_by_card(client, namespace)
    assert all(len(kinds) == 1 for kinds in held.values()), held
    check_views(client, namespace, running)
    check_usage_matches_claims(client, watcher)


def test_shares_of_a_card_never_exceed_it(client: Client, namespace: str, watcher: Watcher) -> None:
    only = 'device.attributes["lode.dev"].index == 0'
    wanted = {"third": (request("gpu-share", selector=only, memory="12Gi", cores="20"), 5)}
    running = settled_pods(client, namespace, mix(client, namespace, "a100x4", wanted))
    assert len(running) == 3
    check_views(client, namespace, running)
    check_usage_matches_claims(client, watcher)
