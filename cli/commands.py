"""Every subcommand: its help, its options, and the module that does its work. Only this is loaded for ``--help``.

Options that several commands have are written once, and are those of kubectl where it has them. Completion reads the
same parsers.
"""

import argparse
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from driver.names import CONTROLLER_NAMESPACE, DEFAULT_DRIVER, PLUGIN_NAMESPACE

SHELLS: Final = ("bash", "zsh", "fish")
"""For which a script can be printed that completes the command."""
UPGRADES: Final = ("1.38",)
"""The versions of Kubernetes whose rules are known to ``lode doctor --upgrade``."""
_DRAIN_SECONDS: Final = 3600.0
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_HOW_TO_NAME: Final = """\
CARD is the name of one of its devices (gpu-3), its index (3), or its uuid or the beginning of that."""
_HOW_TO_NAME_ALL: Final = """\
CARD is the name of one of its devices (gpu-3), its index (3), or its uuid or the beginning of that. NODE alone stands
for all cards of the node."""


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand of ``lode``.

    Attributes:
        does: one line for the list of commands.
        work: the module whose ``run(arguments)`` does the work and returns the exit status, or ``module:function``.
        parser: makes the parser of its options; None for a program of its own, whose module has ``main(argv)``.
    """

    does: str
    work: str
    parser: Callable[[], argparse.ArgumentParser] | None = None


def _parser(command: str, description: str, epilog: str, cluster: str | None = "") -> argparse.ArgumentParser:
    """The parser of a command, with the options by which it names a cluster.

    Args:
        cluster: begins the help of these options; "" if the command always uses a cluster, None if it never does.
    """
    made = argparse.ArgumentParser(
        f"lode {command}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if cluster is not None:
        _add_cluster(made, cluster)
    return made


def _add_cluster(parser: argparse.ArgumentParser, purpose: str = "") -> None:
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help=f"{purpose}default: as for kubectl")
    of_context = f"{purpose}of the kubeconfig; default: the current one"
    parser.add_argument("--context", default="", metavar="NAME", help=of_context)


def _add_driver(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--driver", default=DEFAULT_DRIVER, metavar="NAME", help=f"default: {DEFAULT_DRIVER}")


def _add_decision_settings(parser: argparse.ArgumentParser) -> None:
    """The options of a command that decides as the controller would."""
    _add_driver(parser)
    parser.add_argument("--settings", default="", metavar="FILE", help="the controller's")


def _add_output(parser: argparse.ArgumentParser, *formats: str) -> None:
    parser.add_argument("-o", "--output", choices=("table", *formats), default="table", help="default: table")


def _add_files(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("-f", "--file", action="append", default=[], metavar="FILE|FOLDER|-", help=text)


# Commands that decide.


def _simulate() -> argparse.ArgumentParser:
    description = """\
Decide as the controller would, on objects from files or a cluster, and print what every pending pod and every unused
claim would get, in order, or why it has to wait. Nothing is written to any cluster."""
    epilog = """\
exit status: 0 everything is placed, 1 something has to wait, 2 the input cannot be used
example: kubectl get resourceslices,deviceclasses,nodes -o yaml | lode simulate -f - -f pod.yaml"""
    made = _parser("simulate", description, epilog, "for --live; ")
    _add_files(made, "objects in YAML or JSON, as kubectl get -o yaml prints them; may be given several times")
    made.add_argument("--live", action="store_true", help="start from what is in the cluster; -f comes on top")
    made.add_argument("-n", "--namespace", default="", help="of objects that name none; show only what is in it")
    _add_output(made, "json")
    _add_decision_settings(made)
    return made


def _explain() -> argparse.ArgumentParser:
    description = """\
Say what a pod, claim or gang in the cluster holds, where, and who uses it; or, while it waits, what would be decided
about it now and every reason against it, node by node. Of a card, say who holds what of it and what closes it; of a
namespace, what it holds and who waits in it. Nothing is written."""
    epilog = """\
exit status: 0 it has its devices or could have them now, 1 it waits (a pod of the namespace waits, the card is closed),
  2 it cannot be explained
