"""The policies of ``manifests/``: beside this module in the wheel, in ``manifests`` in a checkout."""

import json
from collections.abc import Sequence
from pathlib import Path

import yaml

from driver.errors import Fault, InvalidInput
from driver.kube.api import Object, Resource

_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parents[1] / "manifests"
_NAMESPACE = "system:serviceaccount:lode-system:"
"""How the manifests name service accounts of the namespace that they install into."""
_PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


def policy_resource(policy: Object) -> Resource:
    """Where the API serves the policy or binding."""
    kind = policy["kind"]
    return Resource("admissionregistration.k8s.io", "v1", _PLURALS[kind], kind, namespaced=False)


def expected_policies(namespace: str) -> Sequence[Object]:
    """The admission policies and their bindings, as they must be if this program runs in ``namespace``.

    Raises:
        InvalidInput: the files are missing; the installation is damaged.
    """
    return [*base_policies(namespace), *controller_policies(namespace)]


def base_policies(namespace: str) -> Sequence[Object]:
    """Those of both flavors.

    Raises:
        InvalidInput: the files are missing; the installation is damaged.
    """
    return _policies("base", namespace)


def controller_policies(namespace: str) -> Sequence[Object]:
    """Those of the flavor in which the controller allocates.

    Raises:
        InvalidInput: the files are missing; the installation is damaged.
    """
    return _policies("controller", namespace)


def _policies(folder: str, namespace: str) -> list[Object]:
    places = (_HERE / "manifests" / folder, _CHECKOUT / folder)
    files = next((found for place in places if (found := sorted(place.glob("*-policy.yaml")))), None)
    if files is None:
        raise InvalidInput("manifests", [Fault(str(places[0]), "missing files *-policy.yaml; reinstall lode-dra")])
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]
    text = json.dumps([document for document in documents if "AdmissionPolicy" in document["kind"]])
    policies: list[Object] = json.loads(text.replace(_NAMESPACE, f"system:serviceaccount:{namespace}:"))
    return policies
