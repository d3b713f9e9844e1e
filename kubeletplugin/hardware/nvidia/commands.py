"""Runs programs of the driver and of the host, one at a time, with a bound in time; and services of the host.

Services outlive this process and its pod.
"""

import subprocess
from collections.abc import Mapping, Sequence
from typing import Protocol

from driver.errors import TransientFault

COMMAND_SECONDS = 20.0
"""Longest time of a program."""


class Commands(Protocol):
    """Runs programs."""

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None, text: str = "") -> str:
        """Run a program; returns its standard output.

        Args:
            environment: all of its variables.
            text: its standard input.

        Raises:
            TransientFault: it cannot be started, fails or takes too long; the message has its output.
        """


class SystemCommands:
    """Programs of this machine."""

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None, text: str = "") -> str:
        """See ``Commands``."""
        try:
            done = subprocess.run(
                list(command),
                input=text,
                env=dict(environment or {}),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TransientFault(f"{command[0]}: {error}") from error
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()[-400:]
            raise TransientFault(f"{' '.join(command)}: ended with {done.returncode}: {said}")
        return done.stdout


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Services(Protocol):
    """Starts and stops services by the name of their unit. Methods may raise TransientFault."""

    def runs(self, unit: str) -> bool:
        """Whether the service runs."""

    def start(
        self, unit: str, command: Sequence[str], environment: Mapping[str, str], root: str, binds: Mapping[str, str]
    ) -> None:
        """Start a service that is restarted when it fails.

        Args:
            root: the folder of the host that the program sees as ``/``.
            binds: folders of the host, and where the program sees them.
        """

    def stop(self, unit: str) -> None:
        """Stop a service; absent is success."""

    def call(self, command: Sequence[str], environment: Mapping[str, str], root: str, text: str) -> str:
        """Run a program of the host with ``text`` as its input; returns its output."""


class SystemdServices:
    """Transient services of the host's systemd.

    Args:
        host: path at which this process sees the host's ``/``. The sockets of the host's systemd are below it.
    """

    def __init__(self, commands: Commands, host: str = "/"):
        self._commands = commands
        self._host = host

    def runs(self, unit: str) -> bool:
        """See ``Services``."""
        return self._on_host("/", ["systemctl", "show", "--property=ActiveState", "--value", unit]).strip() in (
            "active",
            "activating",
            "reloading",
        )

    def start(
        self, unit: str, command: Sequence[str], environment: Mapping[str, str], root: str, binds: Mapping[str, str]
    ) -> None:
        """See ``Services``."""
        properties = ["Restart=on-failure", *(f"BindPaths={source}:{target}" for source, target in binds.items())]
        if root != "/":
            properties += [f"RootDirectory={root}", "MountAPIVFS=yes"]
        options = [
            f"--unit={unit}",
            "--collect",
            *(f"--property={each}" for each in properties),
            *(f"--setenv={name}={value}" for name, value in environment.items()),
        ]
        self._on_host("/", ["systemd-run", *options, "--", *command])

    def stop(self, unit: str) -> None:
        """See ``Services``."""
        if self.runs(unit):
            self._on_host("/", ["systemctl", "stop", unit])

    def call(self, command: Sequence[str], environment: Mapping[str, str], root: str, text: str) -> str:
        """See ``Services``."""
        return self._on_host(root, command, environment, text)

    def _on_host(
        self, root: str, command: Sequence[str], environment: Mapping[str, str] | None = None, text: str = ""
    ) -> str:
        folder = f"{self._host.rstrip('/')}/{root.lstrip('/')}"
        changed = ["chroot", folder] if folder != "/" else []
        # systemctl does nothing in another root than systemd's unless it is told so.
        variables = {"PATH": _PATH, "SYSTEMD_IGNORE_CHROOT": "1", **(environment or {})}
        try:
            return self._commands.run([*changed, *command], variables, text)
        except TransientFault as error:
            raise TransientFault(f"host service: {error}") from error
