"""``lode doctor``: whether a cluster or a node has what Lode needs, and what to do where not. Reads only.

run               looks, checks, prints
upgrade           what a newer Kubernetes refuses, changes or does not get over
cluster_look      reads what there is in a cluster
| node_look       reads what there is on this node
migration_look    reads what there is of other systems in a cluster
| bridge_look     reads what there is of device plugins on this node
| runtime_look    reads the settings of the node's container runtime
reading           reads objects one by one, as far as rights and objects allow
cluster_checks    whether a cluster has what Lode needs
| node_checks     whether a node has what the kubelet plugin needs
bridge_checks     whether device plugins have found their way to Lode
| runtime_checks  whether the container runtime reads the CDI specs of the plugin
migration_checks  whether pods of other systems are adopted as it is meant
| rivals          which cards of Lode another DRA driver publishes, too
findings          what checks found, and how it is printed
"""

import argparse
from collections.abc import Sequence
from typing import Final

from cli.doctor.upgrade import VERSIONS
from cli.options import cluster_options
from driver.names import CONTROLLER_NAMESPACE, PLUGIN_NAMESPACE

_DESCRIPTION: Final = """\
Check the cluster, or with "node" the machine that this runs on, for what Lode needs. Each failure has its remedy.
Nothing is changed."""
_EPILOG: Final = """\
exit status: 0 no check failed, 1 one failed or could not be made, 2 nothing could be checked
examples:
  kubectl lode doctor
  kubectl lode doctor --upgrade 1.38
  kubectl debug node/NODE -it --profile=sysadmin --image=IMAGE -- lode doctor node --root /host"""


def main(argv: Sequence[str]) -> int:
    """Check and print; the exit status, as the command's help says."""
    arguments = parser().parse_args(argv)
    # Imported only here, so that --help and wrong options are answered at once.
    from cli.doctor.run import run

    return run(arguments)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(
        "lode doctor",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[cluster_options("cluster: ")],
    )
    made.add_argument("what", nargs="?", choices=("cluster", "node"), default="cluster", help="default: cluster")
    made.add_argument("--settings", default="", metavar="FILE", help="the settings; default: the defaults")
    made.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    made.add_argument(
        "--upgrade",
        choices=VERSIONS,
        default="",
        metavar="VERSION",
        help="find what this version of Kubernetes (1.38) refuses, changes or does not get over, in an older one",
    )
    of_cluster = made.add_argument_group("cluster")
    of_cluster.add_argument(
        "-n", "--namespace", default=CONTROLLER_NAMESPACE, help="of the controller (default: %(default)s)"
    )
    of_cluster.add_argument(
        "--plugin-namespace", default=PLUGIN_NAMESPACE, metavar="NAMESPACE", help="default: %(default)s"
    )
    of_node = made.add_argument_group("node")
    of_node.add_argument(
        "--root", default="/", metavar="FOLDER", help="where the node's file system is mounted (kubectl debug: /host)"
    )
    of_node.add_argument(
        "--driver-root",
        default="",
        metavar="FOLDER",
        help="where the vendor's driver is installed on the node; default: / and nvidia.driverRoot of the settings",
    )
    return made
