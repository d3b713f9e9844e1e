"""The command line of the test clusters; see `python -m tests.clusters --help`."""

import argparse
import sys

from tests.clusters import programs


def main() -> int:
    """Carry out one verb; the answer is the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.clusters", description="Real Kubernetes clusters for the tests."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    build = verbs.add_parser("build", help="build programs into the cache, and print where they are")
    build.add_argument(
        "programs", nargs="*", choices=[[], "kubernetes", "containers", "kind", "example-driver"], help="default: all"
    )
    build.add_argument("--kubernetes", choices=programs.KUBERNETES, default=programs.KUBERNETES[0])
    arguments = parser.parse_args()
    every = {
        "kubernetes": programs.kubernetes(arguments.kubernetes),
        "containers": programs.CONTAINERS,
        "kind": programs.KIND,
        "example-driver": programs.EXAMPLE_DRIVER,
    }
    for name in arguments.programs or every:
        print(every[name].build())
    return 0


if __name__ == "__main__":
    sys.exit(main())
