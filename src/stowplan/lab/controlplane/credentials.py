"""Keys, tokens and kubeconfig files of a throw-away control plane.

Called by `ControlPlane`. Each control plane gets its own credentials, in its private directory; no
other server accepts them. Standard library only, so the signing key is encoded by hand: see
`service_account_key`.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass, field

ADMIN = "stowplan-admin"
KUBE_SCHEDULER = "system:kube-scheduler"

# SEC 1 ECPrivateKey: version 1, the 32 octets of the key, and the object id of curve P-256.
_EC_KEY_HEAD = bytes.fromhex("30310201010420")
_EC_KEY_CURVE = bytes.fromhex("a00a06082a8648ce3d030107")


@dataclass(frozen=True)
class TokenUser:
    """A user of the API server with a bearer token."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))


def service_account_key() -> str:
    """A fresh private key in PEM, with which kube-apiserver signs service account tokens.

    An elliptic curve key needs no arithmetic to make: any 32 random octets below the order of the
    curve are one, and the reader derives the public half. P-256's order starts with 32 one bits, so
    a first octet below 255 keeps us under it; a key of zero cannot come out of a random generator.
    """
    key = bytes([secrets.randbelow(255)]) + secrets.token_bytes(31)
    body = base64.b64encode(_EC_KEY_HEAD + key + _EC_KEY_CURVE).decode()
    lines = [body[start : start + 64] for start in range(0, len(body), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""])


def token_file(users: list[TokenUser]) -> str:
    """The text of kube-apiserver's ``--token-auth-file``: token, name, id and groups per line."""
    return "".join(
        f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"\n' for user in users
    )


def kubeconfig(url: str, certificate_authority: bytes, user: str, token: str) -> str:
    """A kubeconfig with the CA inside, so that it can be copied anywhere on the machine."""
    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: stowplan
  cluster:
    server: {url}
    certificate-authority-data: {base64.b64encode(certificate_authority).decode()}
users:
- name: "{user}"
  user:
    token: {token}
contexts:
- name: stowplan
  context:
    cluster: stowplan
    user: "{user}"
    namespace: default
current-context: stowplan
"""