example: kubectl lode explain pod/train -n team-a"""
    made = _parser("explain", description, epilog)
    forms = "pod/NAME|claim/NAME|gang/NAME|card/NODE/CARD|namespace/NAME|NAME"
    made.add_argument("what", metavar=forms, help="NAME alone is a pod or a claim")
    made.add_argument("-n", "--namespace", default="", help="default: that of the kubeconfig's context")
    _add_output(made, "json")
    _add_decision_settings(made)
    return made


def _advise() -> argparse.ArgumentParser:
    description = """\
Say for pods and gangs that wait for devices which running pods would have to move, to which node, or would have to end,
so that they can run; and which cards are idle. Each answer is checked as the controller decides. Nothing is moved.
By default the cluster is read; with -f, files as for `lode simulate`."""
    epilog = """\
exit status: 0 nothing waits, or there is an answer for all that was asked, 1 there is none for something, 2 it failed
example: kubectl lode advise gang/train -n team-a"""
    made = _parser("advise", description, epilog)
    in_turn = "default: those that wait, the first in turn first"
    made.add_argument("what", nargs="?", default="", metavar="pod/NAME|gang/NAME", help=in_turn)
    _add_files(made, "objects in YAML or JSON instead of the cluster; may be given several times")
    made.add_argument("--live", action="store_true", help="with -f: the cluster, and the files on top")
    made.add_argument("--most", type=int, default=5, metavar="N", help="pods and gangs that are looked at; default: 5")
    made.add_argument("-n", "--namespace", default="", help="only what waits in it; default with NAME: as for kubectl")
    _add_output(made, "json", "yaml")
    _add_decision_settings(made)
    return made


# Commands that look.


@dataclass(frozen=True, slots=True)
class Subject:
    """What ``lode top`` can be asked for. The module of the same name in ``cli.top`` reports on it.

    Attributes:
        names: what the names on the command line are.
        labels: whose labels ``-l`` selects by; "" without ``-l``.
    """

    text: str
    names: str
    labels: str
    namespaced: bool = True
    measured: str = ""
    """What Prometheus knows about it; "" if it is not asked."""


SUBJECTS: Final = {
    "nodes": Subject("the cards of each node, by what they are in", "NODE", "nodes", namespaced=False, measured="UTIL"),
    "cards": Subject(
        "what each card is in, and who holds it",
        "NODE[/CARD]|UUID",
        "nodes",
        namespaced=False,
        measured="UTIL and IDLE",
    ),
    "claims": Subject("which card each claim has, and how much of it", "CLAIM", "claims"),
    "namespaces": Subject(
        "what the claims of each namespace hold, what its quotas allow, and how many pods wait",
        "NAMESPACE",
        "namespaces",
        measured="CARD-HOURS",
    ),
    "gangs": Subject("how many members each gang has and needs, where they are, and why it waits", "GANG", "pods"),
    "costs": Subject(
        "what the cards cost that each namespace or workload holds, and those that nobody holds",
        "NAMESPACE",
        "",
        measured="CARD-HOURS and COST",
    ),
}
"""What ``lode top`` can be asked for."""
_WORDS: Final = {word: name for name in SUBJECTS for word in (name, name[:-1])} | {"no": "nodes", "ns": "namespaces"}
"""What may be written for a subject, as for kubectl."""


class _SubjectAnywhere(argparse.ArgumentParser):
    """Users of kubectl write some options before the subject, and the subject in the singular, too."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        words = [*(args or ())]
        at = next((index for index, word in enumerate(words) if word in _WORDS), None)
        moved = words if at is None else [_WORDS[words[at]], *words[:at], *words[at + 1 :]]
        return super().parse_known_args(moved, namespace)


def _top() -> argparse.ArgumentParser:
    epilog = """\
exit status: 0 it is shown, 2 it cannot be read
example: kubectl lode top cards -l pool=training --sort-by memoryHeld"""
    made = _SubjectAnywhere(
        "lode top",
        description="Show what is used of the cards in the cluster. Nothing is written.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subjects = made.add_subparsers(
        dest="subject", required=True, metavar="SUBJECT", parser_class=argparse.ArgumentParser
    )
    for name, subject in SUBJECTS.items():
        _add_options_of_subject(subjects.add_parser(name, help=subject.text, description=subject.text), subject)
    return made


