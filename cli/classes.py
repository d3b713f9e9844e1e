"""The work of ``lode classes``: read the slices, print the classes."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Final

from cli.exitcodes import FAILED
from cli.live import cluster, each
from cli.resource_classes import PublishedResource, ResourceClass, class_of, published, refusal_of
from driver.kube.api import RESOURCE_SLICES
from driver.names import Names

DONE: Final = 0
NOTHING: Final = 1


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's arguments say; the exit status."""
    names = Names(arguments.driver)
    found = [PublishedResource(name) for name in dict.fromkeys(arguments.resource)] or _published(arguments, names)
    if not found:
        sys.stderr.write("lode classes: no node publishes a resource of a device plugin\n")
        return NOTHING
    if faults := [f"{one.name}: {refusal}" for one in found if (refusal := refusal_of(one.name))]:
        sys.stderr.write("".join(f"lode classes: {fault}\n" for fault in faults))
        return FAILED
    by_scheduler = arguments.allocator == "kube-scheduler"
    sys.stdout.write(_text([class_of(one, names, by_scheduler=by_scheduler) for one in found]))
    return DONE


def _published(arguments: argparse.Namespace, names: Names) -> list[PublishedResource]:
    """Raises LodeError: see ``cli.live``."""
    with cluster(arguments.kubeconfig, arguments.context) as (api, _):
        return published(each(api, RESOURCE_SLICES), names)


def _text(classes: Sequence[ResourceClass]) -> str:
    parts = [one.manifest() for one in classes]
    adopted = {one.resource: one.name for one in classes if not one.by_scheduler}
    if adopted:
        entries = json.dumps([f"{resource}={name}" for resource, name in adopted.items()])
        parts[0] = (
            "# Pods that ask for these resources run unchanged in namespaces that adopt them (docs/adoption.md):\n"
            f"# with Helm, --set adopt.sources='{{plain}}' --set-json adopt.plain='{json.dumps(adopted)}';\n"
            f"# with kustomize, the list of the component manifests/adopt/plain is {entries}.\n{parts[0]}"
        )
    return "---\n".join(parts)
