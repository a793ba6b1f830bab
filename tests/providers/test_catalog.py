"""Ids such as ``openai:NAME``: what they name, what is wrong with them, and what a listing teaches."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from model_server import STALL, Asked, ModelServer, whole

from kestrel_nb import Kestrel, KestrelConfig
from kestrel_nb.protocol.errors import KestrelError, ModelNotFoundError, ModelRequestError, UsageError
from kestrel_nb.protocol.sessions import ModelInfo, Usage
from kestrel_nb.providers import OpenAIChatModel, remote_model
from kestrel_nb.providers.address import ollama_address
from kestrel_nb.providers.catalog import Catalog, usable
from kestrel_nb.providers.known import PROVIDERS, address_of
from kestrel_nb.providers.prices import price
from kestrel_nb.runtime.models import ModelRegistry
from kestrel_nb.runtime.retry import RetryOptions


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of somebody who has set nothing."""
    for provider in PROVIDERS.values():
        for name in (*provider.key_variables, *provider.url_variables):
            monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("id", "provider", "model", "place"),
    [
        ("openai:gpt-4o", "openai", "gpt-4o", "https://api.openai.com/v1"),
        ("openai-responses:o3", "openai-responses", "o3", "https://api.openai.com/v1"),
        ("anthropic:claude-x", "anthropic", "claude-x", "https://api.anthropic.com"),
        ("gemini:g-2", "gemini", "g-2", "https://generativelanguage.googleapis.com"),
        ("ollama:llama3.2:3b", "ollama", "llama3.2:3b", "http://localhost:11434"),
        ("openrouter:vendor/name:free", "openrouter", "vendor/name:free", "https://openrouter.ai/api/v1"),
        ("deepseek:deepseek-chat", "deepseek", "deepseek-chat", "https://api.deepseek.com"),
        ("openai+http://localhost:8000/v1:qwen3", "openai", "qwen3", "http://localhost:8000/v1"),
        ("openai+http://localhost:8000/v1:qwen3:8b", "openai", "qwen3:8b", "http://localhost:8000/v1"),
        ("openai+http://localhost:8000:org/m", "openai", "org/m", "http://localhost:8000"),
        ("openai+https://h.example/a/b/:m@1", "openai", "m@1", "https://h.example/a/b"),
        ("openai+http://localhost:7b", "openai", "7b", "http://localhost"),
        ("openai+http://[::1]:8000/v1:m", "openai", "m", "http://[::1]:8000/v1"),
        ("anthropic+https://h.example:m", "anthropic", "m", "https://h.example"),
        ("ollama+http://gpu:11434:m:7b", "ollama", "m:7b", "http://gpu:11434"),
    ],
)
def test_what_an_id_names(id: str, provider: str, model: str, place: str) -> None:
    catalog = Catalog()
    address = address_of(id)
    assert address is not None
    assert (address.provider.name, address.model, address.base_url) == (provider, model, place)
    made = catalog.resolve(id)
    assert made is not None
    assert made is catalog.resolve(id)
    assert (made.info.id, made.info.provider) == (id, provider)


