"""A Docker daemon for kind: the machine's daemon if one answers, else a private one.

The private daemon is unpacked from Debian packages. Its bridges, firewall rules and published ports live in a separate
network namespace, so that the machine's network does not change. A program that connects to its containers must run in
that namespace (`Docker.command`). The daemon outlives the process that started it, until `stop`. The next `provide` or
`stop` cleans up after a daemon that was killed. The files of clusters' nodes are kept in memory where there is enough;
images stay on the disk. What remains are its images, in the cache, and what Docker creates at
fixed places: the file /etc/docker/key.json, and empty folders in /run and /opt.
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

from testclusters import cache, debian, progress
from testclusters.commands import run
from testclusters.gomodules import ProgramMissing

_GROUPS = Path("/sys/fs/cgroup")
_START = 60.0
_STOP = 20.0
_MEMORY_FOR_VOLUMES = 16 * 1024**3
"""Memory that must be available for the nodes' files to be kept in half of it, in bytes."""


@dataclass(frozen=True)
class Docker:
    """A daemon that answers, and how to connect to it."""

    environment: Mapping[str, str]
    """The environment of programs that talk to the daemon."""
    namespace: Path | None = None
    """The network namespace in which the daemon publishes ports; `None`: the machine's."""

    @property
    def private(self) -> bool:
        """Whether this is the private daemon."""
        return self.namespace is not None

    def command(self, *argv: str | Path) -> list[str]:
        """The command line that runs `argv` in the network where the containers' published ports are."""
        enter = [] if self.namespace is None else ["nsenter", f"--net={self.namespace}", "--"]
        return [*enter, *map(str, argv)]

    def run(
        self, *argv: str | Path, input: str | None = None, check: bool = True, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a program such as docker or kind against the daemon; raises as `commands.run` does."""
        return run(self.command(*argv), input=input, check=check, timeout=timeout, environment=self.environment)


@dataclass(frozen=True)
class _PrivateDaemon:
    """The paths of the private daemon of this cache.

    Those in /run are short, because a socket's path has at most 107 characters.
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


def _private() -> _PrivateDaemon:
    return _PrivateDaemon(f"lode-{cache.content_key(str(cache.root()))[:8]}")


def find() -> Docker | None:
    """The daemon in use: the private one if it runs, else the machine's if it answers, else `None`."""
    private = _private()
    if private.namespace.exists() and _answers(private.docker()):
        return private.docker()
    machine = Docker(dict(os.environ))
    return machine if _answers(machine) else None


def find_or_restart() -> Docker | None:
    """The daemon in use, as `find` returns it.

    A private daemon that was killed is started again, so that its clusters can be removed.
    """
    private = _private()
    return provide() if private.run.exists() or private.namespace.exists() else find()


def provide() -> Docker:
    """The daemon in use; a private one is started if there is none.

    Raises `ProgramMissing` if no daemon answers and none can be started on this machine, and `RuntimeError` if the
    private daemon does not start.
    """
    docker = find()
    if docker:
        return docker
    if os.geteuid() != 0:
        raise ProgramMissing("no Docker daemon answers, and only root can start a private one; start a Docker daemon")
    private = _private()
    with progress.progress_step("starting a private Docker daemon"):
        _clear(private)
        try:
            _start(private)
        except BaseException:
            _clear(private)
            raise
    return private.docker()


def stop() -> None:
    """End the private daemon and remove everything it left except its images. Without one, do nothing."""
    private = _private()
    if not private.namespace.exists() and not private.run.exists():
        return
    with progress.progress_step("stopping the private Docker daemon"):
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


def _start(private: _PrivateDaemon) -> None:
    docker = private.docker()
    private.run.mkdir()
    private.state.mkdir(exist_ok=True)
    _keep_volumes_in_memory(private)
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


def _keep_volumes_in_memory(private: _PrivateDaemon) -> None:
    """Mount memory where the nodes of clusters have their files, unless the machine has little: disks are slow, most
    of all when the files are removed.
    """
    volumes = private.state / "volumes"
    volumes.mkdir(exist_ok=True)
    available = int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) * 1024
    if available >= _MEMORY_FOR_VOLUMES:
        # Docker mounts the folder over itself, unless it is mounted; that would hide what is mounted below.
        run(["mount", "--bind", private.state, private.state])
        run(["mount", "-t", "tmpfs", "-o", f"size={_MEMORY_FOR_VOLUMES // 2}", "tmpfs", volumes])


def _bounded_runtime(private: _PrivateDaemon) -> list[str]:
    """Flags for a container runtime that does not request capabilities which this machine withholds.

    Docker gives a privileged container every capability it knows, and runc fails on one that is not in the bounding
    set. So runc is wrapped: the wrapper removes the missing capabilities from the description of the container
    (`--bundle`) or of the process (`--process`).
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
    count = int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1
    numbers = [number for number in range(count) if not bounding >> number & 1]
    return [f"CAP_{_CAPABILITIES[number]}" for number in numbers if number < len(_CAPABILITIES)]


_CAPABILITIES = """
    CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
    NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT
    SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL
    SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
""".split()
"""The names of capabilities without `CAP_`, in the kernel's numbering."""


def _pid(private: _PrivateDaemon) -> int | None:
    """The process ID of the daemon, if it runs."""
    try:
        pid = int((private.run / "docker.pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except (OSError, ValueError):
        return None
    return pid if f"--data-root={private.state}" in command else None


def _clear(private: _PrivateDaemon) -> None:
    """Remove what a dead or hanging daemon left behind: processes, mounts, cgroups, network namespace, files."""
    deadline = time.monotonic() + _STOP
    while (processes := _processes(private)) and time.monotonic() < deadline:
        for pid in processes:  # repeated, because a container's init can start processes while it is being killed
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
            progress.print_status(f"    cannot remove {group}: {error}")
    if private.namespace.exists():
        run(["ip", "netns", "delete", private.name], environment=debian.environment())
    shutil.rmtree(private.run, ignore_errors=True)


def _processes(private: _PrivateDaemon) -> set[int]:
    """The process IDs of the private daemon, its helper programs and everything in its containers."""
    pids = set()
    for group in _groups(private):
        with contextlib.suppress(OSError):  # the cgroup may have just been removed
            pids |= {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            program = (process / "exe").readlink().name
        except OSError:
            continue
        if program in _DOCKER_PROGRAMS and f"{private.run}/".encode() in command:
            pids.add(int(process.name))
    return pids


_DOCKER_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "dockerd")
"""The programs that Docker runs outside its containers."""


def _groups(private: _PrivateDaemon) -> list[Path]:
    """The cgroups of the private daemon's containers in every hierarchy, children before parents."""
    tops = [_GROUPS / private.name, *_GROUPS.glob(f"*/{private.name}")]
    return [Path(folder) for top in tops for folder, _, _ in os.walk(top, topdown=False)]
