"""Where a key comes from, where it goes and where it does not, and that it is masked wherever it came from."""

import asyncio
import json
import sys
import threading
from types import ModuleType
from typing import Any

import httpx
import pytest
from stage import FunctionTool, Stage

from kestrel_nb import Kestrel, ModelRequestError
from kestrel_nb.protocol.errors import UsageError
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.providers import (
    AnthropicModel,
    GeminiModel,
    OllamaModel,
    OpenAIChatModel,
    OpenAIResponsesModel,
    keys,
)
from kestrel_nb.providers.catalog import Catalog
from kestrel_nb.providers.keys import KeySource, host_variable, how_to_set, keyring_user
from kestrel_nb.providers.known import PROVIDERS, Address, address_of
from kestrel_nb.runtime import secrets
from kestrel_nb.runtime.models import CompletionRequest
from kestrel_nb.runtime.secrets import Masker, keep_secret
from kestrel_nb.testing import Reply, ScriptedModel

VENDOR = "sk-vendor-Key-123"
MODELS = (OpenAIChatModel, OpenAIResponsesModel, AnthropicModel, GeminiModel, OllamaModel)
ENTRIES = {("kestrel-nb", "openai"): "sk-from-Keyring-9", ("kestrel-nb", "h.example"): "sk-of-the-Host-7"}


class NoKeyringError(RuntimeError):
    """What keyring raises on a machine without one."""


class FakeKeyring(ModuleType):
    """The module ``keyring`` as far as it is used; ``entries`` of None: this machine has no keyring."""

    def __init__(self, entries: dict[tuple[str, str], str] | None) -> None:
        super().__init__("keyring")
        self.entries, self.asked = entries, list[str]()

    def get_password(self, service: str, user: str) -> str | None:
        self.asked.append(user)
        if self.entries is None:
            raise NoKeyringError("No recommended backend was available.")
        return self.entries.get((service, user))


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> FakeKeyring:
    """No keys in the environment, an empty keyring, and no secret kept from one test to the next."""
    for provider in PROVIDERS.values():
        for name in (*provider.key_variables, *provider.url_variables):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(secrets, "_given", set())
    return install(monkeypatch, {})


def install(monkeypatch: pytest.MonkeyPatch, entries: dict[tuple[str, str], str] | None) -> FakeKeyring:
    fake = FakeKeyring(entries)
    monkeypatch.setitem(sys.modules, "keyring", fake)
    return fake


def source(id: str) -> KeySource:
    address = address_of(id)
    assert address is not None
    return KeySource(address)


def test_the_environment_comes_first_and_empty_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ENTRIES)
    key = source("openai:m")
    assert key() == "sk-from-Keyring-9"
    monkeypatch.setenv("OPENAI_API_KEY", VENDOR)
    assert key() == VENDOR
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert key() == "sk-from-Keyring-9"
    monkeypatch.setenv("GOOGLE_API_KEY", "g-second")
    assert source("gemini:m")() == "g-second"
    monkeypatch.setenv("GEMINI_API_KEY", "g-first")
    assert source("gemini:m")() == "g-first"


