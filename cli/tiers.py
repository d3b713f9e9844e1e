"""The part of the controller's settings that decisions about gangs depend on."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cli.checks import DEPLOYMENTS, InputObject
from cli.live import NoRights, get_one
from controller.gangs import Tiers, tiers_from
from driver.errors import OperatorFault
from driver.kube.api import VOLCANO_POD_GROUPS, Api, Resource
from driver.names import CONTROLLER_NAMESPACE
from driver.settings import settings_from

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
_DEPLOYMENT: Final = "lode-controller"
"""The controller's, as in the manifests."""
_FILE: Final = "settings.yaml"


def tiers_in(file: str) -> Tiers | None:
    """The meaning of tiers in PodGroups of Volcano, by the settings file; None if ``file`` is "".

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
    return tiers_from(settings_from(text, file).controller.volcano_tiers)


def tiers_of_cluster(api: Api, objects: Iterable[InputObject]) -> tuple[Tiers, tuple[str, ...]]:
    """The same by the settings of the installed controller, and notes on settings that cannot be read.

    They are read only if one of the objects is a PodGroup that names a tier.

    Raises:
        OperatorFault: the API server does not answer.
        InvalidInput: these are no valid settings.
    """
    groups = (item.object for item in objects if item.resource == VOLCANO_POD_GROUPS)
    if not any((group.get("spec") or {}).get("networkTopology") for group in groups):
        return {}, ()
    namespace = CONTROLLER_NAMESPACE
    try:
        deployment = get_one(api, DEPLOYMENTS, _DEPLOYMENT, namespace) or {"spec": {"template": {"spec": {}}}}
        volumes = deployment["spec"]["template"]["spec"].get("volumes") or ()
        names = [volume["configMap"]["name"] for volume in volumes if volume.get("configMap")]
        maps = [found for name in names if (found := get_one(api, CONFIG_MAPS, name, namespace))]
    except NoRights as error:
        rights = "; ".join(map(str, error.missing))
        return {}, (f"{rights}: what tiers of Volcano stand for is not known; give the controller's --settings",)
    for one in maps:
        if text := (one.get("data") or {}).get(_FILE):
            where = f"ConfigMap {namespace}/{one['metadata']['name']}"
            return tiers_from(settings_from(text, where).controller.volcano_tiers), ()
    text = f"no controller is installed in namespace {namespace}, so tiers of Volcano stand for nothing"
    return {}, (f"{text}; give its --settings",)
