"""The work of ``lode explain``: read the object, decide, print."""

import argparse
import json
import sys
import time
from typing import Final, Protocol

from cli import live
from cli.decisions.settings import settings_in
from cli.exitcodes import PLACED, WAITS
from cli.explain.card import explain_card
from cli.explain.namespace import explain_namespace
from cli.explain.pods import Explainer
from controller.state import DecisionSettings
from driver.errors import OperatorFault
from driver.kube.api import Api
from driver.names import Names
from driver.wire import Json

_KINDS: Final = {
    "Pod": ("pod", "pods", "po"),
    "Gang": ("gang", "gangs"),
    "ResourceClaim": ("claim", "claims", "resourceclaim", "resourceclaims"),
    "Namespace": ("namespace", "namespaces", "ns"),
    "Card": ("card", "cards"),
}


class PrintableExplanation(Protocol):
    """What is said about an object."""

    @property
    def waits(self) -> bool:
        """Whether it waits, or keeps others waiting."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Gaps in the answer."""

    def to_json(self) -> Json:
        """For programs."""

    def text(self, now: float) -> str:
        """For people; ages count from ``now`` (seconds since the epoch)."""


def run(arguments: argparse.Namespace) -> int:
    """Explain as the command's arguments say; the exit status."""
    explanation = _explanation(arguments)
    if arguments.output == "json":
        print(json.dumps(explanation.to_json(), indent=2))
    else:
        for note in explanation.notes:
            sys.stderr.write(f"note: {note}\n")
        print(explanation.text(time.time()))
    return WAITS if explanation.waits else PLACED


def _explanation(arguments: argparse.Namespace) -> PrintableExplanation:
    _parse_target(arguments.what)  # before a cluster is looked for
    names, settings = Names(arguments.driver), settings_in(arguments.settings)
    with live.cluster(arguments.kubeconfig, arguments.context) as (api, namespace):
        return explained(api, arguments.what, arguments.namespace or namespace, names, settings)


def explained(
    api: Api, target: str, namespace: str, names: Names, settings: DecisionSettings | None = None
) -> PrintableExplanation:
    """Explain what the command line calls ``pod/NAME``, ``card/NODE/CARD`` and so on.

    Args:
        settings: of the controller; None for those of the controller that is installed.

    Raises:
        OperatorFault: the target names nothing, or something cannot be read; the message says what to do.
    """
    kind, name = _parse_target(target)
    if kind == "Card":
        return explain_card(api, name, names)
    if kind == "Namespace":
        return explain_namespace(api, name, names)
    return Explainer(api, names, namespace, time.time(), settings).explain(kind, name)


def _parse_target(target: str) -> tuple[str, str]:
    """Kind ("" for a pod or a claim) and name. A gang of an owner has a slash in its name: ``Job/train``.

    Raises:
        OperatorFault: the target names nothing that can be explained.
    """
    word, slash, name = target.partition("/") if "/" in target else ("", "", target)
    kinds = [kind for kind, words in _KINDS.items() if word.split(".")[0].lower() in words]
    if not name or (slash and not kinds) or ("/" in name and kinds not in (["Card"], ["Gang"])):
        forms = "pod/NAME, claim/NAME, gang/NAME, card/NODE/CARD, namespace/NAME or NAME"
        raise OperatorFault(f"{target!r} names nothing; write {forms}")
    return (kinds[0] if kinds else ""), name
