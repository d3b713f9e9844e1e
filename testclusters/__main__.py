"""The command line of the test clusters; see `python -m testclusters --help` and README.md."""

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence

from testclusters import cache, images, kind, lifecycle, programs, progress
from testclusters.commands import CommandFailed
from testclusters.gomodules import ProgramMissing

_KUBERNETES = "kubernetes"
_PROGRAMS = {
    program.name: program
    for program in (
        programs.CONTAINERS,
        programs.KIND,
        programs.EXAMPLE_DRIVER,
        programs.HELM,
        programs.ETCDUTL,
        programs.KARPENTER,
        programs.KUEUE,
        programs.JOBSET,
        programs.CDI,
        programs.RDMA_DEVICE_PLUGIN,
        programs.KUBERNETES_SUITES,
    )
}
"""What `build` makes besides Kubernetes, of which there are several versions."""

_EXPECTED_ERRORS = (
    CommandFailed,
    kind.NoCluster,
    kind.NotReady,
    lifecycle.KeptCluster,
    lifecycle.NoRoom,
    ProgramMissing,
    subprocess.TimeoutExpired,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0, 1 after an error, 130 after an interrupt, or that of the command.

    Results go to standard output, progress to standard error.
    """
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        status: int = arguments.function(arguments)
    except _EXPECTED_ERRORS as error:
        progress.print_status(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        progress.print_status("interrupted")
        return 130
    return status


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m testclusters", description=sys.modules["testclusters"].__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    version = argparse.ArgumentParser(add_help=False)
    version.add_argument(
        "--kubernetes",
        choices=programs.KUBERNETES_VERSIONS,
        default=programs.default_kubernetes_version(),
        help="version of Kubernetes (%(default)s)",
    )
    name = argparse.ArgumentParser(add_help=False)
    name.add_argument(
        "--name", default=os.environ.get("LODE_CLUSTER", kind.DEFAULT_NAME), help="the cluster's name (%(default)s)"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    build = commands.add_parser("build", parents=[version], help="build programs into the cache; print their folders")
    build.add_argument(
        "programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join([_KUBERNETES, *_PROGRAMS])}; default: all"
    )
    build.set_defaults(function=_build)

    plane = commands.add_parser(
        "control-plane", parents=[version], help="provide the programs of a control plane; print their paths"
    )
    plane.add_argument("--helm", action="store_true", help="provide Helm, too")
    plane.set_defaults(function=_control_plane)

    image = commands.add_parser("image", help="assemble images into the cache; print their paths")
    image.add_argument("images", nargs="+", choices=list(images.REFERENCES), help="(%(choices)s)")
    image.set_defaults(function=_image)
    image.add_argument("--sizes", action="store_true", help="also print the size of each layer, uncompressed")

    groups = argparse.ArgumentParser(add_help=False)
    groups.add_argument(
        "--pod-groups", action="store_true", help="serve PodGroups of scheduling.k8s.io, which are off by default"
    )
    clusters = commands.add_parser("kind", help="a cluster with nodes").add_subparsers(required=True, metavar="COMMAND")
    up = clusters.add_parser("up", parents=[version, name, groups], help="create the cluster unless it runs")
    up.add_argument("--keep", action="store_true", help="keep the cluster when a `kind run` that uses it ends")
    up.set_defaults(function=_up)
    down = clusters.add_parser("down", parents=[name], help="remove the cluster, and the Docker daemon started for it")
    down.set_defaults(function=_down)
    load = clusters.add_parser("load", parents=[name], help="load images onto the cluster's nodes")
    load.add_argument(
        "images", nargs="+", metavar="IMAGE", help=f"{', '.join(images.REFERENCES)}, or an image that Docker has"
    )
    load.set_defaults(function=_load)
    environment = clusters.add_parser("env", parents=[name], help='print export commands: eval "$(... kind env)"')
    environment.set_defaults(function=_env)
    execute = clusters.add_parser("exec", parents=[name], help="run a command on this machine in the cluster's network")
    execute.add_argument("command", nargs="+", metavar="COMMAND", help="after --; kubectl and docker use the cluster")
    execute.set_defaults(function=_exec)
    run = clusters.add_parser(
        "run",
        parents=[version, name, groups],
        help="create the cluster, run a command, remove the cluster unless it is kept",
    )
    run.add_argument(
        "--clusters",
        type=int,
        default=1,
        metavar="N",
        help="create NAME, NAME-2 to NAME-N; the command uses the first and finds all names in $LODE_CLUSTERS",
    )
    run.add_argument("--load", nargs="*", default=[], metavar="IMAGE", help="load images onto the nodes first")
    run.add_argument("command", nargs="+", metavar="COMMAND", help="after --")
    run.set_defaults(function=_run)
    return parser


def _build(arguments: argparse.Namespace) -> int:
    names = [_KUBERNETES, *_PROGRAMS]
    if unknown := set(arguments.programs) - set(names):
        raise ProgramMissing(f"no such program: {', '.join(sorted(unknown))}")
    for name in arguments.programs or names:
        program = programs.kubernetes(arguments.kubernetes) if name == _KUBERNETES else _PROGRAMS[name]
        print(program.build())
    return 0


def _control_plane(arguments: argparse.Namespace) -> int:
    for name, path in programs.control_plane_programs(arguments.kubernetes).items():
        print(name, path)
    if arguments.helm:
        print("helm", programs.helm_program())
    return 0


def _image(arguments: argparse.Namespace) -> int:
    for name in arguments.images:
        print(images.archive(images.REFERENCES[name]))
        if arguments.sizes:
            sizes = images.layer_sizes(images.REFERENCES[name])
            for layer, size in {**sizes, "all layers": sum(sizes.values())}.items():
                print(f"{size / 2**20:8.1f} MiB  {layer}")
    return 0


def _up(arguments: argparse.Namespace) -> int:
    cluster = lifecycle.up(arguments.name, arguments.kubernetes, keep=arguments.keep, pod_groups=arguments.pod_groups)
    progress.print_status(f"the kind cluster {cluster.name} is ready; kubectl: {cluster.folder}/bin/kubectl")
    return 0


def _down(arguments: argparse.Namespace) -> int:
    lifecycle.down(arguments.name)
    return 0


def _load(arguments: argparse.Namespace) -> int:
    cluster = kind.KindCluster.attach(arguments.name)
    for name in arguments.images:
        cluster.load_image(images.REFERENCES.get(name, name))
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
    lifecycle.check_room(arguments.clusters)
    names = [arguments.name, *(f"{arguments.name}-{number}" for number in range(2, arguments.clusters + 1))]
    with contextlib.ExitStack() as locks:
        for name in names:  # otherwise the first of two runs would remove the second's cluster
            locks.enter_context(cache.locked(f"run-{name}"))
        try:
            clusters = [_loaded(name, arguments) for name in names]
            variables = {**os.environ, **clusters[0].environment(), "LODE_CLUSTERS": " ".join(names)}
            return subprocess.run(arguments.command, env=variables, check=False).returncode
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a second signal would stop the clean-up
                signal.signal(number, signal.SIG_IGN)
            for name in reversed(names):
                lifecycle.down(name, unless_kept=True)


def _loaded(name: str, arguments: argparse.Namespace) -> kind.KindCluster:
    cluster = lifecycle.up(name, arguments.kubernetes, pod_groups=arguments.pod_groups)
    for image in arguments.load:
        cluster.load_image(images.REFERENCES.get(image, image))
    return cluster


if __name__ == "__main__":
    sys.exit(main())
