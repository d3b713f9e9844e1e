"""Files of ``manifests/`` that the command needs: beside this module in the wheel, in ``manifests/`` in a checkout."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from driver.errors import Fault, InvalidInput

_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parent / "manifests"


def examples() -> dict[str, list[dict[str, Any]]]:
    """The objects of each example, by the name of its file without suffix.

    Raises:
        InvalidInput: the files are missing, or are not YAML; the installation is damaged.
    """
    folder = _first_existing(_HERE / "examples", _CHECKOUT / "examples")
    return {path.stem: list(_objects(path)) for path in sorted(folder.glob("*.yaml"))}


def device_classes() -> list[dict[str, Any]]:
    """The DeviceClasses as they are installed.

    Raises:
        InvalidInput: the file is missing, or is not YAML; the installation is damaged.
    """
    return list(_objects(_first_existing(_HERE / "deviceclasses.yaml", _CHECKOUT / "base" / "deviceclasses.yaml")))


def _first_existing(*places: Path) -> Path:
    for place in places:
        if place.exists():
            return place
    raise InvalidInput("manifests", [Fault(str(place), "missing file; reinstall lode-dra") for place in places])


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    try:
        yield from (document for document in yaml.safe_load_all(path.read_text()) if document)
    except yaml.YAMLError as error:
        raise InvalidInput(str(path), [Fault("", f"is not YAML: {error}")]) from error
