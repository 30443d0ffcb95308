"""Which addresses of the internet tools may connect to: decided by arithmetic on the address alone.

Everything that a registry of IANA keeps from the public internet is refused, and so is every form
of IPv6 that carries an IPv4 address through a translator or a tunnel, unless it is a public one
behind the well-known prefix of NAT64, which networks without IPv4 use for the whole internet. What
is listed by hand is public by its number, but answers with the secrets of a cloud's machines.
"""

from __future__ import annotations

import ipaddress
import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

_V4_REFUSED = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier-grade NAT, and the metadata service of Alibaba Cloud
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # the wire server of Azure
            "169.254.0.0/16",  # link-local, and the metadata services of most clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments, and the metadata service of Oracle Cloud
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_V6_GLOBAL = IPv6Network("2000::/3")
"""All that was ever assigned to the public internet; the rest is refused unnamed."""
_V6_REFUSED = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",  # AS112
            "3ffe::/16",  # the former 6bone
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = re.compile(r"[0-9a-f]{16}0[02]005efe[0-9a-f]{8}")
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|\d+)\Z")


def is_public(address: str) -> bool:
    """Whether `address`, as a resolver gives it, is one of the public internet."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv4Address):
        return _is_public_v4(found)
    if found.scope_id is not None:
        return False
    if found in _NAT64:
        return _is_public_v4(IPv4Address(int(found) & 0xFFFFFFFF))
    return _is_public_v6(found)


def _is_public_v4(address: IPv4Address) -> bool:
    return not any(address in network for network in _V4_REFUSED)


def _is_public_v6(address: IPv6Address) -> bool:
    if address not in _V6_GLOBAL or any(address in network for network in _V6_REFUSED):
        return False
    return not _ISATAP.fullmatch(f"{int(address):032x}")


def canonical_host(host: str) -> str:
    """Return the host of a URL as it is looked up: in ASCII, lower case, without the final dot.

    Raises `ValueError` for what is no host's name, and for every way to write an IPv4 address but
    the usual one: programs do not agree on what 0177.1 or 2130706433 means.
    """
    if ":" in host:
        return str(IPv6Address(host))
    name = host.encode("idna").decode("ascii").lower().removesuffix(".")
    if not re.fullmatch(r"[a-z0-9._-]+", name) or ".." in name:
        raise ValueError(f"{host} is no host's name")
    if _NUMERIC.match(name.rpartition(".")[2]):
        return str(IPv4Address(name))
    return name
