"""Secrets are removed wherever they stand, well-formed or not; nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.config.fields import duplicate, invalid, not_supported
from stowplan.redaction import REDACTED, redact, redact_text, redact_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host:6443/path", "https://host:6443/path"),
        ("https://user:secret@host:1/x", "https://user:xxxxx@host:1/x"),
        ("https://:secret@host", "https://:xxxxx@host"),
        ("https://secret@host", "https://xxxxx@host"),
        ("https://host/x?token=secret", "https://host/x?xxxxx"),
        ("https://host/x#secret", "https://host/x#xxxxx"),
        ("https://user:secret@host?secret#secret", "https://user:xxxxx@host?xxxxx"),
        # Not escaped, as they come out of password managers.
        ("https://user:se/cret@host", "https://user:xxxxx@host"),
        ("https://user:1/secret@host", "https://user:xxxxx@host"),
        ("https://user:se?cr#et@host/x", "https://user:xxxxx@host/x"),
        ("https://user:secret@secret@[::1]:80", "https://user:xxxxx@[::1]:80"),
        ("https://user:se cret@host", "https://user:xxxxx@host"),
        ("user:secret@host:80", "user:xxxxx@host:80"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert redact_url(url) == shown


def test_urls_in_a_text_are_redacted_and_the_rest_stays() -> None:
    text = "407 from 'http://u:secret@proxy:1', mail a@b, see https://host/x"
    expected = "407 from 'http://u:xxxxx@proxy:1', mail a@b, see https://host/x"
    assert redact_text(text) == expected


@pytest.mark.parametrize(
    "name",
    [
        *("keyData", "certData", "caData", "client-key-data", "certificate-authority-data"),
        *("password", "dbPassword", "passwd", "token", "bearer_token", "clientSecret"),
        *("credentials", "apiKey", "api_key", "privateKey", "authorization", "PASSWORD"),
    ],
)
def test_values_are_hidden_by_their_name(name: str) -> None:
    for value in ("secret", 12345, 0, ["secret"], {"inner": "secret"}):
        assert "secret" not in str(redact({name: value}))
    assert redact({name: 12345}) == {name: REDACTED}
    assert redact({name: ""}) == {name: ""}, "what is not set is not hidden"


def test_what_is_no_secret_stays() -> None:
    tree: dict[str, Any] = {
        "keyFile": "/etc/key",
        "tokenFile": "/etc/token",
        "topologyKey": "zone",
        "weight": 3,
        "ignorable": True,
        "urlPrefix": "https://host:80/scheduler",
        "profiles": [{"schedulerName": "a@b"}],
        "nothing": None,
    }
    assert redact(tree) == tree


def test_values_in_error_messages_are_redacted() -> None:
    for error in (
        invalid("extenders[0].urlPrefix", "user:secret@host", "must be a URL"),
        invalid("extenders[0].tlsConfig.keyData", "secret", "not base64"),
        invalid("profiles[0].pluginConfig.args", {"token": "secret"}, "must be the same"),
        duplicate("extenders[0].tlsConfig.keyData[0]", "secret"),
        not_supported("x.password", "secret", ["a"]),
    ):
        assert "secret" not in str(error)
