"""The names of claims of templates are those that the resource-claim-controller gives, and refused where its are."""

from typing import Final

import pytest

from driver.kube.api import EVENTS, NAMESPACES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Api, Object
from driver.kube.objects import generated_claim_prefix, unnameable_claim
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually
from tests.contract.objects import claim_spec, pod

MADE: Final = {
    f"{len(owner)} and {len(entry)}": (owner, entry)
    for owner, entry in (
        ("p", "e"),
        ("q", "e" * 53),
        ("p" * 2, "e" * 53),
        ("q" * 2, "e" * 63),
        ("p" * 27, "e" * 28),
        ("p" * 28, "e" * 28),
        ("p" * 40, "e" * 40),
        ("p" * 124, "gpu"),
        ("p" * 253, "e"),
        ("q" * 253, "e" * 63),
        ("p.q" * 30, "e" * 20),
    )
}
REFUSED: Final = {"nothing is left of the pod": ("p", "e" * 63), "a dot is left": ("a.b", "e" * 63)}


@pytest.fixture
def templated(admin: Api, unique: str) -> str:
    """A namespace with the template t."""
    admin.create(NAMESPACES, {"metadata": {"name": unique}})
    template = {"metadata": {"name": "t", "namespace": unique}, "spec": {"spec": claim_spec()}}
    eventually(lambda: admin.create(RESOURCE_CLAIM_TEMPLATES, template))
    eventually(lambda: admin.get(SERVICE_ACCOUNTS, "default", unique))
    return unique


def created(api: Api, namespace: str, name: str, entry: str) -> Object:
    entries = [{"name": entry, "resourceClaimTemplateName": "t"}]
    return api.create(PODS, pod(name, namespace, gates=("nobody.example.com/gate",), resourceClaims=entries))


def test_a_name_that_is_too_long_is_cut_alike(admin: Api, templated: str) -> None:
    uids = {name: created(admin, templated, *of)["metadata"]["uid"] for name, of in MADE.items()}

    def prefixes() -> dict[str, str]:
        claims = [claim["metadata"] for claim in admin.list(RESOURCE_CLAIMS, namespace=templated).items]
        return {claim["ownerReferences"][0]["uid"]: claim["generateName"] for claim in claims}

    eventually(lambda: len(prefixes()) == len(uids))
    found = prefixes()
    assert {name: found[uid] for name, uid in uids.items()} == {
        name: generated_claim_prefix(*of) for name, of in MADE.items()
    }
    assert not any(unnameable_claim(*of) for of in MADE.values())


@pytest.mark.parametrize(("name", "entry"), REFUSED.values(), ids=REFUSED)
def test_where_no_valid_name_begins_so_the_claim_never_comes(admin: Api, templated: str, name: str, entry: str) -> None:
    created(admin, templated, name, entry)

    def failed() -> list[Object]:
        events = admin.list(EVENTS, namespace=templated).items
        return [event for event in events if event["reason"] == "FailedResourceClaimCreation"]

    assert generated_claim_prefix(name, entry) in eventually(failed)[0]["message"]
    assert generated_claim_prefix(name, entry) in unnameable_claim(name, entry)