def _add_options_of_subject(parser: argparse.ArgumentParser, subject: Subject) -> None:
    _add_cluster(parser)
    parser.add_argument("only", nargs="*", metavar=subject.names, help="default: all")
    if subject.namespaced:
        parser.add_argument("-n", "--namespace", default="", help="default: that of the kubeconfig's context")
        parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    if subject.labels:
        selected = f"labels of {subject.labels}, as for kubectl"
        parser.add_argument("-l", "--selector", default="", metavar="LABELS", help=selected)
    else:
        parser.add_argument("--prices", required=True, metavar="FILE", help="what a card costs for an hour, by type")
        parser.add_argument("--by", choices=("namespace", "workload"), default="namespace", help="default: namespace")
    _add_output(parser, "wide", "json", "yaml")
    parser.add_argument("--no-headers", action="store_true", help="without the line of headers")
    parser.add_argument(
        "--sort-by", default="", metavar="COLUMN", help="a header, or a key of the JSON; numbers largest first"
    )
    parser.add_argument("-w", "--watch", action="store_true", help="print again and again, until interrupted")
    if subject.measured:
        of_prometheus = f"for {subject.measured}, which nobody else knows"
        parser.add_argument("--prometheus", default="", metavar="URL", help=of_prometheus)
        parser.add_argument("--prometheus-token-file", default="", metavar="FILE", help="with a token to send to it")
        window = "the window, such as 2h or 7d; default: 1h; needs --prometheus"
        parser.add_argument("--since", default="", metavar="DURATION", help=window)
    if subject.names.startswith("NODE["):
        idle = "only cards that claims hold and that did nothing for so long, such as 2h; needs --prometheus"
        parser.add_argument("--idle", default="", metavar="DURATION", help=idle)
    _add_driver(parser)


def _ui() -> argparse.ArgumentParser:
    description = """\
Serve a page of the fleet on this machine: cards and who holds what of them, pods that wait and why, gangs, and what
would become of a manifest. It reads with your rights, follows changes, and writes nothing to the cluster. Only who has
the address that is printed, with its token, gets an answer."""
    epilog = """\
exit status: 0 it was interrupted, 2 it cannot be served
example: kubectl lode ui --port 8800"""
    made = _parser("ui", description, epilog)
    made.add_argument("--port", type=int, default=0, metavar="NUMBER", help="on 127.0.0.1; default: one that is free")
    spaced = "of a manifest that names none, and of what you may not list in all namespaces"
    made.add_argument("-n", "--namespace", default="", help=f"{spaced}; default: that of the kubeconfig's context")
    everybody = "serve everybody who can connect, each with the rights of the token that they send: for a pod"
    made.add_argument("--listen", default="", metavar="HOST:PORT", help=everybody)
    _add_driver(made)
    return made


def _doctor() -> argparse.ArgumentParser:
    description = """\
Check the cluster, or with "node" the machine that this runs on, for what Lode needs. Each failure has its remedy.
Nothing is changed."""
    epilog = """\
exit status: 0 no check failed, 1 one failed or could not be made, 2 nothing could be checked
examples:
  kubectl lode doctor
  kubectl lode doctor --upgrade 1.38
  kubectl debug node/NODE -it --profile=sysadmin --image=IMAGE -- lode doctor node --root /host"""
    made = _parser("doctor", description, epilog, "cluster: ")
    made.add_argument("what", nargs="?", choices=("cluster", "node"), default="cluster", help="default: cluster")
    made.add_argument("--settings", default="", metavar="FILE", help="the settings; default: the defaults")
    _add_output(made, "json")
    upgrade = "find what this version of Kubernetes (1.38) refuses, changes or does not get over, in an older one"
    made.add_argument("--upgrade", choices=UPGRADES, default="", metavar="VERSION", help=upgrade)
    of_cluster = made.add_argument_group("cluster")
    of_controller = "of the controller (default: %(default)s)"
    of_cluster.add_argument("-n", "--namespace", default=CONTROLLER_NAMESPACE, help=of_controller)
    of_cluster.add_argument(
        "--plugin-namespace", default=PLUGIN_NAMESPACE, metavar="NAMESPACE", help="default: %(default)s"
    )
    of_node = made.add_argument_group("node")
    mounted = "where the node's file system is mounted (kubectl debug: /host)"
    of_node.add_argument("--root", default="/", metavar="FOLDER", help=mounted)
    installed = "where the vendor's driver is installed on the node; default: / and nvidia.driverRoot of the settings"
    of_node.add_argument("--driver-root", default="", metavar="FOLDER", help=installed)
    return made


