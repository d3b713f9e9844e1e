"""The part of the controller's settings that decisions depend on."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from cli.live import NoRights, get_one
from cli.objects.checks import InputObject
from controller.state import DecisionSettings, decision_settings
from driver.errors import OperatorFault
from driver.kube.api import (
    DEPLOYMENTS,
    NODES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    VOLCANO_POD_GROUPS,
    Api,
    Object,
    Resource,
)
from driver.names import CONTROLLER_NAMESPACE, DEFAULT_DRIVER
from driver.settings import ControllerSettings
from driver.settings_file import settings_from

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
_DEPLOYMENT: Final = "lode-controller"
"""The controller's, as in the manifests."""
_FILE: Final = "settings.yaml"
_OF_KUBERNETES: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
"""Types of node conditions that Kubernetes itself writes."""


def settings_in(file: str) -> DecisionSettings | None:
    """What the settings file says; None if ``file`` is "".

    Raises:
        OperatorFault: the file cannot be read.
        InvalidInput: it contains no valid settings.
    """
    if not file:
        return None
    try:
        text = Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorFault(f"cannot read the settings {file}: {error}") from error
    return decision_settings(settings_from(text, file).controller)


def settings_of_cluster(api: Api, objects: Iterable[InputObject]) -> tuple[DecisionSettings, tuple[str, ...]]:
    """The same by the settings of the installed controller, and notes on settings that cannot be read.

    They are read only if they can matter: one of the objects is a PodGroup that names a tier, a Node with a condition
    that is true and not of Kubernetes itself, or a claim for devices of ours and of another driver.

    Raises:
        OperatorFault: the API server does not answer.
        InvalidInput: these are no valid settings.
    """
    if not any(map(_can_matter, objects)):
        return DecisionSettings(), ()
    namespace = CONTROLLER_NAMESPACE
    try:
        installed = installed_settings(api, namespace)
    except NoRights as error:
        rights = "; ".join(map(str, error.missing))
        unknown = (
            "what tiers of Volcano stand for, which drivers are allocated together, and which conditions close nodes, "
            "is not known"
        )
        return DecisionSettings(), (f"{rights}: {unknown}; give the controller's --settings",)
    if installed is not None:
        return decision_settings(installed), ()
    text = f"no controller is installed in namespace {namespace}, so tiers of Volcano stand for nothing"
    return DecisionSettings(), (f"{text}, and no condition closes a node; give its --settings",)


def installed_settings(api: Api, namespace: str) -> ControllerSettings | None:
    """The settings of the controller that is installed in the namespace; None if there is none.

    Raises:
        NoRights: they may not be read.
        OperatorFault: the API server does not answer.
        InvalidInput: these are no valid settings.
    """
    deployment = get_one(api, DEPLOYMENTS, _DEPLOYMENT, namespace) or {"spec": {"template": {"spec": {}}}}
    volumes = deployment["spec"]["template"]["spec"].get("volumes") or ()
    names = [volume["configMap"]["name"] for volume in volumes if volume.get("configMap")]
    maps = [found for name in names if (found := get_one(api, CONFIG_MAPS, name, namespace))]
    for one in maps:
        if text := (one.get("data") or {}).get(_FILE):
            return settings_from(text, f"ConfigMap {namespace}/{one['metadata']['name']}").controller
    return None


def _can_matter(item: InputObject) -> bool:
    """Whether the settings matter for the object; not for one that makes no sense, which is left out anyway."""
    if item.resource in (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES):
        with suppress(AttributeError, KeyError, TypeError):
            return _is_mixed(item.object["spec"])
        return False
    section = {VOLCANO_POD_GROUPS: "spec", NODES: "status"}.get(item.resource, "")
    part = item.object.get(section)
    if not isinstance(part, dict):
        return False
    if item.resource == VOLCANO_POD_GROUPS:
        return bool(part.get("networkTopology"))
    conditions = part.get("conditions")
    return any(
        isinstance(one, dict) and one.get("status") == "True" and one.get("type") not in _OF_KUBERNETES
        for one in (conditions if isinstance(conditions, list) else ())
    )


def _is_mixed(spec: Object) -> bool:
    """Whether the spec of a claim, or of a template, asks for classes of ours and for others, as their names say."""
    requests = (spec.get("spec") or spec)["devices"].get("requests") or ()
    wants = [want for one in requests for want in (one.get("exactly"), *(one.get("firstAvailable") or ())) if want]
    return len({want["deviceClassName"].endswith(f".{DEFAULT_DRIVER}") for want in wants}) > 1
