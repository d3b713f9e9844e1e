"""What a cluster's API says, as far as the user may read it. Only ``get`` and ``list`` are asked for."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cli.checks import InputObject
from cli.documents import LIVE
from controller.state import DEVICE_TAINT_RULES_BETA
from driver.errors import OperatorFault
from driver.kube.access import from_environment
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    Object,
    Resource,
)
from driver.kube.client import KubeClient

DECIDING: Final = (NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, DEVICE_TAINT_RULES)
"""Kinds that a decision depends on."""


@dataclass(frozen=True, slots=True)
class MissingRight:
    """Something the user may not do, and so is not known."""

    verb: str
    resource: Resource
    namespace: str = ""
    """"" for the whole cluster."""

    def __str__(self) -> str:
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        group = f" of API group {self.resource.group}" if self.resource.group else ""
        return f"you may not {self.verb} {self.resource.plural}{group} {where}"


class NoRights(OperatorFault):
    """What has to be read may not be. Carries all missing rights at once."""

    def __init__(self, missing: Sequence[MissingRight]):
        self.missing = tuple(missing)
        told = "; ".join(map(str, missing))
        super().__init__(f"{told}. Have an administrator grant this (docs/simulate.md has the ClusterRole)")


@contextmanager
def cluster(kubeconfig: str) -> Iterator[tuple[Api, str]]:
    """The API of the cluster that kubectl would talk to, and the namespace that is meant where none is named.

    Raises:
        OperatorFault: there is no usable kubeconfig; the message says what to do.
    """
    access = from_environment(kubeconfig)
    client = KubeClient(access)
    try:
        yield client, access.namespace
    finally:
        client.close()


def list_all(api: Api, resource: Resource, namespace: str = "") -> list[Object]:
    """Every object of the kind, in one namespace or in all; none where the API does not serve an optional kind.

    Raises:
        NoRights: it may not be listed.
        OperatorFault: the API server cannot be reached or does not answer; the message says what to do.
    """
    try:
        return list(_pages(api, resource, namespace))
    except NotFound:
        if resource == DEVICE_TAINT_RULES:
            return list_all(api, DEVICE_TAINT_RULES_BETA)
        if resource == DEVICE_TAINT_RULES_BETA:
            return []
        message = f"the API server does not serve {resource.plural} of {resource.api_version}; it must be 1.36 or newer"
        raise OperatorFault(message) from None
    except Forbidden as error:
        raise refused(error, MissingRight("list", resource, namespace)) from error
    except ApiError as error:
        raise unreachable(error) from error


def get_one(api: Api, resource: Resource, name: str, namespace: str) -> Object | None:
    """The object, or None if there is none.

    Raises:
        NoRights: it may not be read.
        OperatorFault: as for ``list_all``.
    """
    try:
        return api.get(resource, name, namespace)
    except NotFound:
        return None
    except Forbidden as error:
        raise refused(error, MissingRight("get", resource, namespace)) from error
    except ApiError as error:
        raise unreachable(error) from error


def _pages(api: Api, resource: Resource, namespace: str) -> Iterable[Object]:
    token = ""
    while True:
        page = api.list(resource, namespace=namespace, continue_token=token)
        yield from page.items
        token = page.continue_token
        if not token:
            return


def refused(error: Forbidden, right: MissingRight) -> OperatorFault:
    """What to tell of a 401 or a 403."""
    if error.status == 401:
        return OperatorFault(f"the API server does not know you: {error}; log in, or choose another kubeconfig")
    return NoRights([right])


def unreachable(error: ApiError) -> OperatorFault:
    """What to tell of an answer that is no answer."""
    if isinstance(error, Gone):
        return OperatorFault(f"the list took so long that the API server forgot it: {error}; try again")
    return OperatorFault(f"the API server gave no usable answer: {error}; see that the kubeconfig names the right one")


def read_live(api: Api, on_top: Sequence[InputObject]) -> tuple[list[InputObject], list[str]]:
    """Everything in the cluster that a decision depends on, with ``on_top`` over it; and notes about that.

    A pod or claim that is there already stays as it is there: neither can be changed in what concerns devices.

    Raises:
        NoRights, OperatorFault: see ``list_all``; all missing rights at once.
    """
    found: dict[object, InputObject] = {}
    missing: list[MissingRight] = []
    for resource in (*DECIDING, RESOURCE_CLAIM_TEMPLATES):
        try:
            found.update((one.key, one) for one in stored(resource, list_all(api, resource)))
        except NoRights as error:
            missing += error.missing
    if missing:
        raise NoRights(missing)
    notes = []
    for one in on_top:
        if one.key in found and one.resource in (PODS, RESOURCE_CLAIMS):
            notes.append(f"{one.subject} is in the cluster already and is taken as it is there ({one.origin})")
        else:
            found[one.key] = one
    return list(found.values()), notes


def stored(resource: Resource, objects: Iterable[Object]) -> Iterator[InputObject]:
    """Objects that were read, as if given."""
    return (InputObject(resource, {**obj, "apiVersion": resource.api_version}, LIVE, True) for obj in objects)