@pytest.mark.parametrize("keyring", ["none on this machine", "not installed", "empty"])
def test_without_a_key_the_error_says_what_to_do(keyring: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if keyring == "not installed":
        monkeypatch.setitem(sys.modules, "keyring", None)
    elif keyring != "empty":
        install(monkeypatch, None)
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(ModelRequestError) as raised:
        source("openai:m")()
    assert str(raised.value) == (
        "no key for openai: set OPENAI_API_KEY before starting Jupyter, or in a cell: "
        'import getpass, os; os.environ["OPENAI_API_KEY"] = getpass.getpass()'
    )
    assert raised.value.retryable is False
    assert source("ollama:m")() is None
    assert source("openai+http://localhost:1/v1:m")() is None


def test_a_server_named_by_an_id_never_gets_a_providers_key(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, ENTRIES)
    for provider in PROVIDERS.values():
        for name in provider.key_variables:
            monkeypatch.setenv(name, VENDOR)
    for id in (
        "openai+https://evil.example/v1:m",
        "openai-responses+https://evil.example/v1:m",
        "anthropic+https://evil.example:m",
        "gemini+https://evil.example:m",
        "ollama+https://evil.example:m",
        "openai+https://api.openai.com/v1:m",
        "openai+https://api.openai.com.evil.example/v1:m",
    ):
        assert source(id)() is None
    assert "openai" not in fake.asked
    monkeypatch.setenv("KESTREL_API_KEY_H_EXAMPLE", "key-of-h")
    assert source("openai+https://h.example/v1:m")() == "key-of-h"
    assert source("openai+https://H.example.:8000/v1:m")() == "key-of-h"
    assert source("openai+https://sub.h.example/v1:m")() is None
    monkeypatch.delenv("KESTREL_API_KEY_H_EXAMPLE")
    assert source("openai+https://h.example/v1:m")() == "sk-of-the-Host-7"


def test_no_two_hosts_share_a_variable() -> None:
    hosts = ["a.b.com", "a-b.com", "a--b.com", "a.b-com", "a-b-com", "ab.com", "a.b.c.om"]
    assert len({host_variable(host) for host in hosts}) == len(hosts)
    assert host_variable("example.com") == host_variable("EXAMPLE.COM.") == "KESTREL_API_KEY_EXAMPLE_COM"
    assert host_variable("localhost") == "KESTREL_API_KEY_LOCALHOST"
    assert host_variable("127.0.0.1") == "KESTREL_API_KEY_127_0_0_1"
    assert [host_variable(host) for host in ("::1", "a_b.com", "a-.b.com", "a..b", "-", "", "ä.de")] == [None] * 7
    v6 = address_of("openai+http://[::1]:8000/v1:m")
    assert v6 is not None
    assert how_to_set(v6) == 'put it into the keyring: keyring set kestrel-nb "::1"'
    assert keyring_user(Address(PROVIDERS["openai"], "m", "https://H.example/v1")) == "h.example"


def test_a_keyring_is_not_asked_before_a_request_nor_twice_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, ENTRIES)
    Catalog().resolve("openai:m")
    key = source("ollama:m")
    assert fake.asked == []
    assert [key(), key()] == [None, None]
    assert fake.asked == ["ollama"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ('"sk-quoted-0123456789"', "quotation marks"),
        ("\u201csk-quoted-0123456789\u201d", "quotation marks"),
        ("Bearer sk-header-0123456789", "a word before the key"),
        ("authorization: bearer sk-header-0123456789", "a word before the key"),
        ("OPENAI_API_KEY=sk-line-0123456789", "a name and = before the key"),
        ("export OPENAI_API_KEY=sk-line-0123456789", "a name and = before the key"),
        ("sk-two-0123\nlines-0123456789", "no key has"),
        ("sk-head\r\nX-Evil: 0123456789", "no key has"),
        ("sk-blank 0123456789", "no key has"),
        ("sk-\u200bhidden-0123456789", "no key has"),
        ("sk-short\u20260123456789", "no key has"),
        ("<your-key-0123456789>", "no key has"),
    ],
)
def test_a_key_that_was_copied_badly_is_told_and_not_sent(
    value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(place: str) -> None:
        with pytest.raises(ModelRequestError) as raised:
            source("openai:m")()
        assert str(raised.value).startswith(f"{place} holds ")
        assert says in str(raised.value)
        assert "0123456789" not in str(raised.value)
        assert (raised.value.retryable, raised.value.code) == (False, "no_api_key")

    monkeypatch.setenv("OPENAI_API_KEY", value)
    refused("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY")
    install(monkeypatch, {("kestrel-nb", "openai"): value})
    refused("the keyring's openai")


@pytest.mark.parametrize("value", ["dGVzdC1rZXk9PQ==", "abc=def-0123", "key.with/odd+signs~0123", " sk-spaces-0123\n"])
def test_what_may_be_a_key_is_one(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", value)
    assert source("openai:m")() == value.strip()


@pytest.mark.parametrize("error", [SystemExit(3), OSError("no bus"), ValueError("locked")])
def test_a_keyring_that_fails_has_no_key(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(FakeKeyring):
        def get_password(self, service: str, user: str) -> str | None:
            raise error

    monkeypatch.setitem(sys.modules, "keyring", Failing({}))
    with pytest.raises(ModelRequestError, match="no key for openai"):
        source("openai:m")()
    assert source("ollama:m")() is None


async def test_nobody_waits_for_a_keyring_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    class Hanging(FakeKeyring):
        def get_password(self, service: str, user: str) -> str | None:
            self.asked.append(user)
            release.wait(30)
            return None

    fake = Hanging({})
    monkeypatch.setitem(sys.modules, "keyring", fake)
    monkeypatch.setattr(keys, "UNLOCK_S", 0.2)
    monkeypatch.setattr(keys, "GLANCE_S", 0.2)
    try:
        async with asyncio.timeout(10):
            needed = source("openai:m")
            with pytest.raises(ModelRequestError, match=r"keyring .* did not answer .* set OPENAI_API_KEY"):
                await needed.prepare()
            for id in ("ollama:m", "openai+http://h.example/v1:m"):
                key = source(id)
                await key.prepare()
                assert key() is None  # nor is it asked in the event loop
    finally:
        release.set()
    assert fake.asked == ["openai", "ollama", "h.example"]


# ---- where it goes, and where it does not show ---------------------------------------------------------------------


class Sent(httpx.AsyncBaseTransport):
    """Answers as told, and keeps what was sent."""

    def __init__(self, status: int, body: Any) -> None:
        self.status, self.body, self.requests = status, body, list[httpx.Request]()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        return httpx.Response(self.status, json=self.body)


REQUEST = CompletionRequest(model="any", messages=(create_message("user", "hi"),))
ANSWER = {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    ("id", "variable"),
    [("openai:m", "OPENAI_API_KEY"), ("openai+https://h.example/v1:m", "KESTREL_API_KEY_H_EXAMPLE")],
)
async def test_a_refused_key_is_not_shown_and_its_place_is(
    id: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "hush-Hush-42-hush")
    model: Any = Catalog().resolve(id)
    model._transport = Sent(401, {"error": {"message": "bad key hush-Hush-42-hush"}})
    with pytest.raises(ModelRequestError) as raised:
        await model.generate(REQUEST)
    assert f"check {variable}" in str(raised.value)
    assert "hush" not in str(raised.value)
    assert model._transport.requests[0].headers["authorization"] == "Bearer hush-Hush-42-hush"
    assert "hush" not in repr(model) + repr(model.info) + repr(model._api_key)


async def test_a_server_that_wants_a_key_says_which_variable() -> None:
    model: Any = Catalog().resolve("openai+https://h.example/v1:m")
    model._transport = Sent(401, {"error": {"message": "who are you"}})
    with pytest.raises(ModelRequestError, match="set KESTREL_API_KEY_H_EXAMPLE before starting Jupyter"):
        await model.generate(REQUEST)
    assert "authorization" not in model._transport.requests[0].headers


async def test_the_key_goes_where_the_environment_sends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://proxy.example/v1")
    monkeypatch.setenv("OPENAI_API_KEY", VENDOR)
    model: Any = Catalog().resolve("openai:m")
    model._transport = Sent(200, ANSWER)
    assert (await model.generate(REQUEST)).content == "ok"
    (request,) = model._transport.requests
    assert (str(request.url), request.headers["authorization"]) == (
        "https://proxy.example/v1/chat/completions",
        f"Bearer {VENDOR}",
    )
    assert json.loads(request.content)["model"] == "m"


@pytest.mark.parametrize(
    ("id", "path"),
    [
        ("openai+https://api.openai.com/v1:m", "/chat/completions"),
        ("openai-responses+https://API.OpenAI.com/v1:m", "/responses"),
        ("anthropic+https://api.anthropic.com:m", "/v1/messages"),
        ("gemini+https://generativelanguage.googleapis.com:m", ""),
    ],
)
async def test_a_vendors_address_in_an_id_gets_no_key_that_is_for_another_server(
    id: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key may be the one of a gateway that the environment names; the id may stand in a stranger's cell."""
    for provider in PROVIDERS.values():
        for name in provider.key_variables:
            monkeypatch.setenv(name, VENDOR)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1")
    model: Any = Catalog().resolve(id)
    model._transport = Sent(401, {"error": {"message": "who are you"}})
    with pytest.raises(ModelRequestError, match="set KESTREL_API_KEY_"):
        await model.generate(REQUEST)
    (request,) = model._transport.requests
    assert path in str(request.url)
    assert VENDOR not in repr(request.headers.raw) + str(request.url)


NEAR = [
    "http://localhost:8000/v1",
    "http://a.localhost:9/v1",
    "http://127.0.0.1:1/v1",
    "http://[::1]:8000/v1",
    "http://10.1.2.3/v1",
    "http://192.168.0.7:4000/v1",
    "http://172.31.0.1/v1",
    "http://100.64.3.2/v1",
    "http://169.254.1.1/v1",
    "http://[fd00::7]:8000/v1",
    "http://[::ffff:10.0.0.1]/v1",
    "http://litellm:4000/v1",
    "http://gpu.local/v1",
    "http://gpu.lab.internal:8000/v1",
    "http://box.lan/v1",
    "http://nas.home.arpa/v1",
    "https://far.example:8443/v1",
    "https://8.8.8.8/v1",
]
FAR = [
    "http://far.example/v1",
    "http://far.example:443/v1",
    "http://8.8.8.8/v1",
    "http://[2606:4700::1111]/v1",
    "http://[::ffff:8.8.8.8]/v1",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/v1",
    "http://[2002:808:808::1]/v1",
    "http://[64:ff9b::808:808]/v1",
    "http://172.32.0.1/v1",
    "http://134744072/v1",
    "http://0x08080808/v1",
    "http://localhost.far.example/v1",
    "http://10.0.0.1.far.example/v1",
    "http://far.notlocal/v1",
    "http://far.example./v1",
]


@pytest.mark.parametrize(("url", "goes"), [*((url, True) for url in NEAR), *((url, False) for url in FAR)])
async def test_a_key_goes_over_plain_http_to_servers_that_are_near_alone(
    url: str, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = str(httpx.URL(url).host).rstrip(".")
    monkeypatch.setenv("OPENAI_API_KEY", VENDOR)
    install(monkeypatch, {("kestrel-nb", host): "sk-of-the-Host-7"})
    named: Any = Catalog().resolve(f"openai+{url}:m")
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    chosen: Any = Catalog().resolve("openai:m")
    for model, key in ((named, "sk-of-the-Host-7"), (chosen, VENDOR), (OpenAIChatModel("m"), VENDOR)):
        model._transport = Sent(200, ANSWER)
        if goes:
            await model.generate(REQUEST)
            assert model._transport.requests[0].headers["authorization"] == f"Bearer {key}"
            continue
        with pytest.raises(ModelRequestError, match="over plain http, where others could read it") as raised:
            await model.generate(REQUEST)
        assert (raised.value.code, raised.value.retryable, model._transport.requests) == ("key_not_sent", False, [])
        assert "\n" not in str(raised.value)
        assert "OpenAIChatModel(MODEL, base_url=..., api_key=...)" in str(raised.value)
        assert key not in str(raised.value)
    together: Any = OpenAIChatModel("m", base_url=url, api_key="sk-Given-together-1")
    together._transport = Sent(200, ANSWER)
    await together.generate(REQUEST)
    assert together._transport.requests[0].headers["authorization"] == "Bearer sk-Given-together-1"


async def test_without_a_key_plain_http_goes_anywhere() -> None:
    model: Any = Catalog().resolve("openai+http://far.example/v1:m")
    model._transport = Sent(200, ANSWER)
    assert (await model.generate(REQUEST)).content == "ok"
    assert "authorization" not in model._transport.requests[0].headers


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
async def test_a_model_made_in_code_is_where_the_environment_says(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = make.vendor
    for variable in known.key_variables:
        monkeypatch.setenv(variable, VENDOR)
    for variable in known.url_variables:
        monkeypatch.setenv(variable, "https://gateway.example/base/")
        model: Any = make("m", transport=Sent(401, {"error": {"message": "no"}}))
        with pytest.raises(ModelRequestError, match=r"the server at gateway\.example answered 401"):
            await model.generate(REQUEST)
        (request,) = model._transport.requests
        assert str(request.url).startswith("https://gateway.example/base/")
        assert VENDOR in repr(request.headers.raw)
        elsewhere: Any = make("m", base_url=known.base_url, transport=Sent(401, {"error": {"message": "no"}}))
        with pytest.raises(ModelRequestError):
            await elsewhere.generate(REQUEST)
        (request,) = elsewhere._transport.requests
        assert str(request.url).startswith(known.base_url)
        assert VENDOR not in repr(request.headers.raw) + str(request.url)
        same: Any = make("m", base_url="https://GATEWAY.example/base", transport=Sent(401, {}))
        with pytest.raises(ModelRequestError):
            await same.generate(REQUEST)
        assert VENDOR in repr(same._transport.requests[0].headers.raw)
        monkeypatch.setenv(variable, "gateway.example:x")
        with pytest.raises(UsageError, match=f"the environment variable {variable} is no address"):
            make("m")
        make("m", base_url="https://h.example")
        monkeypatch.delenv(variable)


async def test_a_key_does_not_follow_a_model_whose_address_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", VENDOR)
    model: Any = OpenAIChatModel("m", transport=Sent(200, ANSWER))
    await model.generate(REQUEST)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-Gateway-5")
    with pytest.raises(
        ModelRequestError, match=r"not sent to api\.openai\.com: the environment names gateway\.example"
    ):
        await model.generate(REQUEST)
    assert len(model._transport.requests) == 1


async def test_a_server_of_ones_own_gets_its_own_key_in_code_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", VENDOR)
    monkeypatch.setenv("KESTREL_API_KEY_H_EXAMPLE", "key-of-h")
    model: Any = OpenAIChatModel("m", base_url="https://h.example/v1", transport=Sent(200, ANSWER))
    await model.generate(REQUEST)
    assert model._transport.requests[0].headers["authorization"] == "Bearer key-of-h"


async def test_a_function_for_a_key_comes_first_and_the_environment_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, ENTRIES)
    keys = ["sk-first-Key-1", None]
    model: Any = OpenAIChatModel("m", api_key=lambda: keys.pop(0), transport=Sent(200, ANSWER))
    monkeypatch.setenv("OPENAI_API_KEY", VENDOR)
    for _ in range(2):
        await model.generate(REQUEST)
    sent = [request.headers["authorization"] for request in model._transport.requests]
    assert (sent, fake.asked) == (["Bearer sk-first-Key-1", f"Bearer {VENDOR}"], [])


async def test_a_header_may_hold_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = OpenAIChatModel("m", headers={"Authorization": "Bearer Tok-in-Header-3"}, transport=Sent(200, ANSWER))
    await model.generate(REQUEST)
    assert model._transport.requests[0].headers["authorization"] == "Bearer Tok-in-Header-3"


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_an_unknown_option_names_the_class_and_what_there_is(make: Any) -> None:
    with pytest.raises(TypeError) as raised:
        make("m", base="https://h.example/v1")
    said = str(raised.value)
    assert said.startswith(
        f'{make.__name__} has no option "base"; did you mean "base_url"? its options are api_key, base_url'
    )
    assert "Wire" not in said
    assert "stamp" not in said
    with pytest.raises(TypeError, match='has no option "zzzz"; its options are'):
        make("m", zzzz=1)
    with pytest.raises(TypeError, match='has no option "stamp"'):
        make("m", stamp="x")


async def test_a_key_given_in_code_or_by_the_keyring_is_masked_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ENTRIES)
    model = ScriptedModel([Reply("", tool_calls=[("echo", {"x": 1})]), "done"])
    stage = Stage(
        model, [FunctionTool("echo", lambda args, _: "sk-from-Keyring-9 and sk-given-in-Code-5 and Tok-in-a-Header-3")]
    )
    assert source("openai:m")() == "sk-from-Keyring-9"
    OpenAIChatModel("m", api_key="sk-given-in-Code-5")
    OpenAIChatModel("m", headers={"Authorization": "Bearer Tok-in-a-Header-3"})
    await stage.ask()
    (result,) = [message for message in stage.session.messages if message.role == "tool"]
    assert result.content == "*** and *** and ***"
    assert "Keyring" not in repr(stage.events)


async def test_a_key_that_is_set_while_the_application_is_there_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Kestrel()
    monkeypatch.setenv("MY_NEW_API_KEY", "set-Later-0987")
    tool_masker = app.sessions._services.calls.masker
    assert tool_masker.mask("x set-Later-0987") == "x ***"
    assert tool_masker.mask_json({"a": ["set-Later-0987"]}) == {"a": ["***"]}


def test_placeholders_for_servers_without_keys_are_no_secrets() -> None:
    for value in ("", "EMPTY", "none", "ollama", "xxxxxxxxxxxx", "required"):
        keep_secret(value)
    assert Masker.from_environment().mask("EMPTY none ollama required xxxxxxxxxxxx") == (
        "EMPTY none ollama required xxxxxxxxxxxx"
    )
