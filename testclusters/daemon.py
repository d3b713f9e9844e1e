"""A Docker daemon for kind: the machine's own where one answers, else a private one.

The private daemon is unpacked from Debian packages. Its bridges, firewall rules and published ports live in a network
namespace of their own, so that nothing of the machine's network changes; what reaches into its containers' network has
to run in there (`Docker.command`). It survives the process that started it, until `stop`; a daemon that was killed is
cleared away by the next `provide` or by `stop`. What stays is its images, in the cache, and what Docker makes at places
of its own choice: the file /etc/docker/key.json, and empty folders in /run and /opt.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testclusters import cache, debian
from testclusters.commands import run
from testclusters.programs import ProgramMissing

_GROUPS = Path("/sys/fs/cgroup")
_START = 60.0
_STOP = 20.0


@dataclass(frozen=True)
class Docker:
    """A daemon that answers, and how to reach it."""

    environment: Mapping[str, str]
    """What programs that talk to the daemon need in their environment."""
    namespace: Path | None = None
    """The network namespace of its containers' host; none: the machine's."""

    @property
    def private(self) -> bool:
        """Whether the daemon is ours."""
        return self.namespace is not None

    def command(self, *argv: str | Path) -> list[str]:
        """The command line that runs `argv` where the containers' published ports are reached."""
        inside = [] if self.namespace is None else ["nsenter", f"--net={self.namespace}", "--"]
        return [*inside, *map(str, argv)]

    def run(
        self, *argv: str | Path, input: str | None = None, check: bool = True, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a program such as docker or kind against the daemon; raises as `commands.run` does."""
        return run(self.command(*argv), input=input, check=check, timeout=timeout, environment=self.environment)


@dataclass(frozen=True)
class _Private:
    """Where the private daemon of this cache lives.

    Its paths in /run are short: a socket's path may have 107 characters.
    """

    name: str

    @property
    def state(self) -> Path:
        return cache.root() / "docker"

    @property
    def run(self) -> Path:
        return Path("/run") / self.name

    @property
    def namespace(self) -> Path:
        return Path("/run/netns") / self.name

    def docker(self) -> Docker:
        return Docker({**debian.environment(), "DOCKER_HOST": f"unix://{self.run}/docker.sock"}, self.namespace)


def _private() -> _Private:
    return _Private(f"lode-{cache.key(str(cache.root()))[:8]}")


def find() -> Docker | None:
    """The daemon in use: the private one if it runs, else the machine's if it answers, else none."""
    private = _private()
    if private.namespace.exists() and _answers(private.docker()):
        return private.docker()
    own = Docker(dict(os.environ))
    return own if _answers(own) else None


def revive() -> Docker | None:
    """The daemon in use; a private one that was killed is started again, for what it holds to be removed; else none."""
    private = _private()
    return provide() if private.run.exists() or private.namespace.exists() else find()


def provide() -> Docker:
    """The daemon in use, or a private one started now.

    Raises `ProgramMissing` where the machine offers neither a daemon nor the means to start one, and `RuntimeError` if
    it does not start.
    """
    docker = find()
    if docker:
        return docker
    if os.geteuid() != 0:
        raise ProgramMissing("no Docker daemon answers, and only root can start one")
    private = _private()
    with cache.step("starting a private Docker daemon"):
        _clear(private)
        try:
            _start(private)
        except BaseException:
            _clear(private)
            raise
    return private.docker()


def stop() -> None:
    """End the private daemon and remove all it left but its images; does nothing where there is none."""
    private = _private()
    if not private.namespace.exists() and not private.run.exists():
        return
    with cache.step("stopping the private Docker daemon"):
        pid = _pid(private)
        if pid:
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + _STOP
            while _pid(private) and time.monotonic() < deadline:
                time.sleep(0.1)
        _clear(private)


def _answers(docker: Docker) -> bool:
    if not shutil.which("docker", path=docker.environment.get("PATH")):
        return False
    try:
        return run(["docker", "info"], check=False, timeout=15, environment=docker.environment).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _start(private: _Private) -> None:
    docker = private.docker()
    private.run.mkdir()
    private.state.mkdir(exist_ok=True)
    run(["ip", "netns", "add", private.name], environment=docker.environment)
    docker.run("ip", "link", "set", "lo", "up")
    command = docker.command(
        "dockerd",
        f"--host={docker.environment['DOCKER_HOST']}",
        f"--data-root={private.state}",
        f"--exec-root={private.run}/exec",
        f"--pidfile={private.run}/docker.pid",
        f"--cgroup-parent=/{private.name}",
        *_bounded_runtime(private),
    )
    log = cache.root() / "dockerd.log"
    with log.open("wb") as file:
        daemon = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, env=docker.environment
        )
    deadline = time.monotonic() + _START
    while not _answers(docker):
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the Docker daemon did not start:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.2)


