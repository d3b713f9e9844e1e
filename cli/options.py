"""The options by which commands name a cluster, its driver and the controller's settings, written once."""

import argparse

from driver.names import DEFAULT_DRIVER


def cluster_options(purpose: str = "") -> argparse.ArgumentParser:
    """``--kubeconfig`` and ``--context``, as a parent of a command's parser.

    Args:
        purpose: begins the help of both; "" if the command always uses a cluster.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help=f"{purpose}default: as for kubectl")
    parser.add_argument(
        "--context", default="", metavar="NAME", help=f"{purpose}of the kubeconfig; default: the current one"
    )
    return parser


def add_driver(parser: argparse.ArgumentParser) -> None:
    """Add ``--driver``."""
    parser.add_argument("--driver", default=DEFAULT_DRIVER, metavar="NAME", help=f"default: {DEFAULT_DRIVER}")


def add_decision_settings(parser: argparse.ArgumentParser) -> None:
    """Add ``--driver`` and ``--settings`` of a command that decides as the controller would."""
    add_driver(parser)
    parser.add_argument("--settings", default="", metavar="FILE", help="the controller's")
