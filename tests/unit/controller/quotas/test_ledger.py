"""What allocations take of the quotas of a namespace, whatever the order of events, and what they do not allow."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.quotas import Quota, QuotaLedger, price, render
from driver.errors import Fault
from driver.model import Allocation, Claim, ClaimSpec, Device, DeviceId, Result
from driver.names import Names
from tests.unit.controller.allocation.small_fleets import device, q

NAMES = Names()
GIB, NANO = 2**30 * 10**9, 10**9
DEVICES = {
    "gpu-0": device("gpu-0", {"type": "H100"}, capacity={"memory": "80Gi", "cores": "100"}),
    "gpu-1": device("gpu-1", {"type": "T4"}, capacity={"memory": "16Gi"}),
    "gpu-0-share": device("gpu-0-share", {"type": "H100"}, capacity={"memory": "80Gi", "cores": "100"}, shared=True),
    "gpu-0-mig": device("gpu-0-mig", {"type": "H100"}, capacity={"memory": "20Gi", "cores": "28"}),
}


def found(name: DeviceId) -> Device | None:
    return DEVICES.get(name.device)


def result(name: str, driver: str = NAMES.driver, **more: object) -> Result:
    return Result("r", DeviceId(driver, "n1/p", name), **more)  # type: ignore[arg-type]


def share(memory: str, cores: str = "") -> Result:
    consumed = {"memory": q(memory), **({"cores": q(cores)} if cores else {})}
    return result("gpu-0-share", share_id=f"s-{memory}", consumed=consumed)


@pytest.mark.parametrize(
    ("results", "amounts"),
    [
        (
            [result("gpu-0")],
            {"memory": 80 * GIB, "memory.H100": 80 * GIB, "cores": 100 * NANO, "cores.H100": 100 * NANO},
        ),
        ([result("gpu-1")], {"memory": 16 * GIB, "memory.T4": 16 * GIB, "cores": 100 * NANO, "cores.T4": 100 * NANO}),
        (
            [share("4Gi", "30")],
            {"memory": 4 * GIB, "memory.H100": 4 * GIB, "cores": 30 * NANO, "cores.H100": 30 * NANO},
        ),
        ([share("4Gi")], {"memory": 4 * GIB, "memory.H100": 4 * GIB}),
        ([share("-4Gi", "30")], {"cores": 30 * NANO, "cores.H100": 30 * NANO}),
        (
            [result("gpu-0-mig")],
            {"memory": 20 * GIB, "memory.H100": 20 * GIB, "cores": 28 * NANO, "cores.H100": 28 * NANO},
        ),
        ([result("gpu-0", admin_access=True)], {}),
        ([result("gpu-0", driver="other.example.com")], {}),
        ([result("gone")], {"cores": 100 * NANO}),
    ],
    ids="whole coreless share memory below-0 partition monitoring other gone".split(),
)
def test_what_an_allocation_takes(results: list[Result], amounts: Mapping[str, int]) -> None:
    assert price(Allocation(tuple(results)), found, NAMES).amounts == amounts


def quota(name: str = "team/q", **limits: str) -> Quota:
    return Quota(name, "u", {key.replace("_", "."): q(value).nanos for key, value in limits.items()})


def ledger(*quotas: Quota) -> QuotaLedger:
    built = QuotaLedger(NAMES, found)
    for one in quotas:
        built.upsert(one, ())
    return built


def card(name: str = "gpu-0") -> Allocation:
    return Allocation((result(name),))


def test_a_namespace_without_a_quota_has_no_limit_and_is_not_counted() -> None:
    books = ledger(quota("team/q", cores="0"))
    assert books.beyond("other", [card()]) is None
    assert not books.count("other/a", card())
    assert (books.used("other"), books.uses("other"), books.namespaces) == ({}, (), ["team"])


def test_the_reason_names_every_quota_that_would_be_exceeded_with_its_numbers() -> None:
    books = ledger(quota("team/a", memory="100Gi", cores="150"), quota("team/b", memory_H100="80Gi", cores="1k"))
    assert books.count("team/one", card())
    found = books.beyond("team", [card()])
    assert found is not None
    assert render(found).split("; ") == [
        "ResourceQuota team/a, lode.dev/cores: asked 100, used 100, limit 150",
        "ResourceQuota team/a, lode.dev/memory: asked 80Gi, used 80Gi, limit 100Gi",
        "ResourceQuota team/b, lode.dev/memory.H100: asked 80Gi, used 80Gi, limit 80Gi",
    ]


def test_what_is_kept_counts_beside_what_is_used_and_only_in_its_namespace() -> None:
    books = ledger(quota(cores="250"))
    books.keep("team/preemptor", [card()])
    assert books.beyond("team", [card()]) is None
    books.count("team/one", card())
    found = books.beyond("team", [card()])
    kept = "used 100, kept for pods that others are evicted for 100, limit 250"
    assert found is not None
    assert render(found) == f"ResourceQuota team/q, lode.dev/cores: asked 100, {kept}"
    assert books.used("team")["cores"] == 100 * NANO, "it is not used yet"
    books.keep("team/preemptor", ())
    assert books.beyond("team", [card()]) is None
    books.keep("other/preemptor", [card()])
    assert books.beyond("team", [card()]) is None


def test_what_asks_for_nothing_of_a_quota_is_not_held_up_by_it() -> None:
    books = ledger(quota(memory_T4="0"))
    assert books.beyond("team", [card("gpu-0")]) is None
    assert books.beyond("team", [card("gpu-1")]) is not None
    assert ledger(quota(cores="0")).beyond("team", [Allocation((share("4Gi"),))]) is None


def test_a_quota_that_cannot_be_understood_allows_nothing_that_takes_something() -> None:
    books = ledger(quota(memory="1Ti"), Quota("team/bad", "u", {}, (Fault("spec.hard[lode.dev/x]", "unknown"),)))
    answer = books.beyond("team", [card()])
    assert answer is not None
    assert answer.faults
    said = render(answer)
    assert said.startswith("ResourceQuota team/bad: spec.hard[lode.dev/x]: unknown; nothing is allocated in the")
    assert books.beyond("team", [Allocation((result("gpu-0", admin_access=True),))]) is None
    assert books.remove("team/bad")
    assert books.beyond("team", [card()]) is None


def test_a_first_quota_counts_what_is_there() -> None:
    books = QuotaLedger(NAMES, found)
    claims = [claim("team/one", card()), claim("team/two", None), claim("other/three", card())]
    assert books.upsert(quota(cores="150"), claims)
    assert books.used("team")["cores"] == 100 * NANO
    assert not books.upsert(quota(cores="150"), claims)
    assert books.upsert(quota(cores="99"), claims)


def test_the_last_quota_that_goes_takes_the_books_with_it() -> None:
    books = ledger(quota(cores="1"))
    assert books.upsert(Quota("team/q", "u"), ())
    assert not books.limits("team")
    assert not books.remove("team/q")


def test_devices_that_are_published_no_longer_count_as_before() -> None:
    known = dict(DEVICES)
    books = QuotaLedger(NAMES, lambda name: known.get(name.device))
    books.upsert(quota(memory="100Gi"), [claim("team/one", card())])
    assert books.used("team")["memory"] == 80 * GIB
    del known["gpu-0"]
    assert [*books.published(["team/one", "team/none", "other/one"])] == ["team"]
    assert books.used("team")["memory"] == 80 * GIB
    known["gpu-0"] = device("gpu-0", {"type": "H100"}, capacity={"memory": "96Gi"})
    assert [*books.published(["team/one"])] == ["team"]
    assert books.used("team")["memory"] == 96 * GIB


def claim(key: str, allocation: Allocation | None) -> Claim:
    namespace, name = key.split("/")
    return Claim(namespace, name, f"uid-{name}", ClaimSpec(()), allocation=allocation)


ALLOCATIONS = st.sampled_from(
    [None, card("gpu-0"), card("gpu-1"), card("gpu-0-mig"), Allocation((share("4Gi", "30"),)), card("gone")]
)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.sampled_from(["team/a", "team/b", "other/c"]), ALLOCATIONS),
        st.tuples(st.just("quota"), st.sampled_from(["team/q", "team/r", "other/q"]), st.integers(0, 300)),
        st.tuples(st.just("remove"), st.sampled_from(["team/q", "team/r", "other/q"]), st.none()),
        st.tuples(st.just("ask"), st.just("team"), st.none()),
    ),
    max_size=30,
)


@given(CHANGES)
def test_used_is_the_sum_over_allocated_claims_after_any_changes(changes: list[tuple[str, str, object]]) -> None:
    books, claims, quotas = QuotaLedger(NAMES, found), dict[str, Allocation | None](), dict[str, Quota]()
    for what, key, value in changes:
        if what == "claim":
            assert value is None or isinstance(value, Allocation)
            claims[key] = value
            books.count(key, value)
        elif what == "quota":
            quotas[key] = quota(key, cores=str(value))
            books.upsert(quotas[key], [claim(name, given_to) for name, given_to in claims.items()])
        elif what == "remove":
            quotas.pop(key, None)
            books.remove(key)
        else:
            books.used(key)
    for namespace in ("team", "other"):
        limited = any(key.startswith(f"{namespace}/") for key in quotas)
        expected = Counter[str]()
        for key, allocation in claims.items():
            if limited and allocation is not None and key.startswith(f"{namespace}/"):
                expected.update(price(allocation, found, NAMES).amounts)
        assert +Counter(books.used(namespace)) == expected
        for ask in (card("gpu-0"), Allocation((share("1Gi", "1"),))):
            more = price(ask, found, NAMES).amounts["cores"]
            fits = all(
                expected["cores"] + more <= one.limits["cores"] for one in quotas.values() if one.namespace == namespace
            )
            assert (books.beyond(namespace, [ask]) is None) == (fits or not limited)
