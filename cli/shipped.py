"""Files of ``manifests/`` that the command needs: beside this module in the wheel, in ``manifests/`` in a checkout."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from driver.errors import Fault, InvalidInput
from driver.names import DEFAULT_DRIVER, pattern_of, renamed
from driver.yaml_values import LOADER

_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parent / "manifests"
_INSTALLED = _HERE.parent / "controller" / "policies" / "manifests"


def examples() -> dict[str, list[dict[str, Any]]]:
    """The objects of each example, by the name of its file without suffix.

    Raises:
        InvalidInput: the files are missing, or are not YAML; the installation is damaged.
    """
    folder = _first_existing(_HERE / "examples", _CHECKOUT / "examples" / "requests")
    return {path.stem: list(_objects(path)) for path in sorted(folder.glob("*.yaml")) if path.stem != "kustomization"}


def device_classes(driver: str = DEFAULT_DRIVER) -> list[dict[str, Any]]:
    """The DeviceClasses as they are installed for a driver of this name.

    Raises:
        InvalidInput: the file is missing, or is not YAML; the installation is damaged.
    """
    return _shipped("base/deviceclasses.yaml", driver)


def roles(driver: str = DEFAULT_DRIVER) -> list[dict[str, Any]]:
    """The Roles and ClusterRoles of both programs as they are installed for a driver of this name.

    Raises:
        InvalidInput: the files are missing, or are not YAML; the installation is damaged.
    """
    files = ("base/kubeletplugin-rbac.yaml", "controller/controller-rbac.yaml")
    objects = [obj for file in files for obj in _shipped(file, driver)]
    return [raw for raw in objects if raw["kind"] in ("Role", "ClusterRole")]


def _shipped(path: str, driver: str) -> list[dict[str, Any]]:
    return list(_objects(_first_existing(_INSTALLED / path, _CHECKOUT / path), driver))


def _first_existing(*places: Path) -> Path:
    for place in places:
        if place.exists():
            return place
    raise InvalidInput("manifests", [Fault(str(place), "missing file; reinstall lode-dra") for place in places])


def _objects(path: Path, driver: str = DEFAULT_DRIVER) -> Iterator[dict[str, Any]]:
    text = renamed(path.read_text(), driver, pattern_of(driver))
    try:
        yield from (document for document in yaml.load_all(text, Loader=LOADER) if document)
    except yaml.YAMLError as error:
        raise InvalidInput(str(path), [Fault("", f"is not YAML: {error}")]) from error
