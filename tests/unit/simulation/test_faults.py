import random

import pytest

from driver.kube.api import LEASES, PODS, Api, Conflict, Gone, Object, Unavailable
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.simulation.faults import NO_NETWORK_FAULTS, Crash, FaultyApi, NetworkFaults, TimedOut

LEASE: Object = {"metadata": {"name": "l", "namespace": "default"}}
POD_SPEC: Object = {"containers": [{"name": "c", "image": "i:1"}]}


def faulty(faults: NetworkFaults, seed: int = 0) -> tuple[MemoryApi, FaultyApi]:
    memory = MemoryApi(VirtualClock())
    return memory, FaultyApi(memory, random.Random(seed), faults)


def test_without_faults_it_is_the_api_itself() -> None:
    memory, faulted = faulty(NO_NETWORK_FAULTS)
    api: Api = faulted
    assert api.create(LEASES, LEASE) == memory.get(LEASES, "l", "default")
    assert api.list(LEASES) == memory.list(LEASES)
    assert list(api.watch(LEASES, resource_version="1")) == list(memory.watch(LEASES, resource_version="1"))
    api.delete(LEASES, "l", "default")
    assert memory.list(LEASES).items == []


def test_a_lost_response_leaves_the_write_and_a_lost_request_does_not() -> None:
    memory, api = faulty(NetworkFaults(lost_response=1))
    with pytest.raises(Unavailable):
        api.create(LEASES, LEASE)
    assert len(memory.list(LEASES).items) == 1
    memory, api = faulty(NetworkFaults(lost_request=1))
    with pytest.raises(Unavailable):
        api.create(LEASES, LEASE)
    assert memory.list(LEASES).items == []


def test_a_busy_server_says_how_long_to_wait() -> None:
    _, api = faulty(NetworkFaults(busy=1))
    with pytest.raises(Unavailable) as error:
        api.get(LEASES, "l", "default")
    assert (error.value.status, error.value.retry_after) == (429, 1.0)


def test_a_conflict_affects_only_writes_that_can_have_one() -> None:
    memory, api = faulty(NetworkFaults(conflict=1))
    created = api.create(LEASES, LEASE)
    for call in (
        lambda: api.update(LEASES, created),
        lambda: api.patch(LEASES, "l", {}, namespace="default"),
        lambda: api.delete(LEASES, "l", "default", resource_version="1"),
    ):
        with pytest.raises(Conflict):
            call()
    api.delete(LEASES, "l", "default")
    assert memory.list(LEASES).items == []


def test_gone_affects_watches_and_further_pages_but_never_a_new_list() -> None:
    _, api = faulty(NetworkFaults(gone=1))
    api.list(LEASES)
    with pytest.raises(Gone):
        api.list(LEASES, continue_token="1.1")
    with pytest.raises(Gone):
        list(api.watch(LEASES, resource_version="1"))


def test_a_lagging_watch_shows_a_prefix_of_what_happened() -> None:
    memory, api = faulty(NetworkFaults(lag=1))
    for i in range(5):
        memory.create(LEASES, {"metadata": {"name": f"l{i}", "namespace": "default"}})
    everything = list(memory.watch(LEASES, resource_version="1"))
    lengths = set()
    for _ in range(50):
        seen = list(api.watch(LEASES, resource_version="1"))
        assert seen == everything[: len(seen)]
        lengths.add(len(seen))
    assert {0, 1, 2} <= lengths


def test_a_program_can_crash_before_a_call_and_between_two_changes() -> None:
    memory, api = faulty(NetworkFaults(crash=1))
    with pytest.raises(Crash):
        api.create(LEASES, LEASE)
    assert memory.list(LEASES).items == []
    memory.create(LEASES, LEASE)
    api.faults = NO_NETWORK_FAULTS
    watch = api.watch(LEASES, resource_version="1")
    assert next(watch).type == "ADDED"
    api.faults = NetworkFaults(crash=1)
    with pytest.raises(Crash):
        next(watch)
    assert not issubclass(Crash, Exception)


def test_the_same_seed_gives_the_same_faults() -> None:
    def outcomes(seed: int) -> list[str]:
        _, api = faulty(NetworkFaults(lost_response=0.3, lost_request=0.3, busy=0.2), seed)
        seen = []
        for _ in range(40):
            try:
                api.list(LEASES)
                seen.append("ok")
            except Unavailable as error:
                seen.append(str(error))
        return seen

    assert outcomes(1) == outcomes(1) != outcomes(2)


@pytest.mark.parametrize(
    ("status", "is_words"),
    [
        ({"conditions": [{"type": "lode.dev/Allocated", "status": "False"}]}, True),
        ({"conditions": [{"type": "lode.dev/Allocated", "status": "True"}], "nominatedNodeName": "n1"}, False),
        ({"phase": "Running"}, False),
    ],
)
def test_silence_affects_only_what_says_why_a_pod_waits(status: Object, is_words: bool) -> None:
    memory = MemoryApi(VirtualClock())
    memory.create(PODS, {"metadata": {"name": "p", "namespace": "default"}, "spec": POD_SPEC})
    api = FaultyApi(memory, random.Random(0), NetworkFaults(silence=1), hang=lambda call, proceed: None)
    failed = False
    try:
        api.patch(PODS, "p", {"status": status}, namespace="default", subresource="status")
    except TimedOut:
        failed = True
    assert failed == is_words
