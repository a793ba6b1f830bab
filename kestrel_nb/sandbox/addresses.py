"""Which IP addresses a request made for a model may go to: an own table, since ``ipaddress`` leaves gaps.

The table holds every block of IANA's two special-purpose registries (iana-ipv4-special-registry and
iana-ipv6-special-registry, as of 2025-10-09), multicast, and where clouds keep the metadata and the credentials of a
machine. Of IPv6 only 2000::/3 is in use for ordinary hosts (IANA, ipv6-address-space), so everything else is refused,
known or not. An IPv4 address that stands inside an IPv6 address is judged as well.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Networks = tuple[IPv4Network | IPv6Network, ...]


def _networks(*texts: str) -> Networks:
    return tuple(ip_network(text) for text in texts)


# Always refused, also where private networks are allowed: these hand out the keys of the machine.
METADATA: Final = _networks(
    "169.254.169.254",  # AWS, Azure, Google, Oracle, DigitalOcean, OpenStack and others
    "169.254.170.2",  # AWS ECS, task credentials
    "169.254.170.23",  # AWS EKS, pod identity
    "169.254.0.23",  # Tencent
    "169.254.42.42",  # Scaleway
    "100.100.100.200",  # Alibaba
    "168.63.129.16",  # Azure, the wire server: an address of the public space
    "192.0.0.192",  # Oracle, its older form
    "fd00:ec2::254",  # AWS
    "fd00:ec2::23",  # AWS EKS, pod identity
    "fd20:ce::254",  # Google
    "fd00:42::42",  # Scaleway
    "fd00:c1::a9fe:a9fe",  # Oracle
    "fe80::a9fe:a9fe",  # OpenStack
)
# Refused unless private networks are allowed.
PRIVATE: Final[dict[str, Networks]] = {
    "a loopback address": _networks("127.0.0.0/8", "::1"),
    "a private network address": _networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    "an address of a carrier's private network": _networks("100.64.0.0/10"),  # RFC 6598
    "a link-local address": _networks("169.254.0.0/16", "fe80::/10"),
}
# Always refused: no service is meant to be there.
SPECIAL: Final[dict[str, Networks]] = {
    'an address that means "this host" or "this network"': _networks("0.0.0.0/8", "::"),
    "a multicast address": _networks("224.0.0.0/4", "ff00::/8"),
    "an address kept for documentation": _networks(
        *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")
    ),
    "an address kept for benchmarks": _networks("198.18.0.0/15", "2001:2::/48"),
    "a 6to4 relay address": _networks("192.88.99.0/24"),  # RFC 7526
    "an address for special protocols": _networks(
        "192.0.0.0/24",  # IETF protocol assignments
        *("192.31.196.0/24", "192.175.48.0/24", "2620:4f:8000::/48"),  # AS112
        "192.52.193.0/24",  # AMT
        "64:ff9b:1::/48",  # RFC 8215: NAT64 for one network's own use
        "100::/64",  # discard only, RFC 6666
        "100:0:0:1::/64",  # dummy prefix, RFC 9780
        "2001:1::/32",  # anycast of single services
        "2001:3::/32",  # AMT
        "2001:4::/32",  # AS112, RFC 7535
        "5f00::/16",  # SRv6, RFC 9602
    ),
    "a reserved address": _networks("240.0.0.0/4", "fec0::/10", "3ffe::/16"),  # class E; RFC 3879; RFC 3701
}
# The identifiers of no host: ORCHID (RFC 4843), ORCHIDv2 (RFC 7343), DRIP (RFC 9374), and what IETF may still assign.
_ASSIGNMENTS = IPv6Network("2001::/23")
_TEREDO = IPv6Network("2001::/32")
_MAPPED, _NAT64 = IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96")  # RFC 4291, RFC 6052
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")  # RFC 8215
_COMPATIBLE, _TRANSLATED = IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96")  # RFC 4291, RFC 2765
_UNICAST = IPv6Network("2000::/3")
_ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214: the upper half of the interface identifier


def refusal(address: str, *, allow_private: bool = False) -> str | None:
    """Why the IP address must not be dialled, as the end of "it is ...", or None when it may.

    ``allow_private`` lets loopback, private, carrier and link-local addresses through; the metadata services of clouds
    and every other special block stay refused. Whatever is no plain IP address is refused, a zone (``%eth0``) too.
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return "no IP address"
    if isinstance(ip, IPv6Address) and ip.scope_id is not None:
        return "an address with a zone, which belongs to one machine"
    return _judged(ip, allow_private)


def is_this_machine(address: str) -> bool:
    """Whether the IP address is one of this machine's own, also a public one: its services may trust it.

    The system is asked which address it would speak from; nothing is sent.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # any port: UDP has no handshake
            return bool(probe.getsockname()[0] == address)
    except OSError:  # no way there at all
        return False


def _judged(ip: Address, allow_private: bool) -> str | None:
    for inner in _inside(ip):
        if reason := _judged(inner, allow_private):
            return reason
    if _within(ip, METADATA):
        return "the metadata service of a cloud"
    for reason, networks in PRIVATE.items():
        if _within(ip, networks):
            return None if allow_private else reason
    for reason, networks in SPECIAL.items():
        if _within(ip, networks):
            return reason
    return _odd_form(ip) if isinstance(ip, IPv6Address) else None


def _odd_form(ip: IPv6Address) -> str | None:
    if ip in _MAPPED or ip in _NAT64 or ip in _TEREDO:
        return None  # stands for an IPv4 address, which was judged
    if ip in _ASSIGNMENTS:
        return "an address for special protocols"
    return None if ip in _UNICAST else "a reserved address"


def _inside(ip: Address) -> Iterator[IPv4Address]:
    """Every IPv4 address that ``ip`` carries and a router or this host may unwrap."""
    if not isinstance(ip, IPv6Address) or int(ip) <= 1:
        return
    value = int(ip)
    if ip.sixtofour:
        yield ip.sixtofour
    if ip.teredo:
        yield from ip.teredo  # the server and the client
    if ip in _LOCAL_NAT64:
        yield IPv4Address((value >> 64 & 0xFFFF) << 16 | value >> 40 & 0xFFFF)  # RFC 6052: bits 64 to 71 are skipped
    ends = any(ip in network for network in (_MAPPED, _NAT64, _LOCAL_NAT64, _COMPATIBLE, _TRANSLATED))
    if ends or value >> 32 & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(value & 0xFFFFFFFF)


def _within(ip: Address, networks: Networks) -> bool:
    return any(ip.version == network.version and ip in network for network in networks)
