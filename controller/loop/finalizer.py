"""The finalizer of a claim, which has to be there before its allocation."""

from driver.kube.api import RESOURCE_CLAIMS, Api, Invalid, Object
from driver.names import FINALIZER

_REMEDY = (
    "if it has opaque parameters, make the claim or its template again with kubectl: the API server compares the bytes "
    "in which they were written first, spaces and escapes too"
)


def add_finalizer(api: Api, claim: Object) -> Object:
    """The claim as stored with the finalizer, if it is still in the version of ``claim``.

    A claim's spec cannot be changed, and its opaque parameters are compared as bytes. A patch has the server write them
    as Go does, which is how kubectl and Kubernetes' own controllers wrote them; an update writes them as Python does,
    which is how Python's clients did.

    Raises:
        Conflict: the claim has changed; decide again.
        Invalid: the parameters were written in yet another way; the claim's author must act.
    """
    metadata = claim["metadata"]
    finalizers = [*(metadata.get("finalizers") or ()), FINALIZER]
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
    try:
        return api.patch(RESOURCE_CLAIMS, metadata["name"], patch, namespace=metadata["namespace"])
    except Invalid:
        if not claim["spec"].get("devices", {}).get("config"):
            raise
    try:
        return api.update(RESOURCE_CLAIMS, {**claim, "metadata": {**metadata, "finalizers": finalizers}})
    except Invalid as error:
        raise Invalid(f"{error}; {_REMEDY}", status=error.status, reason=error.reason) from error
