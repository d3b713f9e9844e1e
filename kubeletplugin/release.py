"""``lode release``: gives up a claim that is prepared on this node although the kubelet has forgotten it.

A kubelet that loses its state never unprepares the claims of pods that are gone, so their devices stay held until the
machine reboots. The command does what an unprepare does, unless a container may still use the claim. It finds such
containers by their mounts: a container with a device of a claim has a file of that claim mounted.
"""

import argparse
import errno
import posixpath
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from driver.errors import LodeError, OperatorFault
from driver.files import Files, SystemFiles
from driver.settings import Settings
from driver.settings_file import settings_in
from kubeletplugin.prepare.checkpoint import CorruptCheckpoint
from kubeletplugin.prepare.retiring import retire
from kubeletplugin.prepare.storage import ClaimStorage

KUBELET_STATE = "dra_manager_state"
"""The kubelet's record of the claims that it must unprepare, in its root folder. The kubelet writes it before a claim
is prepared and after it was unprepared."""
RUN_AS = "run it in the process namespace of the node, for example with `kubectl debug node/NODE --profile=sysadmin`"


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the node."""

    pid: int
    name: str
    """``/proc/<pid>/comm``"""
    mounts: str
    """``/proc/<pid>/mountinfo``"""

    def has_file_of(self, uid: str) -> bool:
        """Whether a file of the claim is mounted. The fourth field of a mount is the path of the mounted file
        (proc(5)).

        A file that was rewritten after the container was started can have the name of a temporary file:
        ``.<uid>_<request>.json.<number>.tmp//deleted``.
        """
        roots = (line.split()[3] for line in self.mounts.splitlines() if len(line.split()) > 3)
        names = (posixpath.basename(root.removesuffix("//deleted")) for root in roots)
        return any(name.removeprefix(".").startswith(f"{uid}_") for name in names)


def release(
    files: Files,
    settings: Settings,
    uid: str,
    processes: Iterable[Process],
    kubelet: str,
    *,
    card_is_gone: bool = False,
) -> str:
    """Give up a claim; returns its name.

    Args:
        card_is_gone: forget the remaining steps of a claim that was given up, because its card was removed for good.
        processes: all processes of the node, read while the lock is held.
        kubelet: name of the kubelet's process; it must be among them, as proof that the node's processes are visible.

    Raises:
        OperatorFault: the claim is not prepared here, a container may still use it, the kubelet still knows it, one of
            these cannot be checked, or the checkpoint is damaged.
    """
    storage = ClaimStorage(files, settings)
    with storage.lock():
        try:
            checkpoint = storage.load()
        except CorruptCheckpoint as error:
            raise OperatorFault(
                f"{error}; let the plugin run on this node, which rebuilds it, and call again"
            ) from error
        if uid not in checkpoint.claims:
            known = ", ".join(f"{u} ({c.plan.ref.namespace}/{c.plan.ref.name})" for u, c in checkpoint.claims.items())
            raise OperatorFault(f"claim {uid}: is not prepared on this node; prepared are: {known or 'none'}")
        ref = checkpoint.claims[uid].plan.ref
        state = posixpath.join(settings.kubeletplugin.kubelet_root, KUBELET_STATE)
        if uid.encode() in (files.read(state) or b""):
            raise OperatorFault(f"{ref}: the kubelet knows it ({state}) and unprepares it when its pods have ended")
        is_visible, users = False, []
        for process in processes:  # one at a time: the mounts of all can be a hundred megabytes
            is_visible = is_visible or process.name == kubelet
            if process.has_file_of(uid):
                users.append(str(process.pid))
        if not is_visible:
            raise OperatorFault(f"{ref}: no process {kubelet!r} is visible, so perhaps none of a container; {RUN_AS}")
        if users:
            raise OperatorFault(f"{ref}: containers still use it; stop the processes {', '.join(users)}")
        if checkpoint.claims[uid].state != "stopping":
            retire(storage, checkpoint, [uid])
        elif card_is_gone:
            storage.remove(uid)
            storage.save(checkpoint.without(uid))
        else:
            cards = sorted({step.action.card for step in checkpoint.claims[uid].steps})
            raise OperatorFault(
                f"{ref}: is given up already, and what it has on card {', '.join(cards)} is released when the card "
                "answers; if it was taken out for good, call again with --card-is-gone"
            )
    return str(ref)


def processes_of(proc: Path) -> Iterator[Process]:
    """The processes in ``proc``, without those that have ended.

    If the first thread of a process has ended, the mounts are those of another thread.

    Raises:
        OperatorFault: a process may not be inspected.
    """
    for folder in sorted(proc.glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            name, mounts = _read(folder / "comm").strip(), _mounts(folder)
        except OSError as error:
            raise OperatorFault(f"process {folder.name}: its mounts cannot be read: {error}; {RUN_AS}") from error
        if mounts:
            yield Process(int(folder.name), name, mounts)


def _mounts(process: Path) -> str:
    """The mounts of the first thread that has any: a thread that has ended, such as a zombie, has none."""
    threads = (thread / "mountinfo" for thread in sorted((process / "task").glob("[0-9]*")))
    return next((mounts for path in (process / "mountinfo", *threads) if (mounts := _read(path))), "")


def _read(path: Path) -> str:
    """The text of a file of a process; "" if the process has ended. For its mounts the kernel then returns EINVAL."""
    try:
        return path.read_text(errors="surrogateescape")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    except OSError as error:
        if error.errno == errno.EINVAL:
            return ""
        raise


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0 if the claim was given up, 1 if not, 2 if the settings are not valid."""
    parser = argparse.ArgumentParser("lode release", description="Give up a claim that the kubelet has forgotten.")
    parser.add_argument("uid", help="uid of the ResourceClaim, as in the plugin's messages")
    parser.add_argument("--settings", default="", help="the settings file of the plugin; without it, the defaults")
    parser.add_argument("--root", default="/", help="where the node's file system is mounted (kubectl debug: /host)")
    parser.add_argument("--kubelet", default="kubelet", help="name of the kubelet's process")
    gone = "forget what a claim that is given up has on a card that was taken out for good"
    parser.add_argument("--card-is-gone", action="store_true", help=gone)
    arguments = parser.parse_args(argv)
    try:
        settings = _below(arguments.root, settings_in(arguments.settings))
    except (LodeError, OSError) as error:
        sys.stderr.write(f"lode release: {error}\n")
        return 2
    try:
        processes, is_gone = processes_of(Path("/proc")), arguments.card_is_gone
        name = release(SystemFiles(), settings, arguments.uid, processes, arguments.kubelet, card_is_gone=is_gone)
    except (LodeError, OSError) as error:
        sys.stderr.write(f"lode release: {error}\n")
        return 1
    sys.stdout.write(f"{name}: given up\n")
    return 0


def _below(root: str, settings: Settings) -> Settings:
    """The settings with the node's folders at their paths here."""
    section = settings.kubeletplugin
    folders = {name: posixpath.join(root, getattr(section, name).lstrip("/")) for name in ("kubelet_root", "cdi_root")}
    return settings.model_copy(update={"kubeletplugin": section.model_copy(update=folders)})
