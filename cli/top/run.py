"""The work of ``lode top``: read the subject, print its report."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cli import live
from cli.exitcodes import FAILED
from cli.top import claims, namespaces
from cli.top.report import Listing, TableColumn, rendered
from driver.errors import LodeError
from driver.kube.api import Api
from driver.names import Names

_SUBJECTS: Final[Mapping[str, tuple[Sequence[TableColumn], Callable[[Api, str, Names], Listing]]]] = {
    "claims": (claims.COLUMNS, claims.report),
    "namespaces": (namespaces.COLUMNS, namespaces.report),
}


def run(arguments: argparse.Namespace) -> int:
    """Print what the command's arguments ask for; the exit status."""
    columns, report = _SUBJECTS[arguments.subject]
    try:
        with live.cluster(arguments.kubeconfig, arguments.context) as (api, current):
            namespace = "" if arguments.all_namespaces else arguments.namespace or current
            found = report(api, namespace, Names(arguments.driver))
    except LodeError as error:
        sys.stderr.write(f"lode top: {error}\n")
        return FAILED
    for note in found.notes:
        sys.stderr.write(f"note: {note}\n")
    text = rendered(found, columns, arguments.output)
    if text:
        print(text)
    else:
        where = f"in namespace {namespace}" if namespace else "in the cluster"
        sys.stderr.write(f"No {arguments.subject} hold devices of {arguments.driver} {where}.\n")
    return 0
