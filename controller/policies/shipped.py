"""The policies of ``manifests/``: beside this module in the wheel, in ``manifests`` in a checkout."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from driver.allocated_texts import with_drivers
from driver.errors import Fault, InvalidInput
from driver.kube.api import Object, Resource
from driver.names import CONTROLLER_NAMESPACE, DEFAULT_DRIVER, PLUGIN_NAMESPACE, pattern_of, renamed
from driver.yaml_values import LOADER

_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parents[1] / "manifests"
_ACCOUNT = re.compile(f"(system:serviceaccount:)({CONTROLLER_NAMESPACE}|{PLUGIN_NAMESPACE}):")
"""Service accounts of the namespaces that the manifests install into."""
_PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


def policy_resource(policy: Object) -> Resource:
    """Return the resource under which the API serves the policy or binding."""
    kind = policy["kind"]
    return Resource("admissionregistration.k8s.io", "v1", _PLURALS[kind], kind, namespaced=False)


def expected_policies(
    driver: str = DEFAULT_DRIVER,
    controller: str = CONTROLLER_NAMESPACE,
    plugin: str = PLUGIN_NAMESPACE,
    also: Sequence[str] = (),
) -> Sequence[Object]:
    """Return the admission policies and bindings that must exist if the two programs run in these namespaces.

    Args:
        driver: the driver's name.
        also: other drivers whose devices the controller allocates.

    Raises:
        InvalidInput: the files are missing; the installation is damaged.
    """
    return [*base_policies(driver, controller, plugin, also), *controller_policies(driver, controller, plugin, also)]


def base_policies(driver: str, controller: str, plugin: str, also: Sequence[str] = ()) -> Sequence[Object]:
    """Return the policies of both flavors.

    Raises:
        InvalidInput: the files are missing; the installation is damaged.
    """
    return _policies("base", driver, {CONTROLLER_NAMESPACE: controller, PLUGIN_NAMESPACE: plugin}, also)


def controller_policies(driver: str, controller: str, plugin: str, also: Sequence[str] = ()) -> Sequence[Object]:
    """Return the policies of the flavor in which the controller allocates.

    Raises:
        InvalidInput: the files are missing; the installation is damaged.
    """
    return _policies("controller", driver, {CONTROLLER_NAMESPACE: controller, PLUGIN_NAMESPACE: plugin}, also)


def _policies(folder: str, driver: str, namespaces: Mapping[str, str], also: Sequence[str]) -> list[Object]:
    places = (_HERE / "manifests" / folder, _CHECKOUT / folder)
    files = next((found for place in places if (found := sorted(place.glob("*-policy.yaml")))), None)
    if files is None:
        raise InvalidInput("manifests", [Fault(str(places[0]), "missing files *-policy.yaml; reinstall lode-dra")])
    # First ours, then those of others: what they are called is nobody's to change.
    texts = [with_drivers(renamed(file.read_text(), driver, pattern_of(driver)), driver, also) for file in files]
    documents = [document for text in texts for document in yaml.load_all(text, Loader=LOADER) if document]
    text = json.dumps([document for document in documents if "AdmissionPolicy" in document["kind"]])
    policies: list[Object] = json.loads(_ACCOUNT.sub(lambda match: f"{match[1]}{namespaces[match[2]]}:", text))
    return policies
