"""Files of ``manifests/`` that the command needs: in the wheel beside this module, in a checkout where they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from driver.errors import Fault, InvalidInput

_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parent / "manifests"


def examples() -> dict[str, list[dict[str, Any]]]:
    """The objects of each example, by the name of its file without the ending.

    Raises:
        InvalidInput: the files are not there, or are not YAML; the installation is damaged.
    """
    folder = _found(_HERE / "examples", _CHECKOUT / "examples")
    return {path.stem: list(_objects(path)) for path in sorted(folder.glob("*.yaml"))}


def device_classes() -> list[dict[str, Any]]:
    """The DeviceClasses as they are installed.

    Raises:
        InvalidInput: the file is not there, or is not YAML; the installation is damaged.
    """
    return list(_objects(_found(_HERE / "deviceclasses.yaml", _CHECKOUT / "base" / "deviceclasses.yaml")))


def _found(*places: Path) -> Path:
    for place in places:
        if place.exists():
            return place
    raise InvalidInput("manifests", [Fault(str(place), "is not there; install lode-dra anew") for place in places])


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    try:
        yield from (document for document in yaml.safe_load_all(path.read_text()) if document)
    except yaml.YAMLError as error:
        raise InvalidInput(str(path), [Fault("", f"is not YAML: {error}")]) from error
