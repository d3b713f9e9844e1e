"""Exit statuses of ``lode simulate`` and ``lode explain``; each command's help says what they mean there."""

from typing import Final

PLACED: Final = 0
WAITS: Final = 1
FAILED: Final = 2
