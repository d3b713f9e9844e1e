"""The command line of the test clusters; see `python -m testclusters --help`."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence

from testclusters import cache, images, kind, lifecycle, programs
from testclusters.commands import CommandFailed

_PROGRAMS = ("kubernetes", "containers", "kind", "example-driver")

_EXPECTED = (
    CommandFailed,
    kind.NoCluster,
    kind.NotReady,
    lifecycle.KeptCluster,
    programs.ProgramMissing,
    subprocess.TimeoutExpired,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one verb and return the exit status.

    Results go to standard output, what is being done to standard error.
    """
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        status: int = arguments.carry_out(arguments)
    except _EXPECTED as error:
        cache.say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        cache.say("interrupted")
        return 130
    return status


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m testclusters", description=sys.modules["testclusters"].__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    version = argparse.ArgumentParser(add_help=False)
    version.add_argument(
        "--kubernetes", choices=programs.KUBERNETES, default=programs.chosen_kubernetes(), help="(%(default)s)"
    )
    name = argparse.ArgumentParser(add_help=False)
    name.add_argument(
        "--name", default=os.environ.get("LODE_CLUSTER", kind.NAME), help="the cluster's name (%(default)s)"
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    build = verbs.add_parser("build", parents=[version], help="build programs into the cache; prints where they are")
    build.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(_PROGRAMS)}; default: all")
    build.set_defaults(carry_out=_build)

    plane = verbs.add_parser(
        "control-plane", parents=[version], help="provide what a control plane needs; prints where"
    )
    plane.set_defaults(carry_out=_control_plane)

    image = verbs.add_parser("image", help="assemble images into the cache; prints where they are")
    image.add_argument("images", nargs="+", choices=list(images.NAMES), help="which")
    image.set_defaults(carry_out=_image)

    clusters = verbs.add_parser("kind", help="a cluster with nodes").add_subparsers(required=True, metavar="VERB")
    up = clusters.add_parser("up", parents=[version, name], help="create it unless it runs")
    up.add_argument("--keep", action="store_true", help="keep it when tests that use it end")
    up.set_defaults(carry_out=_up)
    down = clusters.add_parser("down", parents=[name], help="remove it, and the Docker daemon that was started for it")
    down.set_defaults(carry_out=_down)
    load = clusters.add_parser("load", parents=[name], help="put images on its nodes")
    load.add_argument(
        "images", nargs="+", metavar="IMAGE", help=f"{', '.join(images.NAMES)}, or a name that Docker knows"
    )
    load.set_defaults(carry_out=_load)
    environment = clusters.add_parser("env", parents=[name], help='print what to export: eval "$(... kind env)"')
    environment.set_defaults(carry_out=_env)
    execute = clusters.add_parser("exec", parents=[name], help="run a command on this machine in the cluster's network")
    execute.add_argument("command", nargs="+", metavar="COMMAND", help="after --; kubectl and docker are bound to it")
    execute.set_defaults(carry_out=_exec)
    run = clusters.add_parser(
        "run", parents=[version, name], help="run a command with the cluster up; ends it unless kept"
    )
    run.add_argument("--load", nargs="*", default=[], metavar="IMAGE", help="put images on its nodes first")
    run.add_argument("command", nargs="+", metavar="COMMAND", help="after --")
    run.set_defaults(carry_out=_run)
    return parser


def _build(arguments: argparse.Namespace) -> int:
    every = dict(
        zip(
            _PROGRAMS,
            (programs.kubernetes(arguments.kubernetes), programs.CONTAINERS, programs.KIND, programs.EXAMPLE_DRIVER),
            strict=True,
        )
    )
    if unknown := set(arguments.programs) - set(every):
        raise programs.ProgramMissing(f"no such program: {', '.join(unknown)}")
    for name in arguments.programs or every:
        print(every[name].build())
    return 0


def _control_plane(arguments: argparse.Namespace) -> int:
    for name, path in programs.control_plane(arguments.kubernetes).items():
        print(name, path)
    return 0


def _image(arguments: argparse.Namespace) -> int:
    for name in arguments.images:
        print(images.archive(images.NAMES[name]))
    return 0


def _up(arguments: argparse.Namespace) -> int:
    cluster = lifecycle.up(arguments.name, arguments.kubernetes, keep=arguments.keep)
    cache.say(f"the kind cluster {cluster.name} is up; kubectl: {cluster.folder}/bin/kubectl")
    return 0


def _down(arguments: argparse.Namespace) -> int:
    lifecycle.down(arguments.name)
    return 0


def _load(arguments: argparse.Namespace) -> int:
    cluster = kind.KindCluster.attach(arguments.name)
    for name in arguments.images:
        cluster.load_image(images.NAMES.get(name, name))
    return 0


def _env(arguments: argparse.Namespace) -> int:
    for name, value in kind.KindCluster.attach(arguments.name).environment().items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def _exec(arguments: argparse.Namespace) -> int:
    cluster = kind.KindCluster.attach(arguments.name)
    environment = {**os.environ, **cluster.environment()}
    return subprocess.run(cluster.network_command(*arguments.command), env=environment, check=False).returncode


def _run(arguments: argparse.Namespace) -> int:
    with cache.locked(f"run-{arguments.name}"):  # or the first of two runs would take the cluster from the second
        try:
            cluster = lifecycle.up(arguments.name, arguments.kubernetes)
            for name in arguments.load:
                cluster.load_image(images.NAMES.get(name, name))
            return subprocess.run(
                arguments.command, env={**os.environ, **cluster.environment()}, check=False
            ).returncode
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # once more would leave things behind
                signal.signal(number, signal.SIG_IGN)
            lifecycle.down(arguments.name, unless_kept=True)


if __name__ == "__main__":
    sys.exit(main())
