"""A value in a file that outlives the program and counts until the machine is started again."""

import threading
from typing import Generic, TypeVar

from driver.files import Files
from driver.kube.codec import decode_object, decoded_as, encode_object
from driver.observe import Logger

T = TypeVar("T")


class BootFile(Generic[T]):
    """What a program leaves for the next one of the same boot. A file that cannot be read is one without a value.

    A value is chosen first and saved afterwards, so that no lock under which it is chosen is held while a disk works.
    Thread-safe.

    Args:
        boot_id: of this boot of the machine; what another boot has written does not count.
        kind: the type of the value, of dataclasses, lists, mappings, texts and numbers.
    """

    def __init__(self, files: Files, path: str, boot_id: str, kind: type[T], log: Logger):
        self._files = files
        self._path = path
        self._boot_id = boot_id
        self._kind = kind
        self._log = log
        self._chosen: list[T | None] = []
        """The value that was chosen last, in a list of its own; empty if none was chosen."""
        self._saved = self._chosen
        self._saving = threading.Lock()

    def load(self) -> T | None:
        """The value that was saved last; None if there is none."""
        try:
            data = self._files.read(self._path)
            raw = decode_object(data) if data is not None else {}
            return decoded_as(raw["value"], self._kind) if raw.get("bootId") == self._boot_id else None
        except (OSError, ValueError, KeyError) as error:
            self._log.warning("file of before cannot be read", path=self._path, reason=repr(error))
            return None

    def choose(self, value: T | None) -> None:
        """The value that ``save`` writes; None leaves no file."""
        self._chosen = [value]

    def save(self) -> None:
        """Write what was chosen last, unless that is done. If it cannot be written, the next program does not have it.

        Returns at once while another thread saves: that one writes what was chosen meanwhile, too.
        """
        while self._chosen is not self._saved and self._saving.acquire(blocking=False):
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
