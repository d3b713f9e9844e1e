"""What a tenant may write byte for byte, and what is made of it: everybody's objects can be listed and watched."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from driver.kube.access import from_environment
from driver.kube.api import NAMESPACES, PODS, RESOURCE_CLAIMS, Api, ApiCall, Resource
from driver.kube.connections import Connections, HttpRequest
from driver.kube.decorator import ApiDecorator
from driver.kube.reflector import Delta, Reflector, Removed, Synced, Upserted
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually
from tests.contract.objects import claim, pod

HOSTILE = {
    "deep": b'{"a":' + b"[" * 4900 + b"]" * 4900 + b"}",
    "half of a surrogate pair": rb'{"a":"\ud800"}',
    "no UTF-8": b'{"a":"\xff"}',
}
Write = Callable[[str, str, bytes, str], int]


@pytest.fixture
def tenant(admin: Api, unique: str) -> str:
    """A namespace for this test, in which pods can be created."""
    admin.create(NAMESPACES, {"metadata": {"name": unique}})
    eventually(lambda: admin.get(SERVICE_ACCOUNTS, "default", unique))
    return unique


@pytest.fixture
def write(control_plane: ControlPlane) -> Iterator[Write]:
    """Sends bytes as they are, and returns the status of the answer."""
    access = from_environment(str(control_plane.kubeconfig()))
    with closing(Connections(access, 1)) as connections:

        def send(method: str, path: str, body: bytes, kind: str) -> int:
            response = connections.send(
                HttpRequest(method, path, {"Accept": "application/json", "Content-Type": kind}, body), 30
            )
            response.read()
            return response.status

        yield send


def hostile_claim(name: str, parameters: bytes) -> bytes:
    return (
        b'{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"%s"},"spec":{"devices":{'
        b'"requests":[{"name":"gpu","exactly":{"deviceClassName":"any.example.com"}}],'
        b'"config":[{"opaque":{"driver":"any.example.com","parameters":%s}}]}}}'
    ) % (name.encode(), parameters)


class OneNamespace(ApiDecorator):
    """The API, which shows only the objects of one namespace, and whose watches end soon."""

    def __init__(self, api: Api, namespace: str):
        super().__init__(api)
        self._namespace = namespace

    def call(self, call: ApiCall) -> Any:
        return super().call(call._replace(namespace=self._namespace, timeout_seconds=2))


def reflected(api: Api, resource: Resource, namespace: str) -> tuple[Reflector, list[Delta]]:
    seen: list[Delta] = []
    return Reflector(OneNamespace(api, namespace), resource, seen.append), seen


def names(seen: list[Delta], kind: type[Upserted | Removed]) -> set[str]:
    return {delta.object["metadata"]["name"] for delta in seen if isinstance(delta, kind)}


@pytest.mark.parametrize("parameters", HOSTILE.values(), ids=HOSTILE)
def test_parameters_that_no_decoder_takes_hide_no_claim(
    admin: Api, tenant: str, write: Write, parameters: bytes
) -> None:
    before, watched = reflected(admin, RESOURCE_CLAIMS, tenant)
    before.step()
    for name in ("a", "c"):
        admin.create(RESOURCE_CLAIMS, claim(name, tenant))
    assert write("POST", RESOURCE_CLAIMS.path(tenant), hostile_claim("b", parameters), "application/json") == 201
    after, listed = reflected(admin, RESOURCE_CLAIMS, tenant)
    after.step()
    assert isinstance(listed[-1], Synced)
    assert listed[-1].keys == {f"{tenant}/{name}" for name in "abc"}
    assert admin.get(RESOURCE_CLAIMS, "b", tenant)["metadata"]["name"] == "b"

    admin.delete(RESOURCE_CLAIMS, "b", tenant)
    admin.create(RESOURCE_CLAIMS, claim("d", tenant))

    def seen_in_a_watch() -> bool:
        before.step()
        return names(watched, Upserted) == set("abcd") and names(watched, Removed) == {"b"}

    eventually(seen_in_a_watch)


def test_managed_fields_that_no_decoder_takes_hide_no_pod(admin: Api, tenant: str, write: Write) -> None:
    admin.create(PODS, pod("p", tenant))
    deep = b'{"f:a":' * 1500 + b"{}" + b"}" * 1500
    entry = (
        b'"manager":"x","operation":"Update","apiVersion":"v1","time":"2027-01-01T00:00:00Z","fieldsType":"FieldsV1"'
    )
    patch = b'{"metadata":{"managedFields":[{%s,"fieldsV1":%s}]}}' % (entry, deep)
    assert write("PATCH", PODS.path(tenant, "p"), patch, "application/merge-patch+json") == 200
    reflector, seen = reflected(admin, PODS, tenant)
    reflector.step()
    assert names(seen, Upserted) == {"p"}
