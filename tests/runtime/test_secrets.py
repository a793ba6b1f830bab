"""Which values count as keys, and that no part of one is left in text or JSON."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel_nb.runtime.secrets import Masker, known_secrets, mask, mask_json

KEY = "sk-Ab1/cd+2=Ef~3 gh"


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "my_secret",
        "PGPASSWORD",
        "DB_PASS",
        "MYSQL_PWD",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "HTTP_AUTH",
        "AUTHORIZATION",
        "GOOGLE_CREDENTIALS",
        "SENTRY_DSN",
        "SSH_PASSPHRASE",
        "NPM_AUTHTOKEN",
        "LDAP_PASSWD",
        "apikey",
        "KESTREL_API_KEY_JANE_NAME",
    ],
)
def test_names_that_look_like_keys(name: str) -> None:
    assert known_secrets({name: "a1b2c3d4e5f6"}) == ("a1b2c3d4e5f6",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/usr/bin:/bin"),
        ("EDITOR", "vim-with-options"),
        ("GIT_AUTHOR_NAME", "Alice Example"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-abc/agent.1"),
        ("API_KEY_FILE", "/run/secrets/api"),
        ("API_KEY", "/home/someone/keys/api.pem"),
        ("TOKENIZERS_PARALLELISM", "disabled"),
        ("USE_TOKEN", "true"),
        ("MAX_TOKENS", "12345678"),
        ("AUTH_URL", "https://login.example.org/a"),
        ("AUTH", "required"),
        ("API_KEY", "short"),
        ("API_KEY", "********"),
        ("API_KEY", ""),
    ],
)
def test_what_is_no_secret(name: str, value: str) -> None:
    assert known_secrets({name: value}) == ()


def test_common_values_are_never_secrets() -> None:
    assert (
        known_secrets({"HOME": "alice-home", "USER": "alice-smith", "MY_KEY": "alice-home", "K_KEY": "alice-smith"})
        == ()
    )


def test_values_inside_values() -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n-----END PRIVATE KEY-----"
    found = known_secrets(
        {"DATABASE_URL": "postgres://u:p4ssw0rd!@h/db", "A_TOKEN": "Bearer abcdef123456", "S_KEY": pem}
    )
    assert {"p4ssw0rd!", "abcdef123456", "Bearer abcdef123456", pem, "MIIEvQIBADANBgkqhkiG9w0BAQ"} == set(found)
    assert known_secrets({"HTTPS_PROXY": "http://u:p%40ss-word@proxy:8080"}) == ("p%40ss-word", "p@ss-word")
    assert "MIIEvQ" not in mask("a line of it:\r\n  MIIEvQIBADANBgkqhkiG9w0BAQ", found)


@pytest.mark.parametrize(
    "form",
    [KEY, quote(KEY, safe=""), quote(KEY), quote_plus(KEY), "sk-Ab1%2fcd%2b2%3dEf~3%20gh"]
    + [json.dumps({KEY: KEY}), json.dumps(KEY).replace("/", "\\/"), repr(KEY)]
    + [base64.b64encode(b"x" * n + KEY.encode() + b"y" * m).decode() for n in range(4) for m in range(4)]
    + [base64.urlsafe_b64encode(KEY.encode()).decode().rstrip("=")]
    + [KEY.encode().hex(), f"x{KEY}y".encode().hex().upper()],
)
def test_every_form_is_masked(form: str) -> None:
    text = mask(f"before {form} after", [KEY])
    assert "***" in text
    assert text.startswith("before ")
    assert text.endswith(" after")
    inner = base64.b64encode(KEY.encode()).decode()[4:16]
    assert not any(part in text for part in ("sk-Ab1", "Ef~3", "Ef%7E3", "cd+2", "cd%2B2", inner))


@pytest.mark.parametrize("before", range(4))
def test_base64_in_lines_is_masked(before: int) -> None:
    long = "".join(f"{number:03}-{chr(97 + number % 26)}" for number in range(60))
    lines = base64.encodebytes(b"x" * before + long.encode()).decode()
    for text in (lines, lines.replace("\n", "\r\n"), json.dumps(lines), repr(lines)):
        masked = mask(text, [long])
        assert "***" in masked
        assert not [
            start for start in range(8, 240, 8) if base64.b64encode(long.encode()).decode()[start:][:12] in masked
        ]
        assert len(masked) < 20


@pytest.mark.parametrize("secret", ['quo"te\\back\nline1', "ünï-côdé-ключ", "a<b>&c'd\"e12", "%41%42-percent"])
def test_awkward_secrets(secret: str) -> None:
    for form in (
        secret,
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
        json.dumps(json.dumps(secret)),
        json.dumps(json.dumps(secret, ensure_ascii=False), ensure_ascii=False),
        repr(secret),
        quote(secret, safe=""),
    ):
        assert mask(form, [secret]).strip("\\\"'") == "***"


def test_the_longest_goes_first_so_that_no_tail_is_left() -> None:
    assert mask("abcdefgh-ijkl", ["abcdefgh", "abcdefgh-ijkl"]) == "***"
    assert mask("abcdefghabcdefgh", ["abcdefgh"]) == "******"


def test_nothing_to_hide_leaves_the_same_objects() -> None:
    text, data = "plain text", {"a": [1, {"b": "c"}], "t": ("x",)}
    for masker in (Masker([]), Masker([KEY])):
        assert masker.mask(text) is text
        assert masker.mask_json(data) is data


def test_json_is_masked_in_keys_and_depth_and_keeps_its_types() -> None:
    data = {"k": [{KEY: 1, "x": f"v {KEY}"}], "t": (KEY, 2), "n": None, "i": 123456789012, "f": 1.5, "b": True}
    got = mask_json(data, [KEY, "123456789012"])
    assert got == {"k": [{"***": 1, "x": "v ***"}], "t": ("***", 2), "n": None, "i": "***", "f": 1.5, "b": True}
    assert data["k"][0][KEY] == 1  # type: ignore[index]
    assert mask_json({"abcdefgh1": 1, "abcdefgh2": 2}, ["abcdefgh1", "abcdefgh2"]) == {"***": 1, "*** (2)": 2}


def test_the_masker_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "first-value-1")
    first = Masker.from_environment()
    assert first.mask("first-value-1") == "***"
    assert Masker.from_environment() is first
    monkeypatch.setenv("SOME_API_KEY", "second-value-2")
    assert Masker.from_environment().mask("first-value-1 second-value-2") == "first-value-1 ***"
    assert Masker.from_environment({"A_KEY": "given-value-3"}).secrets == ("given-value-3",)


@given(st.text(min_size=8, max_size=30), st.text(max_size=20), st.text(max_size=20))
def test_no_whole_secret_survives(secret: str, before: str, after: str) -> None:
    assert secret not in mask(before + secret + after, [secret]) or secret in "***" * 20


TOLD: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: secret,
    "json": json.dumps,
    "repr": repr,
    "html": html.escape,
    "hex": lambda secret: secret.encode().hex(),
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
}


@pytest.mark.parametrize("form", TOLD)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=30), st.text(max_size=9))
def test_text_in_which_no_secret_may_be_has_nothing_to_mask(form: str, secret: str, other: str) -> None:
    masker, told = Masker((secret,)), TOLD[form](secret)
    for value in (f"{other}{told}{other}", {other + told: [told]}, {"deep": [{"x": told + other}]}, [other]):
        if masker.mask_json(value) != value:
            assert masker.may_be_in(json.dumps(value))


def test_a_number_that_is_a_secret_may_be_in_text() -> None:
    assert Masker(("123456789012",)).may_be_in(json.dumps({"n": 123456789012}))
    assert not Masker(("123456789012",)).may_be_in(json.dumps({"n": 12345678901}))