def _inventory() -> argparse.ArgumentParser:
    description = """\
Print the cards that this node has, what each is offered as, and why it is not offered as something else. Nothing is
changed on the node. With --record, write a profile that simulated hardware can play elsewhere."""
    epilog = """\
exit status: 0 the hardware was read, 2 it could not be read
example, in the plugin's pod on the node (docs/nodes.md says how to find it):
  kubectl -n lode-plugin exec lode-kubeletplugin-xxxxx -- lode inventory --settings /etc/lode/settings.yaml"""
    made = _parser("inventory", description, epilog, None)
    made.add_argument("--settings", default="", metavar="FILE", help="the plugin's settings; default: the defaults")
    of_profile = "the simulated cards of a profile, instead of this node's"
    made.add_argument("--profile", default="", metavar="NAME|FILE", help=of_profile)
    made.add_argument("--node-name", default=os.environ.get("NODE_NAME", ""), help="default: $NODE_NAME")
    made.add_argument("--kubeconfig", default="", metavar="FILE", help="to read the Node's labels; default: as kubectl")
    made.add_argument("--record", default="", metavar="FILE", help="write a profile of the cards there; -: print it")
    _add_output(made, "json")
    return made


# Commands that print something to apply.


def _convert() -> argparse.ArgumentParser:
    description = """\
Write claims in place of the resources and annotations of device plugins, HAMi and Volcano, in any object that has a
pod template. It is the mapping by which the admission policies adopt pods. Everything else in the files stays as it
is, with its comments. No cluster is asked."""
    epilog = """\
exit status: 0 done, or nothing to do; 1 with --check: a file would change; 2 something cannot be converted, which is
said with file, line and field; nothing is printed or written then
examples:
  kustomize build . | kubectl lode convert -f - | kubectl apply -f -
  kubectl lode convert -R -f deploy --write
  kubectl lode convert -R -f deploy --check"""
    made = _parser("convert", description, epilog, None)
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
    plain = "a resource of any other device plugin, and the device class of which a claim asks for as many"
    made.add_argument("--plain", action="append", default=[], metavar="RESOURCE=CLASS", help=plain)
    on_demand = "name templates that the controller makes, as admission does, and write none"
    made.add_argument("--on-demand", action="store_true", help=on_demand)
    _add_driver(made)
    return made


def _classes() -> argparse.ArgumentParser:
    description = """\
Print a DeviceClass for each resource of the device plugins that Lode hosts, so that pods that ask for the resource run
unchanged. Without RESOURCE, the resources are those that the nodes of the cluster publish."""
    epilog = """\
exit status: 0 the classes were printed, 1 no node publishes a resource of a device plugin, 2 it failed
examples:
  kubectl lode classes | kubectl apply -f -
  kubectl lode classes --allocator kube-scheduler amd.com/gpu | kubectl apply -f -"""
    made = _parser("classes", description, epilog)
    such = "such as amd.com/gpu; default: those of the cluster"
    made.add_argument("resource", nargs="*", metavar="RESOURCE", help=such)
    made.add_argument(
        "--allocator",
        choices=("controller", "kube-scheduler"),
        default="controller",
        help="who allocates. With kube-scheduler the class has the name of the resource. With the controller pods are "
        "adopted, and a comment says what to set. Default: controller",
    )
    _add_driver(made)
    return made


def _completion() -> argparse.ArgumentParser:
    example = "example: lode completion bash > ~/.local/share/bash-completion/completions/lode"
    made = argparse.ArgumentParser(
        "lode completion", description="Print a script by which a shell completes lode.", epilog=example
    )
    made.add_argument("shell", choices=SHELLS, help="whose script is printed")
    return made


