"""The options by which commands name a cluster, written once."""

import argparse


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
