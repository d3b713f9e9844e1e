"""The named formats of Kubernetes, such as ``format.dns1123Label()``: names of objects, labels, formats of OpenAPI."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from driver.cel.values import urls

Problems = list[str]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_KEY = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID = re.compile(r"(?i:[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12})", re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(.\d+)?(z|[+-]\d\d:\d\d)", re.ASCII)
_LONGEST_LABEL, _LONGEST_SUBDOMAIN = 63, 253


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A named format. ``problems`` lists what is wrong with a text; empty if the text is valid."""

    name: str
    problems: Callable[[str], Problems]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedFormat) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _too_long(text: str, limit: int) -> Problems:
    return [f"must be no more than {limit} bytes"] if len(text.encode("utf-8", "surrogateescape")) > limit else []


def _dns_label(text: str) -> Problems:
    problems = _too_long(text, _LONGEST_LABEL)
    if _DNS_LABEL.fullmatch(text):
        return problems
    if _DNS_SUBDOMAIN.fullmatch(text):
        return [*problems, "must not contain dots"]
    return [*problems, "must be lower case letters, digits and '-', with a letter or digit at both ends (RFC 1123)"]


def _dns_subdomain(text: str) -> Problems:
    problems = _too_long(text, _LONGEST_SUBDOMAIN)
    if _DNS_SUBDOMAIN.fullmatch(text):
        return problems
    return [*problems, "must be RFC 1123 labels (lower case letters, digits and '-') joined by dots"]


def _dns_1035_label(text: str) -> Problems:
    problems = _too_long(text, _LONGEST_LABEL)
    if _DNS_1035.fullmatch(text):
        return problems
    return [*problems, "must be lower case letters, digits and '-', from a letter to a letter or digit (RFC 1035)"]


_NAME_RULE = "must be letters, digits, '-', '_' and '.', with a letter or digit at both ends"


def _qualified_name(text: str) -> Problems:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return ["must be a name, with at most one DNS subdomain and '/' before it"]
    problems: Problems = []
    if slash:
        wrong = _dns_subdomain(prefix) if prefix else ["must be non-empty"]
        problems += [f"prefix part {problem}" for problem in wrong]
    if not name:
        problems.append("name part must be non-empty")
    problems += [f"name part {problem}" for problem in _too_long(name, _LONGEST_LABEL)]
    return problems if _KEY.fullmatch(name) else [*problems, f"name part {_NAME_RULE}"]


def _label_value(text: str) -> Problems:
    problems = _too_long(text, _LONGEST_LABEL)
    return problems if not text or _KEY.fullmatch(text) else [*problems, f"a label's value {_NAME_RULE}, or empty"]


def _prefix(check: Callable[[str], Problems]) -> Callable[[str], Problems]:
    """The check of a prefix. As in Kubernetes, a dash at the end is masked: the rest of the name follows it."""
    return lambda text: check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _is_date(text: str) -> bool:
    parts = _DATE.fullmatch(text)
    if not parts:
        return False
    year, month, day = int(parts[1]), int(parts[2]), int(parts[3])
    try:
        date(year or 2000, month, day)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    days, _, rest = text.lower().partition("t")
    parts = _TIME.fullmatch(rest.partition("t")[0])
    return parts is not None and _is_date(days) and parts[1] <= "23" and parts[2] <= "59" and parts[3] <= "59"


def _unless(holds: Callable[[str], object], problem: str) -> Callable[[str], Problems]:
    return lambda text: [] if holds(text) else [problem]


def _uri(text: str) -> Problems:
    wrong = urls.invalid(text)
    return [wrong] if wrong else []


FORMATS: Final[Mapping[str, NamedFormat]] = {
    "dns1123Label": NamedFormat("DNS1123Label", _dns_label),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _dns_subdomain),
    "dns1035Label": NamedFormat("DNS1035Label", _dns_1035_label),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(_dns_label)),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix(_dns_subdomain)),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(_dns_1035_label)),
    "labelValue": NamedFormat("LabelValue", _label_value),
    "uri": NamedFormat("URI", _uri),
    "uuid": NamedFormat("uuid", _unless(_UUID.fullmatch, "is no UUID")),
    "byte": NamedFormat("byte", _unless(_BASE64.fullmatch, "invalid base64")),
    "date": NamedFormat("date", _unless(_is_date, "invalid date")),
    "datetime": NamedFormat("datetime", _unless(_is_datetime, "invalid datetime")),
}
"""The formats by their names in CEL."""