# Commands that change a cluster.


def _cordon() -> argparse.ArgumentParser:
    description = f"""\
Take a card, or all cards of a node, out of service: no claim gets it any more, neither whole nor a share or partition.
Claims that have it keep it. The command makes DeviceTaintRules with the effect NoSchedule; again, it changes nothing.
{_HOW_TO_NAME_ALL}"""
    epilog = "exit status: 0 cordoned, 2 it failed\nexample: kubectl lode cordon node-1/gpu-3"
    return _of_cards("cordon", description, epilog)


def _uncordon() -> argparse.ArgumentParser:
    description = f"""\
Undo `lode cordon` or `lode drain` of the same NODE[/CARD]. Only rules that these have made are removed; what else keeps
claims from the card, such as a rule of somebody else or its health, is printed and left alone.
{_HOW_TO_NAME_ALL}"""
    epilog = """\
exit status: 0 claims can get it again, 1 something else still keeps claims from it, 2 it failed
example: kubectl lode uncordon node-1/gpu-3"""
    return _of_cards("uncordon", description, epilog)


def _drain() -> argparse.ArgumentParser:
    description = f"""\
Cordon a card, or all cards of a node, and evict the pods whose claims hold it, and no other pods of the node. A
PodDisruptionBudget is respected: the eviction is tried again until it is allowed. It waits until no claim holds the
card, for at most an hour unless --timeout says otherwise, and says then what it waits for. Interrupted, call it again.
Claims with admin access, as monitoring has them, hold nothing, so their pods stay.
{_HOW_TO_NAME_ALL}"""
    epilog = """\
exit status: 0 no claim holds it, 1 pods may not be evicted or were not evicted in time, 2 it failed
example: kubectl lode drain node-1/gpu-3 --timeout 15m"""
    made = _of_cards("drain", description, epilog)
    without_controller = "also evict pods without a controller, which nobody makes again"
    made.add_argument("--force", action="store_true", help=without_controller)
    lost = "also evict pods with an emptyDir on disk, whose content is lost; one in memory never counts"
    made.add_argument("--delete-emptydir-data", action="store_true", help=lost)
    grace = "that pods get to end; default: what each says itself"
    made.add_argument("--grace-period", type=int, default=-1, metavar="SECONDS", help=grace)
    timeout = "when it gives up and says what it waits for, such as 90s or 15m; default: 1h; 0: never"
    made.add_argument("--timeout", type=seconds_of, default=_DRAIN_SECONDS, metavar="TIME", help=timeout)
    made.add_argument(
        "--wait",
        type=_flag,
        nargs="?",
        const=True,
        default=True,
        metavar="true|false",
        help="wait until no claim holds the card, not only until every eviction is accepted; default: true",
    )
    return made


def _reset() -> argparse.ArgumentParser:
    description = f"""\
Print what remains to be done by hand to reset a card. Nothing is changed. Refused while a claim holds the card, or
while a new claim could get it.
{_HOW_TO_NAME}"""
    epilog = """\
exit status: 0 it can be reset, 1 not now, 2 it failed
example: kubectl lode reset node-1/gpu-3"""
    return _of_cards("reset", description, epilog, what="NODE/CARD", dry_run=False)


def _handover() -> argparse.ArgumentParser:
    description = """\
Take a node from the device plugin that hands out its cards, while the pods that have cards run on. A label makes the
device plugin's DaemonSet leave the node; cards that none of its pods has are open to claims as soon as the kubelet has
forgotten the device plugin, the others when these pods end. With --back, the device plugin gets the node again, once no
claim holds a card. Interrupted, call it again."""
    epilog = """\
exit status: 0 done, 1 not in time, or claims hold cards, 2 it failed
example: kubectl lode handover node-1"""
    made = _of_cards("handover", description, epilog, what="NODE")
    made.add_argument("--back", action="store_true", help="give the node back to its device plugin")
    which = "the device plugin, if several DaemonSets register devices"
    made.add_argument("--daemonset", default="", metavar="NAMESPACE/NAME", help=which)
    timeout = "such as 90s or 15m; default: 0, without an end"
    made.add_argument("--timeout", type=seconds_of, default=0.0, metavar="TIME", help=timeout)
    return made


