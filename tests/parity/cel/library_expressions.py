"""Random texts for the functions that read addresses, networks, URLs, names and format strings.

Most are valid, or were before one character was changed.
"""

from __future__ import annotations

import random

ADDRESSES = (
    "10.1.2.3", "0.0.0.0", "255.255.255.255", "127.0.0.1", "169.254.1.1", "224.0.0.1", "::", "::1",
    "fe80::1", "ff02::1", "2001:db8::68", "2001:DB8::68", "::1.2.3.4", "::ffff:1.2.3.4",
    "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:1.2.3.4", "fe80::1%eth0", "1.2.3", "01.2.3.4", "1:2::3::4",
    "12345::", "1.2.3.4.5", "a.b.c.d", "%eth0", "::%", "1:2:3:4:5:6:7::", "1::2:", "", "300.1.1.1",
)  # fmt: skip
LENGTHS = (
    "/0",
    "/8",
    "/24",
    "/32",
    "/33",
    "/64",
    "/128",
    "/129",
    "/08",
    "/",
    "",
    "/x",
    "/-1",
    "/1 ",
)
URLS = (
    "https://example.com:8080/a/b?q=1&q=2&r=%20x+y#top", "http://user:p%40ss@[::1]:80/a%2Fb",
    "/only/path?x", "http://", "http:", "mailto:a@b", "//host/path", "///x", "http://a b/", "*",
    "http://h/%zz", "http://h/a?%zz=1&b=;&c", "http://[::1", "http://[1.2.3.4]/", "x/y:z", "",
    "http://[fe80::1%25eth0]:9/", "http://h:x/", "ftp://h:1:2/", "http://h:1:2/", ":x", "HTTP://H/",
    "http://h/ä?ä=ü#ö", "http://h/%ff?%ff=%FF", "http://h/\\\"<>", "http://@h/?", "http://h?a=1",
    "http://%41/", "http://%e4/", "h+t.p-1://x/!$&'()*+,;=:@[]", "1http://x/", "http://h/#%zz",
    "/a?b#%zz", "http://u ser@h/", "http://h]/", "//x y/?q", "//a:b:c/", "http://h//a//b/../c",
)  # fmt: skip
NAMES = (
    "my-name", "My.Name", "a.b-c.d", "-a", "a-", "a--", "-", "1a", "", "example.com/Name", "/n",
    "p/", "a/b/c", "x" * 64, "x" * 254, "ä", "123e4567-e89b-12d3-a456-426614174000", "aGVsbG8=",
    "YQ=", "2024-02-29", "2023-02-29", "2024-1-1", "0000-01-01", "2024-01-01T10:00:00Z", "Ab_c.d-E",
    "2024-01-01t23:59:59.5+01:00", "2024-01-01T24:00:00Z", "2024-01-01T10:00:00Ztail", "http://a/",
)  # fmt: skip
FORMATS = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix",
    "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date",
    "datetime",
)  # fmt: skip
TESTS = (
    "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast",
)  # fmt: skip
PARTS = ("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath")
CLAUSES = {
    "%s": ("int", "string", "double", "list", "attribute", "map", "bool"),
    "%d": ("int", "int", "attribute"),
    "%f": ("double", "double", "attribute"),
    "%e": ("double", "double", "string"),
    "%b": ("int", "bool"),
    "%x": ("int", "string"),
    "%X": ("int", "string"),
    "%o": ("int", "double"),
    "%.2f": ("double",),
    "%.0f": ("double",),
    "%.300f": ("double",),
    "%.40000f": ("double",),
    "%.20e": ("double",),
    "%.99999999f": ("double",),
    "%%": (),
    "%q": ("int",),
    "%.s": ("int",),
    "%.9999999999999999999f": ("double",),
}
DOUBLES = (
    "1234567.125", "-0.0", "1e21", "1e-7", "123456.75", "-1e300", "0.1", "2.5e-300", "9.9999995",
    "1.0000005", "1e22", "double('NaN')", "double('-Inf')", "1.2345675",
)  # fmt: skip


def changed(draw: random.Random, text: str) -> str:
    """The text, or one with a character changed, added or left out."""
    if not text or draw.random() < 0.7:
        return text
    at = draw.randrange(len(text))
    other: str = draw.choice(("", *".:/%-[]@#?&=aF0 \täß"))
    return text[:at] + other + text[at + draw.randint(0, 1) :]
