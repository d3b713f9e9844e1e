"""A value in a file that is valid until the machine reboots, across restarts of the program."""

import threading
from typing import Generic, TypeVar

from driver.files import Files
from driver.kube.codec import converter, decode_object, encode_object
from driver.observe import Logger

T = TypeVar("T")


class BootFile(Generic[T]):
    """A value that a program keeps for the next program of the same boot. A file that cannot be read has no value.

    Choosing a value and saving it are two steps, so that callers can choose under a lock and save without it.
    Thread-safe.

    Args:
        boot_id: of this boot of the machine; the file of another boot has no value. "" for a value that is valid
            after a reboot, too.
        kind: the type of the value, made of dataclasses, lists, mappings, strings and numbers.
    """

    def __init__(self, files: Files, path: str, boot_id: str, kind: type[T], log: Logger):
        self._files = files
        self._path = path
        self._boot_id = boot_id
        self._converted = converter(kind)
        self._log = log
        self._chosen: list[T | None] = []
        """The value chosen last, as the only element; empty if none was chosen."""
        self._saved = self._chosen
        self._saving = threading.Lock()

    def load(self) -> T | None:
        """The value saved last; None if there is none."""
        try:
            data = self._files.read(self._path)
            raw = decode_object(data) if data is not None else {}
            return self._converted(raw["value"]) if raw.get("bootId") == self._boot_id else None
        except (OSError, ValueError, KeyError) as error:
            self._log.warning("file of before cannot be read", path=self._path, reason=repr(error))
            return None

    @property
    def unsaved(self) -> bool:
        """Whether the value chosen last is still to be written."""
        return self._chosen is not self._saved

    def choose(self, value: T | None) -> None:
        """Set the value that ``save`` writes; None removes the file."""
        self._chosen = [value]

    def save(self) -> None:
        """Write the value chosen last, unless it is written already. A value that cannot be written is logged and lost
        with this program.

        Returns at once while another thread saves: that thread also writes values chosen meanwhile.
        """
        while self.unsaved and self._saving.acquire(blocking=False):
            try:
                chosen = self._chosen
                self._write(chosen[0])
                self._saved = chosen
            finally:
                self._saving.release()

    def _write(self, value: T | None) -> None:
        try:
            if value is None:
                self._files.remove(self._path)
            else:
                content = encode_object({"bootId": self._boot_id, "value": value})
                self._files.write(self._path, content + b"\n", may_lose="content")
        except OSError as error:
            self._log.warning("file for later cannot be written", path=self._path, reason=str(error))
