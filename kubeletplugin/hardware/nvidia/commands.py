"""Runs programs of the driver and of the host, one at a time, with a bound in time."""

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
        ...


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