@pytest.mark.parametrize(
    ("id", "says"),
    [
        ("antropic:x", 'did you mean "anthropic:x"?'),
        ("OpenAI:gpt", 'did you mean "openai:gpt"?'),
        ("frobnicate:x", 'no provider "frobnicate"; the providers are openai, openai-responses, anthropic, gemini'),
        ("openai:", "it is openai:MODEL"),
        ("openai: \t", "it is openai:MODEL"),
        ("openai", "%kestrel models openai lists its models"),
        (":x", 'no provider ""'),
        ("gpt-4o", 'did you mean "openai:gpt-4o"?'),
        ("claude-x", 'did you mean "anthropic:claude-x"?'),
        ("o3-mini", 'did you mean "openai:o3-mini"?'),
        ("llama3.2:3b", 'no provider "llama3.2"'),
        ("llama3.2", 'did you mean "ollama:llama3.2"?'),
        ("openai/gpt-4o", 'did you mean "openai:gpt-4o"?'),
        ("openai+https://h.example/v1/chat/completions:m", "ends before /chat/completions"),
        ("local:", "local:PATH.gguf"),
        ("openai:a b", "no spaces"),
        ("openai:a\nb", "no spaces"),
        ("openai+http://localhost:8000/v1", "lacks the name of a model; it is openai+http://localhost:8000/v1:MODEL"),
        ("openai+http://localhost:8000/v1:", "lacks the name of a model"),
        ("openai+http://localhost:99999/v1:m", "a port that can't be"),
        ("openai+ftp://h:m", "names no server"),
        ("openai+http://:8000/v1:m", "names no server"),
        ("openai+", "names no server"),
        ("openai+http://h/v1?key=1:m", "names no server"),
        ("openai+http://me:hush-hush@h/v1:m", "can't hold a user name or a password"),
        ("openai+http://h\\.evil.example/v1:m", "names no server"),
        ("opnai+http://h:m", 'did you mean "openai+URL:MODEL"?'),
        ("deepseek+http://h:m", "these can: openai, "),
        ("nope", 'no model "nope"; there is: demo'),
        ("x" * 5000 + ":y", "…"),
    ],
)
def test_a_mistaken_id_is_one_line_and_no_model(id: str, says: str) -> None:
    app = Kestrel()
    assert not app.models.has(id)
    with pytest.raises(ModelNotFoundError) as raised:
        app.models.get(id)
    assert says in str(raised.value)
    assert len(str(raised.value)) < 400
    assert "\n" not in str(raised.value)
    assert "hush-hush" not in str(raised.value)
    with pytest.raises(ModelNotFoundError):
        Kestrel(model=id)


def test_each_way_to_name_a_model_takes_an_id() -> None:
    assert Kestrel(model="openai:gpt-4o").models.get().info.id == "openai:gpt-4o"
    assert Kestrel(config=KestrelConfig(model="ollama:m")).models.default_model == "ollama:m"
    app = Kestrel()
    app.models.set_default("gemini:g")
    assert app.sessions.create(model="anthropic:c").model == "anthropic:c"
    assert app.models.has("deepseek:d")
    assert [info.id for info in app.models.list()] == ["demo"]


def test_a_registered_model_and_another_resolver_come_before_a_complaint() -> None:
    class Own:
        info = ModelInfo(id="openai:gpt-4o", provider="mine")
        generate = None

    registry = ModelRegistry()
    registry.add_resolver(Catalog().resolve)
    registry.add_resolver(lambda id: Own() if id == "mine:x" else None)  # type: ignore[arg-type, return-value]
    assert registry.has("mine:x")
    assert registry.get("mine:x").info.provider == "mine"
    with pytest.raises(ModelNotFoundError, match='no provider "mine"'):
        registry.get("mine:y")


def test_naming_models_loads_no_library_and_reads_no_price() -> None:
    code = """
import sys
from kestrel_nb import Kestrel
app = Kestrel(model="openai:gpt-4o")
for id in ("anthropic:c", "gemini:g", "ollama:m", "openai-responses:o", "openai+http://localhost:1/v1:m"):
    assert app.models.get(id) is app.models.get(id)
print({"httpx", "keyring", "genai_prices", "pandas"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_files_of_a_workspace_move_no_address_and_no_key(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=http://evil.example/v1\nOPENAI_API_KEY=sk-from-a-file\n")
    evil = {
        "model": "openai:x",
        "base_url": "http://evil.example",
        "baseUrl": "http://evil.example",
        "apiKey": "sk-file",
    }
    (tmp_path / "kestrel.json").write_text(json.dumps(evil))
    (tmp_path / "pyproject.toml").write_text('[tool.kestrel]\nbase_url = "http://evil.example"\nmodel = "openai:x"\n')
    code = """
import asyncio
from kestrel_nb import Kestrel, ModelRequestError
app = Kestrel(workspace=".")
assert app.models.default_model == "demo"
model = app.models.get("openai:gpt-4o")
print(model._base_url)
async def main():
    async with app:
        try: await app.complete("hi", model="openai:gpt-4o")
        except ModelRequestError as error: print(error)
