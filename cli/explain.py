"""``lode explain``, ``kubectl lode explain``: what a pod or claim in the cluster holds, or why it waits. Reads only."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from driver.errors import LodeError, OperatorFault
from driver.names import DEFAULT_DRIVER

if TYPE_CHECKING:
    from cli.explanation import Explanation

HAS_DEVICES: Final = 0
WAITS: Final = 1
NOT_EXPLAINED: Final = 2

_DESCRIPTION: Final = """\
Say what a pod or claim in the cluster holds, where, and who uses it; or, while it waits, what would be decided about it
now and every reason against it, node by node. Nothing is written."""
_EPILOG: Final = """\
exit status: 0 it has its devices or could have them now, 1 it waits, 2 it cannot be explained
example: kubectl lode explain pod/train -n team-a"""
_KINDS: Final = {
    "Pod": ("pod", "pods", "po"),
    "ResourceClaim": ("claim", "claims", "resourceclaim", "resourceclaims"),
}


def main(argv: Sequence[str]) -> int:
    """Explain; the exit status, as the command's help says."""
    parser = argparse.ArgumentParser(
        "lode explain",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", metavar="pod/NAME|claim/NAME|NAME", help="NAME alone is a pod or a claim")
    parser.add_argument("-n", "--namespace", default="", help="default: that of the kubeconfig's context")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="default: as for kubectl")
    parser.add_argument("--driver", default=DEFAULT_DRIVER, metavar="NAME", help=f"default: {DEFAULT_DRIVER}")
    arguments = parser.parse_args(argv)
    try:
        explanation = _explanation(arguments)
    except LodeError as error:
        sys.stderr.write(f"lode explain: {error}\n")
        return NOT_EXPLAINED
    if arguments.output == "json":
        print(json.dumps(explanation.to_json(), indent=2))
    else:
        for note in explanation.notes:
            sys.stderr.write(f"note: {note}\n")
        print(explanation.text(time.time()))
    return WAITS if explanation.waits else HAS_DEVICES


def _explanation(arguments: argparse.Namespace) -> "Explanation":
    kind, name = _target(arguments.what)
    from cli.explanation import Explainer
    from cli.live import cluster
    from driver.names import Names

    with cluster(arguments.kubeconfig) as (api, namespace):
        explainer = Explainer(api, Names(arguments.driver), arguments.namespace or namespace, time.time())
        return explainer.explain(kind, name)


def _target(what: str) -> tuple[str, str]:
    """Kind ("" for either) and name.

    Raises:
        OperatorFault: it is no way to name a pod or claim.
    """
    word, slash, name = what.rpartition("/")
    kinds = [kind for kind, words in _KINDS.items() if word.split(".")[0].lower() in words]
    if not name or (slash and not kinds):
        raise OperatorFault(f"{what!r} names nothing; write pod/NAME, claim/NAME or NAME")
    return (kinds[0] if kinds else ""), name
