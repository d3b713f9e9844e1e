"""The work of ``lode explain``: read the object, decide, print."""

import argparse
import json
import sys
import time
from typing import Final

from cli import live
from cli.decision_settings import settings_in
from cli.exitcodes import FAILED, PLACED, WAITS
from cli.explanation import ExplainedOutcome, Explainer
from driver.errors import LodeError, OperatorFault
from driver.names import Names

_KINDS: Final = {
    "Pod": ("pod", "pods", "po"),
    "Gang": ("gang", "gangs"),
    "ResourceClaim": ("claim", "claims", "resourceclaim", "resourceclaims"),
}


def run(arguments: argparse.Namespace) -> int:
    """Explain as the command's arguments say; the exit status."""
    try:
        explanation = _explanation(arguments)
    except LodeError as error:
        sys.stderr.write(f"lode explain: {error}\n")
        return FAILED
    if arguments.output == "json":
        print(json.dumps(explanation.to_json(), indent=2))
    else:
        for note in explanation.notes:
            sys.stderr.write(f"note: {note}\n")
        print(explanation.text(time.time()))
    return WAITS if explanation.waits else PLACED


def _explanation(arguments: argparse.Namespace) -> ExplainedOutcome:
    kind, name = _parse_target(arguments.what)
    with live.cluster(arguments.kubeconfig, arguments.context) as (api, namespace):
        settings, chosen = settings_in(arguments.settings), arguments.namespace or namespace
        explainer = Explainer(api, Names(arguments.driver), chosen, time.time(), settings)
        return explainer.explain(kind, name)


def _parse_target(target: str) -> tuple[str, str]:
    """Kind ("" for either) and name.

    Raises:
        OperatorFault: the target does not name a pod or claim.
    """
    word, slash, name = target.rpartition("/")
    kinds = [kind for kind, words in _KINDS.items() if word.split(".")[0].lower() in words]
    if not name or (slash and not kinds):
        raise OperatorFault(f"{target!r} names nothing; write pod/NAME, claim/NAME, gang/NAME or NAME")
    return (kinds[0] if kinds else ""), name
