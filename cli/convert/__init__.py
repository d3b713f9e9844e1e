"""``lode convert``: manifests for other systems as manifests with claims. No cluster is asked.

run          reads files, converts, prints or writes
converting   the text of a file with claims, or everything that keeps it from that
adopting     what becomes of one pod or pod template
| templates  claim templates beside the workload that uses them
| texts      the documents of a file as parts of its text
| places     where pods and pod templates are in an object of any kind
sources      which system a pod was written for
| labels     what a pod wants of its node by labels of NVIDIA's GPU feature discovery
| edits      the text of a document with another value
nodes        documents with the place of every value in the text
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from cli.exitcodes import FAILED
from cli.options import add_driver

_DESCRIPTION: Final = """\
Write claims in place of the resources and annotations of device plugins, HAMi and Volcano, in any object that has a
pod template. It is the mapping by which the admission policies adopt pods. Everything else in the files stays as it
is, with its comments. No cluster is asked."""
_EPILOG: Final = """\
exit status: 0 done, or nothing to do; 1 with --check: a file would change; 2 something cannot be converted, which is
said with file, line and field; nothing is printed or written then
examples:
  kustomize build . | kubectl lode convert -f - | kubectl apply -f -
  kubectl lode convert -R -f deploy --write
  kubectl lode convert -R -f deploy --check"""


def main(argv: Sequence[str]) -> int:
    """Convert; the exit status, as the command's help says."""
    arguments = parser().parse_args(argv)
    if arguments.write and "-" in arguments.file:
        sys.stderr.write("lode convert: --write needs files; leave it out to print what standard input becomes\n")
        return FAILED
    # Imported only here, so that --help and wrong options are answered at once.
    from cli.convert.run import run

    return run(arguments)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(
        "lode convert", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "-f",
        "--file",
        action="append",
        required=True,
        metavar="FILE|FOLDER|-",
        help="objects in YAML or JSON; may be given several times",
    )
    made.add_argument("-R", "--recursive", action="store_true", help="read the folders in folders, too")
    output = made.add_mutually_exclusive_group()
    output.add_argument("--write", action="store_true", help="change the files in their places, each at once")
    output.add_argument("--check", action="store_true", help="print which files would change, and nothing else")
    made.add_argument(
        "--source",
        action="append",
        default=[],
        choices=("nvidia", "hami", "volcano", "ascend"),
        help="convert pods of this system only; may be given several times. Default: of all, by what each pod asks "
        "for. With hami or nvidia, nvidia.com/gpu is read as this system reads it",
    )
    made.add_argument(
        "--plain",
        action="append",
        default=[],
        metavar="RESOURCE=CLASS",
        help="a resource of any other device plugin, and the device class of which a claim asks for as many",
    )
    made.add_argument(
        "--on-demand",
        action="store_true",
        help="name templates that the controller makes, as admission does, and write none",
    )
    add_driver(made)
    return made
