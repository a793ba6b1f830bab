"""Which addresses may be dialled: every block of the registries, everything around them, and every disguise."""

import ipaddress
import socket
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel_nb.sandbox.addresses import METADATA, PRIVATE, SPECIAL, is_this_machine, refusal


def words(text: str) -> list[str]:
    return text.split()


# IANA's special-purpose registries, multicast and the reserved IPv6 space, written down a second time.
REFUSED = words("""
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24
192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4
240.0.0.0/4 255.255.255.255/32 168.63.129.16/32
::/128 ::1/128 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32
2001:4:112::/48 2001:10::/28 2001:20::/28 2001:30::/28 2001:db8::/32 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7
fe80::/10 fec0::/10 ff00::/8 200::/7 400::/6 800::/5 1000::/4 4000::/3 6000::/3 8000::/3 a000::/3 c000::/3 e000::/4
f000::/5 f800::/6 fe00::/9 3ffe::/16 ::7f00:1/128 ::ffff:0:808:808/128
""")
ALLOWED = words("""
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 192.0.3.0 192.88.98.255 192.88.100.0
192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 203.0.112.255 203.0.114.0 223.255.255.255
168.63.129.15 2606:4700:4700::1111 2001:4860:4860::8888 2001:200::1 2a00:1450:4001::1 2620:4f:8001::1 2400::1
3ffd::1 2001:db7::1 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1
""")
V4 = st.integers(0, 2**32 - 1).map(IPv4Address)
REFUSED_V4 = st.sampled_from([n for n in map(ipaddress.ip_network, REFUSED) if n.version == 4]).flatmap(
    lambda network: st.integers(int(network[0]), int(network[-1])).map(IPv4Address)
)
PREFIX = st.integers(0, 2**29 - 1).map(lambda number: (0x2400 << 112) | (number << 64))  # ordinary unicast


def disguises(inner: IPv4Address, noise: int) -> list[IPv6Address]:
    """Every IPv6 form that a host or a router may unwrap to ``inner``."""
    number, low = int(inner), noise & (2**64 - 1)
    return [
        IPv6Address(0xFFFF << 32 | number),  # mapped
        IPv6Address(0xFFFF << 48 | number),  # translated
        IPv6Address(0x64FF9B << 96 | number),  # NAT64
        IPv6Address(0x64FF9B0001 << 80 | (noise & 0xFFFF) << 32 | number),  # NAT64 of one network, at the end
        IPv6Address(0x64FF9B0001 << 80 | number >> 16 << 64 | (number & 0xFFFF) << 40),  # and by RFC 6052 for a /48
        IPv6Address(0x2002 << 112 | number << 80 | noise & (2**80 - 1)),  # 6to4
        IPv6Address(0x20010000 << 96 | number << 64 | low),  # Teredo, the server
        IPv6Address(0x20010000 << 96 | 0x08080808 << 64 | (low & 0xFFFFFFFF) << 32 | number ^ 0xFFFFFFFF),  # its client
        IPv6Address(0x2400 << 112 | 0x5EFE << 32 | number),  # ISATAP
        IPv6Address(0x2400 << 112 | 0x02005EFE << 32 | number),
    ]


@pytest.mark.parametrize("block", REFUSED)
def test_a_special_block_is_refused_from_end_to_end(block: str) -> None:
    network = ipaddress.ip_network(block)
    for address in (network[0], network[-1], network[network.num_addresses // 2]):
        assert refusal(str(address))


@pytest.mark.parametrize("address", ALLOWED)
def test_an_ordinary_address_is_allowed(address: str) -> None:
    assert refusal(address) is None


@given(REFUSED_V4, st.integers(0, 2**80 - 1))
def test_no_disguise_of_a_refused_address_is_allowed(inner: IPv4Address, noise: int) -> None:
    assert refusal(str(inner))
    for form in disguises(inner, noise):
        assert refusal(str(form)), form


@given(V4, st.integers(0, 2**80 - 1))
def test_mapped_nat64_and_6to4_forms_are_judged_as_what_they_carry(inner: IPv4Address, noise: int) -> None:
    forms = disguises(inner, noise)
    for form in (forms[0], forms[2], forms[5]):
        assert bool(refusal(str(form))) == bool(refusal(str(inner)))
        assert bool(refusal(str(form), allow_private=True)) == bool(refusal(str(inner), allow_private=True))


@given(st.one_of(V4, st.integers(0, 2**128 - 1).map(IPv6Address), PREFIX.map(IPv6Address)))
def test_nothing_that_python_calls_special_is_allowed(address: IPv4Address | IPv6Address) -> None:
    carrier = any(address in ipaddress.ip_network(block) for block in ("2001::/32", "::ffff:0:0/96", "64:ff9b::/96"))
    if not address.is_global and not carrier:
        assert refusal(str(address))


@pytest.mark.parametrize("network", METADATA, ids=str)
def test_metadata_services_stay_refused_where_private_networks_are_allowed(network: ipaddress.IPv4Network) -> None:
    assert "metadata" in (refusal(str(network[0]), allow_private=True) or "")
    if network.version == 4:
        for form in disguises(network[0], 7):
            assert refusal(str(form), allow_private=True)


@pytest.mark.parametrize("reason", PRIVATE)
def test_private_networks_can_be_allowed(reason: str) -> None:
    for network in PRIVATE[reason]:
        for address in (str(network[0]), str(network[-1])):
            assert refusal(address) == reason
            assert refusal(address, allow_private=True) is None


@pytest.mark.parametrize("reason", SPECIAL)
def test_other_special_blocks_can_not(reason: str) -> None:
    for network in SPECIAL[reason]:
        assert refusal(str(network[0]), allow_private=True)
        assert refusal(str(network[-1]), allow_private=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        "2130706433",
        "0x7f.1",
        "127.1",
        "0177.0.0.1",
        "1.2.3.4 ",
        "[::1]",
        "fe80::1%eth0",
        "::1%lo",
        "8.8.8.8/32",
    ],
)
def test_what_is_no_plain_address_is_refused(text: str) -> None:
    assert refusal(text)
    assert refusal(text, allow_private=True)


@given(st.text())
def test_no_text_raises(text: str) -> None:
    refusal(text)


def test_the_addresses_of_this_machine_are_known() -> None:
    assert is_this_machine("127.0.0.1")
    assert not is_this_machine("93.184.216.34")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):  # where there is a way out
        probe.connect(("93.184.216.34", 9))
        assert is_this_machine(probe.getsockname()[0])
