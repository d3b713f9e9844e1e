"""Whole cards, shares and partitions asked for at once on the same cards: a card is one of them at any time."""

from collections import defaultdict

from tests.e2e.client import Client, Object, eventually, results
from tests.e2e.container import Published
from tests.e2e.controller import usage_is_what_the_claims_say
from tests.e2e.pods import pod, request, template
from tests.e2e.test_examples import check_views
from tests.e2e.watcher import Watcher


def kinds_by_card(client: Client, space: str) -> dict[tuple[str, int], set[str]]:
    """What each card in use is held as."""
    published = Published.read(client)
    held: dict[tuple[str, int], set[str]] = defaultdict(set)
    for claim in client.list("resourceclaims", space):
        for result in results(claim):
            attributes = published.devices[result["pool"], result["device"]]["attributes"]
            held[result["pool"], attributes["index"]["int"]].add(attributes["kind"]["string"])
    return held


def settled(client: Client, space: str, pods: int) -> list[Object]:
    """The running pods, when each pod either runs or has been told why it waits."""

    def look() -> list[Object]:
        listed = client.list("pods", space)
        events = client.list("events", space)
        told = {event["involvedObject"]["name"] for event in events if event.get("reportingComponent") != "kubelet"}
        running = [it for it in listed if it["status"].get("phase") == "Running"]
        waiting = {it["metadata"]["name"] for it in listed} - {it["metadata"]["name"] for it in running}
        assert len(listed) == pods
        assert waiting <= told, f"told nothing: {waiting - told}"
        assert not any(it["spec"].get("nodeName") for it in listed if it["metadata"]["name"] in waiting)
        return running

    return eventually("every pod runs or knows why not", look)


def mix(client: Client, space: str, profile: str, wanted: dict[str, tuple[Object, int]]) -> int:
    """Create pods of several kinds in one go, and say how many."""
    client.apply(space, *(template(name, it) for name, (it, _) in wanted.items()))
    pods = [pod(f"{name}-{n}", name, profile=profile) for name, (_, count) in wanted.items() for n in range(count)]
    client.create(space, *sorted(pods, key=lambda it: str(it["metadata"]["name"])[::-1]))
    return len(pods)


def test_whole_cards_shares_and_mig_partitions_never_overlap(client: Client, space: str, watcher: Watcher) -> None:
    small = 'device.attributes["lode.dev"].profile == "1g.5gb"'
    large = 'device.attributes["lode.dev"].profile == "3g.20gb"'
    wanted = {
        "whole": (request("gpu"), 2),
        "share": (request("gpu-share", memory="10Gi", cores="30"), 3),
        "small": (request("mig", selector=small), 3),
        "large": (request("mig", selector=large), 1),
    }
    pods = mix(client, space, "a100x4", wanted)
    running = settled(client, space, pods)
    held = kinds_by_card(client, space)
    assert all(len(kinds) == 1 for kinds in held.values()), held
    assert len(held) == 4
    check_views(client, space, running)
    usage_is_what_the_claims_say(client, watcher)
    client.delete(space, "pods", *(f"whole-{n}" for n in range(2)))
    assert len(settled(client, space, pods - 2)) == pods - 2
    assert all(len(kinds) == 1 for kinds in kinds_by_card(client, space).values())


def test_whole_npus_shares_and_vnpus_never_overlap(client: Client, space: str, watcher: Watcher) -> None:
    half = 'device.attributes["lode.dev"].profile == "vir04"'
    quarter = 'device.attributes["lode.dev"].profile == "vir02"'
    wanted = {
        "whole": (request("npu"), 2),
        "share": (request("npu-share", memory="4Gi"), 2),
        "half": (request("vnpu", selector=half), 1),
        "quarter": (request("vnpu", selector=quarter), 3),
    }
    pods = mix(client, space, "ascend310px4", wanted)
    running = settled(client, space, pods)
    held = kinds_by_card(client, space)
    assert all(len(kinds) == 1 for kinds in held.values()), held
    check_views(client, space, running)
    usage_is_what_the_claims_say(client, watcher)


def test_shares_of_a_card_never_exceed_it(client: Client, space: str, watcher: Watcher) -> None:
    only = 'device.attributes["lode.dev"].index == 0'
    wanted = {"third": (request("gpu-share", selector=only, memory="12Gi", cores="20"), 5)}
    running = settled(client, space, mix(client, space, "a100x4", wanted))
    assert len(running) == 3
    check_views(client, space, running)
    usage_is_what_the_claims_say(client, watcher)