asyncio.run(main())
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    clean["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "https://api.openai.com/v1", done.stderr
    assert lines[1].startswith("no key for openai: set OPENAI_API_KEY before starting Jupyter")
    assert "evil" not in done.stdout


# ---- addresses in the environment ----------------------------------------------------------------------------------


def test_the_environment_names_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog()
    before = catalog.resolve("openai:m")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://proxy.example/v1/")
    after = catalog.resolve("openai:m")
    assert after is not before
    assert after is catalog.resolve("openai:m")
    assert address_of("openai-responses:m").base_url == "http://proxy.example/v1"  # type: ignore[union-attr]
    for written in ('"http://proxy.example/v1"', " 'http://proxy.example/v1/' ", "http://proxy.example/v1\n"):
        monkeypatch.setenv("OPENAI_BASE_URL", written)
        assert address_of("openai:m").base_url == "http://proxy.example/v1"  # type: ignore[union-attr]
    monkeypatch.setenv("OPENAI_BASE_URL", "https://proxy.example/v1/chat/completions")
    with pytest.raises(UsageError, match="OPENAI_BASE_URL is no address: a base URL ends before /chat/completions"):
        catalog.resolve("openai:m")
    monkeypatch.setenv("OPENAI_BASE_URL", "  ")
    assert address_of("openai:m").base_url == "https://api.openai.com/v1"  # type: ignore[union-attr]
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "nonsense")
    with pytest.raises(UsageError, match="the environment variable ANTHROPIC_BASE_URL is no address"):
        catalog.resolve("anthropic:m")
    app = Kestrel()
    assert not app.models.has("anthropic:m")
    with pytest.raises(KestrelError, match="ANTHROPIC_BASE_URL"):
        app.models.get("anthropic:m")


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("localhost", "http://localhost:11434"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        (":8080", "http://localhost:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("[::]:8080", "http://[::1]:8080"),
        ("[::1]", "http://[::1]:11434"),
        ("::1", "http://[::1]:11434"),
        ("http://gpu", "http://gpu"),
        ("https://gpu.example", "https://gpu.example"),
        ("http://gpu:11434/", "http://gpu:11434/"),
        ("https://h.example/ollama", "https://h.example/ollama"),
        (' "gpu:1234" ', "http://gpu:1234"),
        ("gpu:", "http://gpu:11434"),
    ],
)
def test_ollama_host_in_its_forms(value: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ollama_address(value) == url
    monkeypatch.setenv("OLLAMA_HOST", value)
    assert address_of("ollama:m").base_url == url.rstrip("/")  # type: ignore[union-attr]


@pytest.mark.parametrize("value", ["gpu:port", "a b", "ftp://gpu", "gpu:1:2:x"])
def test_an_ollama_host_that_is_none(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", value)
    with pytest.raises(UsageError, match="OLLAMA_HOST"):
        Catalog().resolve("ollama:m")


def test_which_providers_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [usable(name) for name in PROVIDERS] == [None] * len(PROVIDERS)  # a local model may be installed
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setenv("GOOGLE_API_KEY", "key-of-gemini")
    monkeypatch.setenv("OLLAMA_HOST", "gpu")
    found = [use for name in PROVIDERS if (use := usable(name, frozenset(["deepseek"])))]
    assert [(use.name, use.why) for use in found] == [
        ("gemini", "its key is set"),
        ("ollama", "its address is set"),
        ("deepseek", "its key is in the keyring"),
    ]
    assert "key-of-gemini" not in repr(found)


# ---- listings ------------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Any]:
    """A server that lists models, in the form of OpenAI and with what vLLM adds."""

    class Handler(http.server.BaseHTTPRequestHandler):
        asked: ClassVar[list[tuple[str, str | None]]] = []
        status = 200
        url = ""
        body: ClassVar[Any] = {"data": [{"id": "zeta"}, {"id": "alpha", "max_model_len": 32768}]}

        def do_GET(self) -> None:
            self.asked.append((self.path, self.headers.get("authorization")))
            data = json.dumps(self.body).encode()
            self.send_response(self.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.daemon_threads = True
    thread = threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    Handler.url = f"http://127.0.0.1:{running.server_port}/v1"
    try:
        yield Handler
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


async def test_a_listing_teaches_models_made_before_and_later(server: Any) -> None:
    catalog = Catalog()
    place = f"openai+{server.url}"
    made = catalog.resolve(f"{place}:alpha")
    assert made is not None
    assert made.info.context_window is None
    found = await catalog.list(place)
    assert [(info.id, info.context_window) for info in found] == [(f"{place}:alpha", 32768), (f"{place}:zeta", None)]
    assert made.info.context_window == 32768
    assert made.info.provider == "openai"
    later = Catalog()
    await later.list(place)
    fresh = later.resolve(f"{place}:alpha")
    assert fresh is not None
    assert fresh.info.context_window == 32768
    assert [info.id for info in catalog.listed] == [info.id for info in found]


@pytest.mark.parametrize("body", [None, [1, 2], "models", {"data": "none"}, {"error": {"message": "no"}}, {}])
async def test_what_is_no_list_is_told(server: Any, body: Any) -> None:
    server.body = body
    with pytest.raises(ModelRequestError, match="did not answer with a list of models"):
        await Catalog().list(f"openai+{server.url}")


async def test_a_long_list_is_whole_and_names_each_model_once(server: Any) -> None:
    server.body = {"data": [{"id": f"model-{number}"} for number in range(10_000)] * 2}
    found = await Catalog().list(f"openai+{server.url}")
    assert len(found) == len({info.id for info in found}) == 10_000
    server.body = {"data": []}
    assert await Catalog().list(f"openai+{server.url}") == []


async def test_details_of_many_models_are_asked_for_together_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    details = whole({"model_info": {"general.architecture": "llama", "llama.context_length": 8192}})

    def reply(asked: Asked) -> Any:
        if asked.method == "GET":
            return whole({"models": [{"name": f"m{number}"} for number in range(40)]})
        return STALL if asked.json["model"] == "m39" else details

    monkeypatch.setattr(remote_model, "DETAILS_S", 2.0)
    async with ModelServer([lambda asked: [reply(asked)]]) as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        found = {info.id: info.context_window for info in await Catalog().list("ollama")}
    assert len(found) == 40
    assert found.pop("ollama:m39") is None
    assert set(found.values()) == {8192}


async def test_names_that_nobody_could_type_are_not_listed(server: Any) -> None:
    ids = ["fine", "two\nlines", "a b", "\u202eeman", "", 7, None, "x" * 100]
    server.body = {"data": [{"id": id} for id in ids] + ["nonsense"]}
    found = await Catalog().list(f"openai+{server.url}")
    assert [info.id.rsplit(":", 1)[1] for info in found] == ["fine", "x" * 100]


async def test_a_registered_model_learns_its_window_from_the_price_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-dummy-key-1")
    async with Kestrel(config=KestrelConfig(retry=RetryOptions(attempts=1))) as app:
        mine = OpenAIChatModel("gpt-4o", base_url="http://127.0.0.1:9/v1")
        app.models.register(mine)
        assert mine.info.context_window is None
        assert price("openai:gpt-4o", Usage(input_tokens=1))
        with pytest.raises(ModelRequestError):
            await app.sessions.create(model="openai:gpt-4o").start("hi")
        assert mine.info.context_window == 128_000


async def test_a_listing_that_fails_is_one_line(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-key-of-mine")
    server.status, server.body = 401, {"error": {"message": "Incorrect API key: sk-wrong-key-of-mine"}}
    with pytest.raises(ModelRequestError) as raised:
        await catalog.list("openai")
    assert "check OPENAI_API_KEY" in str(raised.value)
    assert "sk-wrong" not in str(raised.value)
    assert server.asked == [("/v1/models", "Bearer sk-wrong-key-of-mine")]
    with pytest.raises(ModelRequestError, match="no key for anthropic: set ANTHROPIC_API_KEY"):
        await catalog.list("anthropic")
    with pytest.raises(ModelRequestError, match="could not be reached"):
        await catalog.list("openai+http://127.0.0.1:9/v1")
    with pytest.raises(ModelNotFoundError, match='did you mean "openai"'):
        await catalog.list("opnai")
