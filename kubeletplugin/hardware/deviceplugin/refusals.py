"""Resources that cannot be served, by their names. Pure.

The device plugins of these look for "their" pod while they answer, in annotations of other schedulers or in the API
server, or only keep accounts. Some of them answer an error as if it were a success, so only the name tells.
"""

import re
from fnmatch import fnmatchcase
from typing import Final

from driver.limits import MAX_DNS_SUBDOMAIN

_FINDS_ITS_POD: Final = "its device plugin looks for the pod itself, which it cannot find where Lode allocates"
_ACCOUNTS: Final = "it stands for an amount of a card and for no device"
_RECLAIMS: Final = "its device plugin takes back what the kubelet does not report in use"

_REFUSED: Final[tuple[tuple[str, str], ...]] = (
    ("aliyun.com/gpu-*", _FINDS_ITS_POD),
    ("*gpumem*", _ACCOUNTS),
    ("*gpucores*", _ACCOUNTS),
    ("*-vgpu", _FINDS_ITS_POD),
    ("volcano.sh/*", _FINDS_ITS_POD),
    ("enflame.com/shared-gcu", _FINDS_ITS_POD),
    ("enflame.com/drs-gcu", _FINDS_ITS_POD),
    ("mthreads.com/vgpu", _FINDS_ITS_POD),
    ("metax-tech.com/sgpu", _FINDS_ITS_POD),
    ("kunlunxin.com/vxpu", _FINDS_ITS_POD),
    ("cambricon.com/mlu.smlu.*", _FINDS_ITS_POD),
    ("cambricon.com/real-mlu-counts", _ACCOUNTS),
    ("hygon.com/dcu*", _FINDS_ITS_POD),
    ("*/hcunum", _FINDS_ITS_POD),
    ("*/hcucores", _ACCOUNTS),
    ("akri.sh/*", _RECLAIMS),
)
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_ERRORS_ABOUT_PODS: Final = ("pending pod", "not get valid pod", "no pod found", "not found pod")


def refusal_of(resource: str) -> str:
    """The reason why no resource of this name is served, and the remedy; "" if it can be served."""
    domain, slash, name = resource.partition("/")
    if not slash or not _NAME.fullmatch(name) or not _DOMAIN.fullmatch(domain) or len(domain) > MAX_DNS_SUBDOMAIN:
        return "is not the name of an extended resource such as amd.com/gpu"
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or domain.startswith("requests."):
        return "is a name that Kubernetes keeps for itself"
    for pattern, reason in _REFUSED:
        if fnmatchcase(resource, pattern):
            return f"{reason}; run that device plugin under the kubelet, or the vendor's plain one here"
    return ""


def looks_for_its_pod(error: str) -> bool:
    """Whether a device plugin refused to allocate because it did not find "its" pod."""
    return any(words in error.lower() for words in _ERRORS_ABOUT_PODS)
