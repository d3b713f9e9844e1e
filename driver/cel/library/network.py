"""The functions on IP addresses, networks, URLs and Kubernetes' named formats."""

from collections.abc import Callable, Mapping
from typing import Any

from driver.cel.cost.budget import CostBudget
from driver.cel.errors import SelectorFault
from driver.cel.values import urls
from driver.cel.values.addresses import (
    Address,
    Network,
    is_global_unicast,
    is_link_local,
    is_link_local_multicast,
)
from driver.cel.values.named_formats import FORMATS, NamedFormat
from driver.cel.values.runtime import NONE, Optional, Overloads
from driver.cel.values.urls import Url


def _parsed(parse: Callable[[str], Any]) -> Callable[[CostBudget, str], Any]:
    def run(_: CostBudget, text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise SelectorFault(str(error)) from None

    return run


def _valid(parse: Callable[[str], Any]) -> Callable[[CostBudget, str], bool]:
    def run(_: CostBudget, text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return run


_address, _network = _parsed(Address.parse), _parsed(Network.parse)


def _is_canonical(budget: CostBudget, text: str) -> bool:
    return str(_address(budget, text)) == text


def _contains(_: CostBudget, outer: Network, inner: Network) -> bool:
    return outer.bits <= inner.bits and outer.contains(inner.address)


def _address_test(holds: Callable[[Address], bool]) -> Overloads:
    return {("net.IP",): lambda _, address: holds(address)}


def _named(_: CostBudget, name: str) -> Optional:
    return Optional(True, FORMATS[name]) if name in FORMATS else NONE


def _validate(budget: CostBudget, form: NamedFormat, text: str) -> Optional:
    budget.spend(len(text) // 10)
    problems = form.problems(text)
    return Optional(True, problems) if problems else NONE


def _format_constant(form: NamedFormat) -> Overloads:
    return {(): lambda _: form}


_S, _IP, _CIDR, _U = ("string",), ("net.IP",), ("net.CIDR",), ("kubernetes.URL",)

FUNCTIONS: Mapping[str, Overloads] = {
    "ip": {_S: _address, _CIDR: lambda _, network: network.address},
    "isIP": {_S: _valid(Address.parse)},
    "ip.isCanonical": {_S: _is_canonical},
    "family": {_IP: lambda _, address: address.raw.version},
    "isUnspecified": _address_test(lambda address: address.raw.is_unspecified),
    "isLoopback": _address_test(lambda address: address.raw.is_loopback),
    "isLinkLocalMulticast": _address_test(is_link_local_multicast),
    "isLinkLocalUnicast": _address_test(is_link_local),
    "isGlobalUnicast": _address_test(is_global_unicast),
    "cidr": {_S: _network},
    "isCIDR": {_S: _valid(Network.parse)},
    "containsIP": {
        (*_CIDR, *_IP): lambda _, network, address: network.contains(address),
        (*_CIDR, *_S): lambda budget, network, text: network.contains(_address(budget, text)),
    },
    "containsCIDR": {
        (*_CIDR, *_CIDR): _contains,
        (*_CIDR, *_S): lambda budget, network, text: _contains(budget, network, _network(budget, text)),
    },
    "masked": {_CIDR: lambda _, network: network.masked},
    "isMask": {_CIDR: lambda _, network: network.masked == network},
    "prefixLength": {_CIDR: lambda _, network: network.bits},
    "url": {_S: _parsed(Url.parse)},
    "isURL": {_S: lambda _, text: not urls.invalid(text)},
    "getScheme": {_U: lambda _, url: urls.text(url.scheme)},
    "getHost": {_U: lambda _, url: urls.text(url.host)},
    "getHostname": {_U: lambda _, url: urls.text(url.hostname)},
    "getPort": {_U: lambda _, url: urls.text(url.port)},
    "getEscapedPath": {_U: lambda _, url: urls.text(url.escaped_path)},
    "getQuery": {_U: lambda _, url: url.parameters},
    "format.named": {_S: _named},
    "validate": {("kubernetes.NamedFormat", *_S): _validate},
    **{f"format.{name}": _format_constant(form) for name, form in FORMATS.items()},
}
TEXTS: Overloads = {
    _IP: lambda _, address: str(address),
    _CIDR: lambda _, network: str(network),
}
"""``string()`` of addresses and networks."""
