"""Limits of Kubernetes' API, and the syntax of names in it. Pure.

Sources: the field descriptions of resource.k8s.io/v1 and k8s.io/kubernetes/pkg/apis/resource/validation; for Events,
k8s.io/kubernetes/pkg/apis/core/validation; for health messages, the kubelet's dra-health API.
"""

import re
from collections.abc import Sequence

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
"""A lowercase RFC 1123 label: names of devices, requests, counters and counter sets."""
MAX_DNS_LABEL = 63
"""Characters of a DNS label."""
DNS_SUBDOMAIN = re.compile(rf"{DNS_LABEL.pattern}(\.{DNS_LABEL.pattern})*", re.ASCII)
"""Labels with dots between them."""
MAX_DRIVER_NAME = 63
"""Characters of the name of a driver, which is a subdomain in upper or lower case."""
MAX_DNS_SUBDOMAIN = 253
"""Characters of a DNS subdomain: names of objects and pools."""
C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
"""The name of an attribute or capacity, without its domain."""
MAX_C_IDENTIFIER = 32
"""Characters of the name of an attribute or capacity."""

MAX_DEVICES = 128
"""Devices of a slice."""
MAX_DEVICES_RESTRICTED = 64
"""Devices of a slice in which any device consumes counters, has taints or has list attributes."""
MAX_COUNTER_SETS = 8
"""Counter sets of a slice."""
MAX_COUNTERS = 32
"""Counters of a counter set, and counters a device consumes of one set."""
MAX_CONSUMED_COUNTER_SETS = 2
"""Counter sets a device consumes counters of."""
MAX_ATTRIBUTES_AND_CAPACITIES = 32
"""Attributes and capacities of a device, together."""
MAX_ATTRIBUTE_BYTES = 64
"""UTF-8 bytes of a string or version attribute."""
MAX_CAPACITY_REQUESTS = 32
"""Capacities that one request asks for; Kubernetes 1.37 sets no limit."""
MAX_VALID_VALUES = 10
"""Valid values of a capacity's request policy."""
MAX_DEVICE_TAINTS = 16
"""Taints of a device."""
MAX_BINDING_CONDITIONS = 4
"""Binding conditions of a device, and binding failure conditions of a device."""

MAX_CLAIM_BYTES = 1 << 20
"""Bytes of a claim that is allocated, as JSON, its parameters counted twice because the allocation has them too. It is
a limit of this project: the store of the API server takes 1.5 MiB, and the allocation is written into the claim."""
MAX_OBJECT_DEPTH = 64
"""Levels of nesting of an object that lenient decoding reads. The API's own fields need about 20. It is a limit of this
project: the API server takes 10,000."""
MAX_PARAMETERS_DEPTH = 16
"""Levels of nesting of opaque parameters that are read. Valid ones need 4. It is a limit of this project."""

MAX_EVENT_MESSAGE = 1024
"""Characters of an Event's message (events.k8s.io/v1; core/v1 Events keep to it, too)."""
MAX_LOG_VALUE = 4096
"""Characters of a text in a line of the log; a limit of this project."""
MAX_TRACEBACK = 32_768
"""Characters of a traceback in a line of the log; a limit of this project."""
MAX_SOCKET_PATH = 107
"""Bytes of the path of a socket: ``sun_path`` of AF_UNIX has 108, the last of them NUL."""
MAX_HEALTH_MESSAGE = 1024
"""Characters of a device's health message: the kubelet cuts what is longer."""


def bounded(text: str, most: int = MAX_EVENT_MESSAGE) -> str:
    """``text`` cut to at most ``most`` characters; its end says how many are left out.

    >>> bounded("a" * 100, 30)
    'aaaaaaa… and 93 more characters'
    """
    if len(text) <= most:
        return text
    end = f"… and {len(text)} more characters"
    kept = max(0, most - len(end))
    return (text[:kept] + f"… and {len(text) - kept} more characters")[:most]


def first_of(texts: Sequence[str], most: int) -> str:
    """The first of the texts, ``most`` at most, and the number of the others: ``a, b and 3 more``."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


_BETWEEN = "; "


def listed(texts: Sequence[str], most: int = MAX_EVENT_MESSAGE) -> str:
    """Joins the texts in at most ``most`` characters: as many as fit, and the number of the others.

    ``most`` also bounds the work, however many texts there are.
    """
    found, length = list[str](), 0
    for at, text in enumerate(texts):
        left = len(texts) - at - 1
        end = f"{_BETWEEN}… and {left + 1} more" if at else ""
        if found and length + len(_BETWEEN) + len(text) + (len(end) if left else 0) > most:
            return _BETWEEN.join(found) + end
        found.append(bounded(text, most - len(f"{_BETWEEN}… and {left} more")) if left else bounded(text, most))
        length += len(_BETWEEN) + len(found[-1]) if at else len(found[-1])
    return _BETWEEN.join(found)


def is_dns_label(text: str) -> bool:
    """True if ``text`` is a lowercase RFC 1123 label."""
    return len(text) <= MAX_DNS_LABEL and DNS_LABEL.fullmatch(text) is not None


def is_c_identifier(text: str) -> bool:
    """True if ``text`` can name an attribute or capacity."""
    return len(text) <= MAX_C_IDENTIFIER and C_IDENTIFIER.fullmatch(text) is not None


def is_driver_name(text: str) -> bool:
    """True if ``text`` can name a driver."""
    return len(text) <= MAX_DRIVER_NAME and DNS_SUBDOMAIN.fullmatch(text.lower()) is not None


def is_qualified_name(text: str) -> bool:
    """True if ``text`` can name an attribute or capacity, with the domain of a driver or without."""
    domain, slash, name = text.rpartition("/")
    return is_c_identifier(name) and (not slash or is_driver_name(domain))
