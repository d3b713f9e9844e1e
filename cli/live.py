"""Reads the objects of a cluster with the rights of the user. Only ``get`` and ``list`` are used."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cli.objects.checks import InputObject
from cli.objects.documents import LIVE
from controller.membership import GROUP_SOURCES, GangTerms
from controller.state import DEVICE_TAINT_RULES_BETA, GANG_RESOURCES, PodView, State
from controller.state.kinds import VOLUME_RESOURCES
from driver.errors import OperatorFault
from driver.kube.access import from_environment
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    JOB_SETS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
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
CHOOSING_NODES: Final = (NAMESPACES, *VOLUME_RESOURCES)
"""Kinds that are read only to choose nodes; without the right to read them, the answer says so."""
_MOST_NAMED: Final = 3
"""Pods that a note names."""


@dataclass(frozen=True, slots=True)
class MissingRight:
    """A right to read that the user does not have."""

    verb: str
    resource: Resource
    namespace: str = ""
    """"" for all namespaces."""

    def __str__(self) -> str:
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        group = f" of API group {self.resource.group}" if self.resource.group else ""
        return f"you may not {self.verb} {self.resource.plural}{group} {where}"


class NoRights(OperatorFault):
    """The user lacks rights to read what is needed. Carries all missing rights at once."""

    def __init__(self, missing: Sequence[MissingRight]):
        self.missing = tuple(missing)
        rights = "; ".join(map(str, missing))
        super().__init__(f"{rights}. Have an administrator grant this (docs/simulate.md has the ClusterRole)")


@contextmanager
def cluster(kubeconfig: str, context: str = "") -> Iterator[tuple[Api, str]]:
    """The API of the cluster that kubectl would use, and the namespace of its context.

    Raises:
        OperatorFault: there is no usable kubeconfig; the message says what to do.
    """
    access = from_environment(kubeconfig, context=context)
    client = KubeClient(access)
    try:
        yield client, access.namespace
    finally:
        client.close()


def list_all(api: Api, resource: Resource, namespace: str = "", field_selector: str = "") -> list[Object]:
    """Every object of the kind, in one namespace or in all; none if the API does not serve an optional kind.

    Raises:
        NoRights, OperatorFault: as ``each``.
    """
    return list(each(api, resource, namespace, field_selector=field_selector))


def each(
    api: Api, resource: Resource, namespace: str = "", *, field_selector: str = "", label_selector: str = ""
) -> Iterator[Object]:
    """Yield what ``list_all`` has, page by page, so that one page at a time takes memory.

    Raises:
        NoRights: the user may not list it.
        OperatorFault: the API server cannot be reached or does not answer; the message says what to do.
    """
    try:
        yield from _pages(api, resource, namespace, field_selector, label_selector)
    except NotFound:
        if resource == DEVICE_TAINT_RULES:
            yield from each(api, DEVICE_TAINT_RULES_BETA)
        elif resource != DEVICE_TAINT_RULES_BETA and resource not in GANG_RESOURCES:
            served = f"{resource.plural} of {resource.api_version}"
            raise OperatorFault(f"the API server does not serve {served}; it must be 1.36 or newer") from None
    except Forbidden as error:
        raise fault_of_forbidden(error, MissingRight("list", resource, namespace)) from error
    except ApiError as error:
        raise fault_of_api_error(error) from error


def labelled(api: Api, resource: Resource, label_selector: str) -> Collection[str] | None:
    """Return the names of the objects of the kind that have these labels; None if no labels are asked for.

    Raises:
        NoRights, OperatorFault: as ``each``.
    """
    if not label_selector:
        return None
    return {one["metadata"]["name"] for one in each(api, resource, label_selector=label_selector)}


def get_one(api: Api, resource: Resource, name: str, namespace: str) -> Object | None:
    """The object, or None if it does not exist.

    Raises:
        NoRights: the user may not read it.
        OperatorFault: as for ``list_all``.
    """
    try:
        return api.get(resource, name, namespace)
    except NotFound:
        return None
    except Forbidden as error:
        raise fault_of_forbidden(error, MissingRight("get", resource, namespace)) from error
    except ApiError as error:
        raise fault_of_api_error(error) from error


def _pages(api: Api, resource: Resource, namespace: str, field_selector: str, label_selector: str) -> Iterable[Object]:
    token = ""
    while True:
        page = api.list(
            resource,
            namespace=namespace,
            field_selector=field_selector,
            label_selector=label_selector,
            continue_token=token,
        )
        yield from page.items
        token = page.continue_token
        if not token:
            return


def fault_of_forbidden(error: Forbidden, right: MissingRight) -> OperatorFault:
    """The fault to report for a 401 or a 403."""
    if error.status == 401:
        return OperatorFault(f"the API server does not know you: {error}; log in, or choose another kubeconfig")
    return NoRights([right])


def fault_of_api_error(error: ApiError) -> OperatorFault:
    """The fault to report for an error that has nothing to do with rights."""
    if isinstance(error, Gone):
        return OperatorFault(f"the list took so long that the API server forgot it: {error}; try again")
    return OperatorFault(f"the API server gave no usable answer: {error}; see that the kubeconfig names the right one")


def read_what_may_be_read(api: Api) -> tuple[list[InputObject], list[MissingRight]]:
    """Read the kinds that only choose nodes, give gangs their size or limit namespaces, as far as the user may.

    Returns:
        the objects, and the missing rights.

    Raises:
        OperatorFault: see ``list_all``.
    """
    objects: list[InputObject] = []
    missing: list[MissingRight] = []
    for resource in (*CHOOSING_NODES, *GANG_RESOURCES, RESOURCE_QUOTAS, POD_DISRUPTION_BUDGETS):
        try:
            objects += stored(resource, list_all(api, resource))
        except NoRights as error:
            missing += error.missing
    return objects, missing


def consequences(missing: Iterable[MissingRight], state: State) -> Iterator[str]:
    """Notes on the gaps in an answer without the missing rights of ``read_what_may_be_read``."""
    said: dict[str, None] = {}
    for right in missing:
        if right.resource == NAMESPACES:
            said[f"{right}: terms of pod affinity that select namespaces by labels are taken to select none"] = None
        elif right.resource == RESOURCE_QUOTAS:
            said[f"{right}: quotas in memory and cores of cards are taken to limit no namespace"] = None
        elif right.resource == POD_DISRUPTION_BUDGETS:
            said[f"{right}: so it is not said which pods would be evicted"] = None
        elif right.resource not in GANG_RESOURCES:
            said[f"{right}: volumes exclude no node"] = None
        elif pods := [key for key, pod in state.pods.items() if _is_described_by(right.resource, pod, state)]:
            named = ", ".join(sorted(pods)[:_MOST_NAMED]) + (", ..." if len(pods) > _MOST_NAMED else "")
            said[f"{right}: without it, it is not known how many members gangs have: {named}"] = None
    yield from said


def _is_described_by(resource: Resource, pod: PodView, state: State) -> bool:
    """Whether an object of the kind may say how many members the gang of a waiting pod has."""
    if pod.node_name or pod.gang is None or not (state.gangs.gang_of(pod.key) or state.gangs.faults(pod.key)):
        return False
    if source := GROUP_SOURCES.get(resource):
        # Pods name no group of groups; their gang is named after it.
        of_groups = state.gangs.gang_of(pod.key).partition("/")[2].startswith(f"{resource.kind}/")
        return of_groups or any(group.source is source for group in pod.gang.groups)
    owner = pod.gang.owner
    if owner is None or owner.kind != JOB_SETS.kind:
        return owner is not None and owner.kind == resource.kind
    # Where JobSets cannot be read, their Jobs say it, and the other way round.
    gang = state.gangs.gang_of(pod.key)
    terms = state.gangs.terms(gang) if gang else ()
    return resource in (JOBS, JOB_SETS) and isinstance(terms, GangTerms) and bool(terms.awaited)


def read_all(api: Api, overlay: Sequence[InputObject]) -> tuple[list[InputObject], list[str]]:
    """Everything in the cluster that a decision depends on, replaced or extended by ``overlay``; and notes about that.

    A pod or claim that exists in the cluster is not replaced: what concerns devices cannot be changed in either.

    Raises:
        NoRights, OperatorFault: see ``list_all``; all missing rights at once.
    """
    objects: dict[object, InputObject] = {}
    missing: list[MissingRight] = []
    for resource in (*DECIDING, RESOURCE_CLAIM_TEMPLATES):
        try:
            objects.update((obj.key, obj) for obj in stored(resource, list_all(api, resource)))
        except NoRights as error:
            missing += error.missing
    if missing:
        raise NoRights(missing)
    notes = []
    for obj in overlay:
        if obj.key in objects and obj.resource in (PODS, RESOURCE_CLAIMS):
            notes.append(f"{obj.subject} is in the cluster already and is taken as it is there ({obj.origin})")
        else:
            objects[obj.key] = obj
    return list(objects.values()), notes


def stored(resource: Resource, objects: Iterable[Object]) -> Iterator[InputObject]:
    """Objects that were read from the API, as input."""
    return (InputObject(resource, {**obj, "apiVersion": resource.api_version}, LIVE, True) for obj in objects)