def _bounded_runtime(private: _Private) -> list[str]:
    """Flags for a runtime that asks for no capability which this machine withholds.

    A privileged container is given every capability that Docker knows, and runc fails on one that is not in the
    bounding set. So runc is wrapped: the missing ones are cut out of the container's (`--bundle`) or the process's
    (`--process`) description.
    """
    missing = _missing_capabilities()
    if not missing:
        return []
    cuts = "".join(f" -e 's/\"{name}\",//g' -e 's/,\"{name}\"//g'" for name in missing)
    wrapper = private.run / "runc"
    wrapper.write_text(
        "#!/bin/sh\n"
        "before=\n"
        'for word in "$@"; do\n'
        '    case "$before" in\n'
        f'    --bundle | -b) sed -i{cuts} "$word/config.json" ;;\n'
        f'    --process | -p) sed -i{cuts} "$word" ;;\n'
        "    esac\n"
        "    before=$word\n"
        "done\n"
        'exec runc "$@"\n'
    )
    wrapper.chmod(0o755)
    return [f"--add-runtime=bounded={wrapper}", "--default-runtime=bounded"]


def _missing_capabilities() -> list[str]:
    status = Path("/proc/self/status").read_text()
    bounding = int(status.split("CapBnd:")[1].split()[0], 16)
    known = int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1
    numbers = [number for number in range(known) if not bounding >> number & 1]
    return [_CAPABILITIES[number] for number in numbers if number < len(_CAPABILITIES)]


_CAPABILITIES = [
    f"CAP_{name}"
    for name in [
        "CHOWN",
        "DAC_OVERRIDE",
        "DAC_READ_SEARCH",
        "FOWNER",
        "FSETID",
        "KILL",
        "SETGID",
        "SETUID",
        "SETPCAP",
        "LINUX_IMMUTABLE",
        "NET_BIND_SERVICE",
        "NET_BROADCAST",
        "NET_ADMIN",
        "NET_RAW",
        "IPC_LOCK",
        "IPC_OWNER",
        "SYS_MODULE",
        "SYS_RAWIO",
        "SYS_CHROOT",
        "SYS_PTRACE",
        "SYS_PACCT",
        "SYS_ADMIN",
        "SYS_BOOT",
        "SYS_NICE",
        "SYS_RESOURCE",
        "SYS_TIME",
        "SYS_TTY_CONFIG",
        "MKNOD",
        "LEASE",
        "AUDIT_WRITE",
        "AUDIT_CONTROL",
        "SETFCAP",
        "MAC_OVERRIDE",
        "MAC_ADMIN",
        "SYSLOG",
        "WAKE_ALARM",
        "BLOCK_SUSPEND",
        "AUDIT_READ",
        "PERFMON",
        "BPF",
        "CHECKPOINT_RESTORE",
    ]
]
"""The kernel's numbering of capabilities."""


def _pid(private: _Private) -> int | None:
    """The daemon's process, if it lives."""
    try:
        pid = int((private.run / "docker.pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except (OSError, ValueError):
        return None
    return pid if f"--data-root={private.state}" in command else None


def _clear(private: _Private) -> None:
    """Remove what a daemon that is gone or hangs left behind: processes, mounts, cgroups, network namespace, files."""
    deadline = time.monotonic() + _STOP
    while (processes := _processes(private)) and time.monotonic() < deadline:
        for pid in processes:  # again and again: a container's init may start others while it is being killed
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed(mounts):
        if f"{mount}/".startswith((f"{private.state}/", f"{private.run}/")):
            run(["umount", "--lazy", mount], check=False)
    for group in _groups(private):
        try:
            group.rmdir()
        except OSError as error:
            cache.say(f"    {group} stays: {error}")
    if private.namespace.exists():
        run(["ip", "netns", "delete", private.name], environment=debian.environment())
    shutil.rmtree(private.run, ignore_errors=True)


def _processes(private: _Private) -> set[int]:
    """The private daemon, what it started to serve it, and all that runs in its containers."""
    found = set()
    for group in _groups(private):
        with contextlib.suppress(OSError):  # it has just been removed
            found |= {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            program = (process / "exe").readlink().name
        except OSError:
            continue
        if program in _SERVANTS and f"{private.run}/".encode() in command:
            found.add(int(process.name))
    return found


_SERVANTS = ("containerd", "containerd-shim-runc-v2", "dockerd")
"""The programs that Docker runs outside its containers."""


def _groups(private: _Private) -> list[Path]:
    """The cgroups of the private daemon's containers in every hierarchy, children before parents."""
    tops = [_GROUPS / private.name, *_GROUPS.glob(f"*/{private.name}")]
    return [Path(folder) for top in tops for folder, _, _ in os.walk(top, topdown=False)]
