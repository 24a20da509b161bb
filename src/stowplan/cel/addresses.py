"""IP addresses and networks: `cidr("10.0.0.0/8").containsIP(ip("10.1.2.3"))`.

Parsed as Go's `net/netip` does, without zones and IPv4-mapped IPv6 addresses, which Kubernetes
rejects. Python's `ipaddress` accepts other texts and has other messages, so it is used for printing
only.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

from stowplan.cel.declarations import FUNCTIONS
from stowplan.cel.errors import Failure, no_such_overload
from stowplan.cel.go_text import quoted
from stowplan.cel.values import MAX_INT, Opaque, Value

_define = FUNCTIONS.overload
_IP, _CIDR = "net.IP", "net.CIDR"
_GROUP = re.compile(r"[0-9a-fA-F]*")
_MAPPED = 0xFFFF


class AddressError(ValueError):
    """The text is not an address; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Address(Opaque):
    """An address as a number of 32 or 128 bits."""

    number: int
    bits: int

    type_name = _IP
    go_type = "netip.Addr"

    @property
    def cost_size(self) -> int:
        return self.bits // 8

    @property
    def is_mapped(self) -> bool:
        return self.bits == 128 and self.number >> 32 == _MAPPED

    def key(self) -> Value:
        return self

    def __str__(self) -> str:
        of = ipaddress.IPv4Address if self.bits == 32 else ipaddress.IPv6Address
        return str(of(self.number))


