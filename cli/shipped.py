"""Files of ``manifests/`` that the command needs: beside this module in the wheel, in ``manifests/`` in a checkout."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from driver.errors import Fault, InvalidInput

_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parent / "manifests"
_ACCOUNTS = "system:serviceaccount:lode-system:"
"""How the manifests name service accounts of the namespace that they install into."""


def examples() -> dict[str, list[dict[str, Any]]]:
    """The objects of each example, by the name of its file without suffix.

    Raises:
        InvalidInput: the files are missing, or are not YAML; the installation is damaged.
    """
    folder = _first_existing(_HERE / "examples", _CHECKOUT / "examples" / "requests")
    return {path.stem: list(_objects(path)) for path in sorted(folder.glob("*.yaml")) if path.stem != "kustomization"}


def device_classes() -> list[dict[str, Any]]:
    """The DeviceClasses as they are installed.

    Raises:
        InvalidInput: the file is missing, or is not YAML; the installation is damaged.
    """
    return _base("deviceclasses.yaml")


def slice_policies(namespace: str) -> list[dict[str, Any]]:
    """The policies that let each plugin write its own slices only, if it runs in ``namespace``.

    Raises:
        InvalidInput: the files are missing, or are not YAML; the installation is damaged.
    """
    text = json.dumps(_base("own-slices-policy.yaml"))
    policies: list[dict[str, Any]] = json.loads(text.replace(_ACCOUNTS, f"system:serviceaccount:{namespace}:"))
    return policies


def roles() -> list[dict[str, Any]]:
    """The Roles and ClusterRoles of both programs as they are installed.

    Raises:
        InvalidInput: the files are missing, or are not YAML; the installation is damaged.
    """
    of_controller = _first_existing(
        _HERE.parent / "controller" / "policies" / "manifests" / "controller-rbac.yaml",
        _CHECKOUT / "controller" / "controller-rbac.yaml",
    )
    objects = [*_base("kubeletplugin-rbac.yaml"), *_objects(of_controller)]
    return [raw for raw in objects if raw["kind"] in ("Role", "ClusterRole")]


def _base(name: str) -> list[dict[str, Any]]:
    return list(_objects(_first_existing(_HERE / "base" / name, _CHECKOUT / "base" / name)))


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
