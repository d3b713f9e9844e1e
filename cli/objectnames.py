"""Names of objects of a cluster, as far as the user may read them, for whoever completes a word."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from cli import live
from cli.wanted import FORMS, WantedNames
from driver.device_facts import card_of
from driver.errors import SENSELESS
from driver.kube.api import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object, Resource
from driver.names import DEFAULT_DRIVER

_KINDS: Final[Mapping[str, Resource]] = {
    "nodes": NODES,
    "claims": RESOURCE_CLAIMS,
    "namespaces": NAMESPACES,
    "pods": PODS,
}
_SPACED: Final = ("claims", "pods")


def names(wanted: WantedNames) -> Iterator[str]:
    """Yield what may stand in the place of the word. The cluster is only read if objects may.

    Raises:
        OperatorFault: see ``live.cluster`` and ``live.each``.
    """
    forms = [FORMS[form] for form in wanted.forms]
    yield from (start for start, _ in forms if start.startswith(wanted.current) and start != wanted.current)
    begun = [(start, kind) for start, kind in forms if wanted.current.startswith(start)]
    if not begun:
        return
    with live.cluster(wanted.option("--kubeconfig"), wanted.option("--context")) as (api, current):
        namespace = wanted.option("-n", "--namespace") or current
        if {"-A", "--all-namespaces"} & {*wanted.words}:
            namespace = ""
        driver = wanted.option("--driver") or DEFAULT_DRIVER
        for start, kind in begun:
            for name in _names_of(api, kind, wanted.current.removeprefix(start), namespace, driver):
                if (offered := f"{start}{name}").startswith(wanted.current):
                    yield offered


def _names_of(api: Api, kind: str, word: str, namespace: str, driver: str) -> Iterator[str]:
    node, slash, _ = word.partition("/")
    if kind == "cards" and slash:
        yield from _cards(api, node, driver)
        return
    found = live.each(api, _KINDS["nodes" if kind == "cards" else kind], namespace if kind in _SPACED else "")
    for obj in found:
        with suppress(*SENSELESS):
            yield str(obj["metadata"]["name"])


def _cards(api: Api, node: str, driver: str) -> Iterator[str]:
    """The cards of a node as ``NODE/CARD``, each once."""
    seen: dict[str, None] = {}
    for part in live.each(api, RESOURCE_SLICES, field_selector=f"spec.nodeName={node}"):
        with suppress(*SENSELESS):
            if part["spec"]["driver"] == driver:
                seen |= dict.fromkeys(f"{node}/{card_of(device['name'])}" for device in _devices(part))
    yield from seen


def _devices(part: Object) -> Sequence[Object]:
    found: Sequence[Object] = part["spec"].get("devices") or ()
    return found