def _uninstall() -> argparse.ArgumentParser:
    description = """\
Stop Lode in a cluster and remove what it has written: the gates of waiting pods, its programs, its ResourceSlices, its
admission policies, and allocations that no pod uses. Device classes, roles and namespaces stay: remove them afterwards
with `helm uninstall` or `kubectl delete -k`. Nothing is changed while pods use devices, unless --force is given."""
    epilog = """\
exit status: 0 done, 1 pods use devices and nothing was changed, 2 it failed; call it again, it continues
example: lode uninstall && helm uninstall lode"""
    made = _parser("uninstall", description, epilog)
    made.add_argument("--force", action="store_true", help="go on although pods use devices; they keep running")
    _add_driver(made)
    return made


def _of_cards(
    command: str, description: str, epilog: str, *, what: str = "NODE[/CARD]", dry_run: bool = True
) -> argparse.ArgumentParser:
    made = _parser(command, description, epilog)
    made.add_argument("what", metavar=what)
    _add_driver(made)
    if dry_run:
        made.add_argument(
            "--dry-run",
            nargs="?",
            const="client",
            default="none",
            choices=("none", "client"),
            help="print what would be done, and do nothing",
        )
    return made


def seconds_of(text: str) -> float:
    """Return the seconds of a duration as kubectl takes it: ``1h30m``, ``90s``, or ``0``."""
    if text == "0":
        return 0.0
    parts = _DURATION.fullmatch(text)
    if not parts or not text:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write for example 90s, 15m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in parts.groups())
    return hours * 3600 + minutes * 60 + seconds


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text == "true"


COMMANDS: Final[Mapping[str, Command]] = {
    "controller": Command("decide which devices claims get (runs in the cluster)", "controller.__main__"),
    "kubeletplugin": Command(
        "publish and prepare the devices of one node (runs on every node)", "kubeletplugin.__main__"
    ),
    "doctor": Command(
        "check whether a cluster or a node has what Lode needs, with the remedy for each failure",
        "cli.doctor.run",
        _doctor,
    ),
    "inventory": Command(
        "print which cards this node has and what it offers of them, or record a profile", "cli.inventory", _inventory
    ),
    "release": Command("give up a claim on this node that the kubelet has forgotten", "kubeletplugin.release"),
    "simulate": Command(
        "print what would be allocated where, or why not, from files or a cluster", "cli.simulate", _simulate
    ),
    "explain": Command("say what a pod or claim in the cluster holds, or why it waits", "cli.explain.run", _explain),
    "convert": Command(
        "turn manifests for device plugins, HAMi or Volcano into manifests with claims", "cli.convert.run", _convert
    ),
    "classes": Command("print device classes for the resources of vendors' device plugins", "cli.classes", _classes),
    "top": Command(
        "show what is used of the cards: which card each claim has, and how much of it", "cli.top.run", _top
    ),
    "ui": Command("serve a page of the fleet on this machine, with your own rights", "cli.ui.run", _ui),
    "advise": Command(
        "say which pods would have to move so that others can run, and which cards are idle", "cli.advise.run", _advise
    ),
    "cordon": Command(
        "take a card, or all cards of a node, out of service for new claims", "cli.cards.work:cordon", _cordon
    ),
    "uncordon": Command("undo cordon or drain", "cli.cards.work:uncordon", _uncordon),
    "drain": Command("cordon a card and evict the pods whose claims hold it", "cli.cards.draining", _drain),
    "reset": Command("say how to reset a card by hand, unless somebody holds it", "cli.cards.work:reset", _reset),
    "handover": Command(
        "take a node from a device plugin while its pods run on, and back", "cli.cards.handover", _handover
    ),
    "uninstall": Command(
        "take Lode out of a cluster: gates, programs, slices and policies, in this order", "cli.uninstall", _uninstall
    ),
    "completion": Command(
        "print a script by which bash, zsh or fish completes this command", "cli.completion", _completion
    ),
    "demo": Command("run the whole system over an API in memory and show what happens", "cli.demo"),
}
"""Each subcommand by its name, in the order in which help lists them."""
