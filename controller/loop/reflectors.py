"""The reflectors that feed the state: what of each kind is listed, and in pages of which size."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from controller.state import OPTIONAL_RESOURCES, State, StateDelta
from driver.kube.api import (
    KUEUE_ADMISSION_CHECKS,
    KUEUE_WORKLOADS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_SLICES,
    Api,
)
from driver.kube.reflector import PAGE_SIZE, Reflector

_FIELD_SELECTORS: Final = {PODS: "status.phase!=Failed"}
"""A pod that has failed uses nothing. The API reports it as deleted when it fails. One that has succeeded uses nothing
either, but counts as a member of its gang."""
_OF_SWITCHES: Final = (POD_DISRUPTION_BUDGETS, KUEUE_WORKLOADS, KUEUE_ADMISSION_CHECKS)
"""Kinds that are watched only with a setting. A cluster need not serve them, or let this program read them."""
_PAGE_SIZES: Final = {RESOURCE_SLICES: 20}
"""A slice has up to 128 devices and some 100 kB of JSON."""


def reflectors_of(
    api: Api, state: State, deliver: Callable[[StateDelta], None], now: Callable[[], float]
) -> Sequence[Reflector]:
    """Return a reflector for each kind that the state needs, which passes decoded reports to ``deliver``."""
    reflectors = tuple(
        Reflector(
            api,
            resource,
            lambda delta: deliver(state.decode(delta)),
            field_selector=_FIELD_SELECTORS.get(resource, ""),
            page_size=_PAGE_SIZES.get(resource, PAGE_SIZE),
            optional=resource in (*OPTIONAL_RESOURCES, *_OF_SWITCHES),
        )
        for resource in state.resources
    )
    for reflector in reflectors:
        reflector.now, reflector.heard = now, now()
    return reflectors


def ages_of(reflectors: Iterable[Reflector], now: Callable[[], float]) -> Mapping[str, Callable[[], float]]:
    """Return, by plural, how long ago the API last told of the kind; the longest if several kinds have one plural."""
    alike: dict[str, list[Reflector]] = {}
    for reflector in reflectors:
        alike.setdefault(reflector.resource.plural, []).append(reflector)

    def age(ones: Iterable[Reflector]) -> float:
        return now() - min(one.heard for one in ones)

    return {plural: partial(age, ones) for plural, ones in alike.items()}
