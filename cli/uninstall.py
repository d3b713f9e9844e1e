"""``lode uninstall``: take the driver out of a cluster in an order that leaves no pod waiting for it."""

import argparse
from collections.abc import Sequence
from typing import Final

from cli.options import add_driver, cluster_options

_DESCRIPTION: Final = """\
Stop Lode in a cluster and remove what it has written: the gates of waiting pods, its programs, its ResourceSlices, its
admission policies, and allocations that no pod uses. Device classes, roles and namespaces stay: remove them afterwards
with `helm uninstall` or `kubectl delete -k`. Nothing is changed while pods use devices, unless --force is given."""
_EPILOG: Final = """\
exit status: 0 done, 1 pods use devices and nothing was changed, 2 it failed; call it again, it continues
example: lode uninstall && helm uninstall lode"""


def main(argv: Sequence[str]) -> int:
    """Uninstall; the exit status, as the command's help says."""
    arguments = parser().parse_args(argv)
    # Imported only here, so that --help and wrong options are answered at once.
    from cli.uninstall_run import run

    return run(arguments)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(
        "lode uninstall",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[cluster_options()],
    )
    made.add_argument("--force", action="store_true", help="go on although pods use devices; they keep running")
    add_driver(made)
    return made
