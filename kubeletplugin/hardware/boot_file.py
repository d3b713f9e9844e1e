"""A value in a file that outlives the program and counts until the machine is started again."""

from typing import Generic, TypeVar

from driver.files import Files
from driver.kube.codec import decode_object, decoded_as, encode_object
from driver.observe import Logger

T = TypeVar("T")


class BootFile(Generic[T]):
    """What a program leaves for the next one of the same boot. A file that cannot be read is one without a value.

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

    def load(self) -> T | None:
        """The value that was saved last; None if there is none."""
        try:
            data = self._files.read(self._path)
            raw = decode_object(data) if data is not None else {}
            return decoded_as(raw["value"], self._kind) if raw.get("bootId") == self._boot_id else None
        except (OSError, ValueError, KeyError) as error:
            self._log.warning("file of before cannot be read", path=self._path, reason=repr(error))
            return None

    def save(self, value: T | None) -> None:
        """Replace the value; None leaves no file. If it cannot be written, the next program does not have it."""
        try:
            if value is None:
                self._files.remove(self._path)
            else:
                content = encode_object({"bootId": self._boot_id, "value": value})
                self._files.write(self._path, content + b"\n", may_lose="content")
        except OSError as error:
            self._log.warning("file for later cannot be written", path=self._path, reason=str(error))
