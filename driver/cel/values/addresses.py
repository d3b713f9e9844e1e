"""IP addresses and networks as in Go's net/netip, with Kubernetes' restrictions: no zones, no IPv4 in IPv6."""

import ipaddress
import re
from dataclasses import dataclass

Raw = ipaddress.IPv4Address | ipaddress.IPv6Address
_LINK_LOCAL = ipaddress.ip_network("169.254.0.0/16"), ipaddress.ip_network("fe80::/10")
_LOCAL_MULTICAST = ipaddress.ip_network("224.0.0.0/24")
_BROADCAST = ipaddress.ip_address("255.255.255.255")
_BITS = re.compile(r"0|[1-9]\d{0,2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """``ip("...")``."""

    raw: Raw

    @classmethod
    def parse(cls, text: str) -> "Address":
        """The address written in ``text``.

        Raises:
            ValueError: it is not an address, or one that Kubernetes does not allow.
        """
        if "%" in text:
            raise ValueError(f"not an IP address: {text!r}; zones are not allowed")
        raw = ipaddress.ip_address(text)
        if isinstance(raw, ipaddress.IPv6Address) and raw.ipv4_mapped is not None:
            raise ValueError(f"not an IP address: {text!r}; IPv4 addresses written as IPv6 are not allowed")
        return cls(raw)

    def __str__(self) -> str:
        return str(self.raw)


@dataclass(frozen=True, slots=True)
class Network:
    """``cidr("...")``: an address and the length of the prefix. The address may have bits set beyond the prefix."""

    address: Address
    bits: int

    @classmethod
    def parse(cls, text: str) -> "Network":
        """The network written in ``text``.

        Raises:
            ValueError: it is not a network, or one that Kubernetes does not allow.
        """
        start, slash, bits = text.rpartition("/")
        if not slash or not _BITS.fullmatch(bits):
            raise ValueError(f"not a network such as 10.0.0.0/8: {text!r}")
        address = Address.parse(start)
        if int(bits) > address.raw.max_prefixlen:
            raise ValueError(f"not a network: {text!r}; the longest prefix in bits is {address.raw.max_prefixlen}")
        return cls(address, int(bits))

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    @property
    def masked(self) -> "Network":
        """The network without the bits beyond the prefix."""
        return Network(Address(ipaddress.ip_network((self.address.raw, self.bits), strict=False)[0]), self.bits)

    def contains(self, address: Address) -> bool:
        """Whether ``address`` is in the network."""
        other = address.raw
        return other.version == self.address.raw.version and Network(address, self.bits).masked == self.masked


def is_link_local(address: Address) -> bool:
    """Whether it is a link-local unicast address."""
    return any(address.raw in network for network in _LINK_LOCAL)


def is_link_local_multicast(address: Address) -> bool:
    """Whether it is a link-local multicast address."""
    raw = address.raw
    return raw in _LOCAL_MULTICAST if raw.version == 4 else raw.packed[0] == 0xFF and raw.packed[1] & 0x0F == 2


def is_global_unicast(address: Address) -> bool:
    """Whether it is a global unicast address, as in Go: private networks count, link-local addresses do not."""
    raw = address.raw
    special = raw.is_unspecified or raw.is_loopback or raw.is_multicast or raw == _BROADCAST
    return not special and not is_link_local(address)
