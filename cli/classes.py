"""``lode classes``: device classes for the resources of vendors' device plugins. Reads only."""

import argparse
from collections.abc import Sequence
from typing import Final

from cli.options import add_driver, cluster_options

_DESCRIPTION: Final = """\
Print a DeviceClass for each resource of the device plugins that Lode hosts, so that pods that ask for the resource run
unchanged. Without RESOURCE, the resources are those that the nodes of the cluster publish."""
_EPILOG: Final = """\
exit status: 0 the classes were printed, 1 no node publishes a resource of a device plugin, 2 it failed
examples:
  kubectl lode classes | kubectl apply -f -
  kubectl lode classes --allocator kube-scheduler amd.com/gpu | kubectl apply -f -"""


def main(argv: Sequence[str]) -> int:
    """Print the classes; the exit status, as the command's help says."""
    arguments = parser().parse_args(argv)
    # Imported only here, so that --help and wrong options are answered at once.
    from cli.classes_run import run

    return run(arguments)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(
        "lode classes",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[cluster_options()],
    )
    made.add_argument(
        "resource", nargs="*", metavar="RESOURCE", help="such as amd.com/gpu; default: those of the cluster"
    )
    made.add_argument(
        "--allocator",
        choices=("controller", "kube-scheduler"),
        default="controller",
        help="who allocates. With kube-scheduler the class has the name of the resource. With the controller pods are "
        "adopted, and a comment says what to set. Default: controller",
    )
    add_driver(made)
    return made