@dataclass(frozen=True, slots=True)
class Network(Opaque):
    address: Address
    length: int

    type_name = _CIDR
    go_type = "netip.Prefix"

    @property
    def cost_size(self) -> int:
        return -(-self.length // 8)

    def key(self) -> Value:
        return self

    def contains(self, other: Address) -> bool:
        return self.address.bits == other.bits and self._prefix(self.address) == self._prefix(other)

    def _prefix(self, address: Address) -> int:
        return address.number >> (address.bits - self.length)

    def masked(self) -> Network:
        bits = self.address.bits
        return Network(
            Address(self._prefix(self.address) << (bits - self.length), bits), self.length
        )

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"


def parse_address(text: str) -> tuple[Address, str]:
    """Go's netip.ParseAddr: the address and its zone. Raises AddressError."""
    for char in text:
        if char == ".":
            return Address(_ipv4(text, text), 32), ""
        if char == ":":
            return _ipv6(text)
        if char == "%":
            raise _wrong(text, "missing IPv6 address")
    raise _wrong(text, "unable to parse IP")


def _wrong(text: str, message: str, at: str = "") -> AddressError:
    where = f" (at {quoted(at)})" if at else ""
    return AddressError(f"ParseAddr({quoted(text)}): {message}{where}")


def _ipv4(text: str, part: str) -> int:
    number, dots, digits, value = 0, 0, 0, 0
    for index, char in enumerate(part):
        if "0" <= char <= "9":
            if digits == 1 and value == 0:
                raise _wrong(text, "IPv4 field has octet with leading zero")
            value = value * 10 + int(char)
            digits += 1
            if value > 255:
                raise _wrong(text, "IPv4 field has value >255")
        elif char == ".":
            if index in (0, len(part) - 1) or part[index - 1] == ".":
                raise _wrong(text, "IPv4 field must have at least one digit", part[index:])
            if dots == 3:
                raise _wrong(text, "IPv4 address too long")
            number, dots, digits, value = number << 8 | value, dots + 1, 0, 0
        else:
            raise _wrong(text, "unexpected character", part[index:])
    if dots < 3:
        raise _wrong(text, "IPv4 address too short")
    return number << 8 | value


def _ipv6(text: str) -> tuple[Address, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _wrong(text, "zone must be a non-empty string")
    groups: list[int] = []
    gap = -1
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
        if not rest:
            return Address(0, 128), zone
    while len(groups) < 8:
        digits = _hex_digits(text, rest)
        if rest[len(digits) : len(digits) + 1] == ".":
            if gap < 0 and len(groups) != 6:
                raise _wrong(
                    text,
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                )
            if len(groups) > 6:
                raise _wrong(
                    text,
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    rest,
                )
            groups += divmod(_ipv4(text, rest), 1 << 16)
            rest = ""
            break
        groups.append(int(digits, 16))
        rest = rest[len(digits) :]
        if not rest:
            break
        if rest[0] != ":":
            raise _wrong(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _wrong(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if gap >= 0:
                raise _wrong(text, "multiple :: in address", rest)
            gap, rest = len(groups), rest[1:]
            if not rest:
                break
    if rest:
        raise _wrong(text, "trailing garbage after address", rest)
    if len(groups) == 8 and gap >= 0:
        raise _wrong(text, "the :: must expand to at least one field of zeros")
    if len(groups) < 8:
        if gap < 0:
            raise _wrong(text, "address string too short")
        groups[gap:gap] = [0] * (8 - len(groups))
    number = 0
    for group in groups:
        number = number << 16 | group
    return Address(number, 128), zone


def _hex_digits(text: str, rest: str) -> str:
    match = _GROUP.match(rest)
    assert match is not None
    if len(match[0]) > 4:
        raise _wrong(text, "each group must have 4 or less digits", rest)
    if not match[0]:
        raise _wrong(text, "each colon-separated field must have at least one digit", rest)
    return match[0]


def _allowed_address(text: str) -> Address:
    try:
        address, zone = parse_address(text)
    except AddressError as error:
        raise AddressError(
            f"IP Address {quoted(text)} parse error during conversion from string: {error}"
        ) from None
    if zone:
        raise AddressError(f"IP address {quoted(text)} with zone value is not allowed")
    if address.is_mapped:
        raise AddressError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return address


def _allowed_network(text: str) -> Network:
    address_text, slash, length = text.rpartition("/")
    if not slash:
        raise _wrong_network(text, "no '/'")
    try:
        address, zone = parse_address(address_text)
    except AddressError as error:
        raise _wrong_network(text, str(error)) from None
    if zone:
        raise _wrong_network(text, "IPv6 zones cannot be present in a prefix")
    if not re.fullmatch(r"[0-9]|[1-9][0-9]{1,18}", length) or int(length) > MAX_INT:
        raise _wrong_network(text, f"bad bits after slash: {quoted(length)}")
    if int(length) > address.bits:
        raise _wrong_network(text, "prefix length out of range")
    if address.is_mapped:
        raise AddressError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return Network(address, int(length))


def _wrong_network(text: str, message: str) -> AddressError:
    return AddressError(
        "network address parse error during conversion from string: "
        f"netip.ParsePrefix({quoted(text)}): {message}"
    )


@_define("ip", "string_to_ip", f"(string) -> {_IP}")
def to_address(text: str) -> Value:
    try:
        return _allowed_address(text)
    except AddressError as error:
        return Failure(str(error))


@_define("cidr", "string_to_cidr", f"(string) -> {_CIDR}")
def to_network(text: str) -> Value:
    try:
        return _allowed_network(text)
    except AddressError as error:
        return Failure(f"network address parse error during conversion from string: {error}")


@_define("ip.isCanonical", "ip_is_canonical", "(string) -> bool")
def is_canonical(text: str) -> Value:
    address = to_address(text)
    return address if isinstance(address, Failure) else str(address) == text


@_define("containsIP", "cidr_contains_ip_string", f"{_CIDR}.(string) -> bool")
def contains_text(network: Network, text: str) -> Value:
    address = to_address(text)
    return network.contains(address) if isinstance(address, Address) else no_such_overload()


@_define("containsCIDR", "cidr_contains_cidr", f"{_CIDR}.({_CIDR}) -> bool")
def contains_network(network: Network, other: Network) -> Value:
    return network.length <= other.length and network.contains(other.address)


@_define("containsCIDR", "cidr_contains_cidr_string", f"{_CIDR}.(string) -> bool")
def contains_network_text(network: Network, text: str) -> Value:
    other = to_network(text)
    return contains_network(network, other) if isinstance(other, Network) else other


def _within(*texts: str) -> Callable[[Address], bool]:
    networks = [_allowed_network(text) for text in texts]
    return lambda address: any(network.contains(address) for network in networks)


_is_unspecified = _within("0.0.0.0/32", "::/128")
_is_loopback = _within("127.0.0.0/8", "::1/128")
_is_link_local = _within("169.254.0.0/16", "fe80::/10")
_is_multicast = _within("224.0.0.0/4", "ff00::/8")
_is_broadcast = _within("255.255.255.255/32")


def _is_link_local_multicast(address: Address) -> bool:
    if address.bits == 32:
        return address.number >> 8 == 0xE00000
    return address.number >> 112 & 0xFF0F == 0xFF02


def _is_global(address: Address) -> bool:
    others = (_is_unspecified, _is_broadcast, _is_loopback, _is_multicast, _is_link_local)
    return not any(test(address) for test in others)


for _name, _overload, _signature, _run in (
    ("isIP", "is_ip", "(string) -> bool", lambda text: isinstance(to_address(text), Address)),
    ("isCIDR", "is_cidr", "(string) -> bool", lambda text: isinstance(to_network(text), Network)),
    ("string", "ip_to_string", f"({_IP}) -> string", str),
    ("string", "cidr_to_string", f"({_CIDR}) -> string", str),
    ("family", "ip_family", f"{_IP}.() -> int", lambda one: 4 if one.bits == 32 else 6),
    ("isUnspecified", "ip_is_unspecified", f"{_IP}.() -> bool", _is_unspecified),
    ("isLoopback", "ip_is_loopback", f"{_IP}.() -> bool", _is_loopback),
    ("isLinkLocalUnicast", "ip_is_link_local_unicast", f"{_IP}.() -> bool", _is_link_local),
    (
        "isLinkLocalMulticast",
        "ip_is_link_local_multicast",
        f"{_IP}.() -> bool",
        _is_link_local_multicast,
    ),
    ("isGlobalUnicast", "ip_is_global_unicast", f"{_IP}.() -> bool", _is_global),
    ("containsIP", "cidr_contains_ip_ip", f"{_CIDR}.({_IP}) -> bool", Network.contains),
    ("ip", "cidr_ip", f"{_CIDR}.() -> {_IP}", lambda one: one.address),
    ("prefixLength", "cidr_prefix_length", f"{_CIDR}.() -> int", lambda one: one.length),
    ("masked", "cidr_masked", f"{_CIDR}.() -> {_CIDR}", Network.masked),
):
    _define(_name, _overload, _signature)(_run)
