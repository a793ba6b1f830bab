"""Prices by hand against those of the list, what is unknown, and that nobody waits for the list who needs none."""

import subprocess
import sys

import pytest

from kestrel_nb.protocol.sessions import Usage
from kestrel_nb.providers import prices
from kestrel_nb.providers.prices import context_window, price


def test_tokens_are_priced_by_their_kind() -> None:
    """Per million tokens: gpt-4o 2.50 in, 1.25 cached, 10 out; Sonnet 4.5 3 in, 0.30 read, 3.75 written, 15 out."""
    usage = Usage(input_tokens=1000, output_tokens=500, cache_read_tokens=200)
    assert price("openai:gpt-4o", usage) == pytest.approx((800 * 2.5 + 200 * 1.25 + 500 * 10) / 1e6)
    assert price("openai-responses:gpt-4o", usage) == price("openai:gpt-4o", usage)
    usage = Usage(input_tokens=1000, output_tokens=500, cache_read_tokens=200, cache_write_tokens=300)
    by_hand = (500 * 3 + 200 * 0.3 + 300 * 3.75 + 500 * 15) / 1e6
    assert price("anthropic:claude-sonnet-4-5", usage) == pytest.approx(by_hand)
    large = Usage(input_tokens=300_000, output_tokens=100)  # beyond 200,000 tokens all of a request costs more
    assert price("anthropic:claude-sonnet-4-5", large) == pytest.approx((300_000 * 6 + 100 * 22.5) / 1e6)
    thought = Usage(input_tokens=1000, output_tokens=500, reasoning_tokens=400)
    assert price("openai:o3", thought) == price("openai:o3", Usage(input_tokens=1000, output_tokens=500))
    research = "openrouter:perplexity/sonar-deep-research"  # reasoning has a price of its own: 3 and not 8
    assert price(research, thought) == pytest.approx((1000 * 2 + 100 * 8 + 400 * 3) / 1e6)


def test_a_server_named_by_its_url_has_the_prices_of_its_owner() -> None:
    usage = Usage(input_tokens=1000, output_tokens=10)
    assert price("openai+https://api.openai.com/v1:gpt-4o", usage) == price("openai:gpt-4o", usage)
    assert price("openai+https://h.example/v1:gpt-4o", usage) is None
    assert price("openai+http://localhost:8000/v1:gpt-4o", usage) is None


@pytest.mark.parametrize(
    "id",
    ["demo", "scripted", "ollama:llama3", "openai:no-such-model", "antropic:x", "openai:", "", ":"],
)
def test_what_is_not_known_is_none_and_not_0(id: str) -> None:
    assert price(id, Usage(input_tokens=1000, output_tokens=10)) is None
    assert context_window(id) is None


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(input_tokens=1, cache_read_tokens=2),
        Usage(input_tokens=3, cache_read_tokens=2, cache_write_tokens=2),
        Usage(output_tokens=1, reasoning_tokens=2),
        Usage(input_tokens=-5, output_tokens=3),
    ],
)
def test_tokens_that_do_not_add_up_have_no_price(usage: Usage) -> None:
    assert price("openai:gpt-4o", usage) is None


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("https://api.openai.com/v1", True),
        ("https://api.openai.com:443/v1", True),
        ("https://api.openai.com.evil.example/v1", False),
        ("https://api.openai.community/v1", False),
        ("https://evil.example/api.openai.com", False),
        ("https://my.gateway/v1", False),
    ],
)
def test_a_server_whose_name_merely_begins_like_a_vendors_has_no_known_price(url: str, known: bool) -> None:
    assert price(f"openai+{url}:gpt-4o", Usage(input_tokens=1_000_000)) == (2.5 if known else None)


def test_a_file_on_this_machine_costs_nothing() -> None:
    assert price("local:smollm2", Usage(input_tokens=1000, output_tokens=5)) == 0.0
    assert price("local:smollm2", Usage()) is None


def test_the_list_says_how_much_a_model_reads() -> None:
    assert price("openai:gpt-4o", Usage(input_tokens=1))
    assert context_window("openai:gpt-4o") == 128_000


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.strip()


def test_the_list_is_read_in_a_thread_for_providers_with_prices_alone() -> None:
    code = """
import asyncio, sys
from kestrel_nb import Kestrel, Usage
from kestrel_nb.testing import ScriptedModel, Reply
async def main():
    async with Kestrel() as app:
        await app.ask("what can you do?")
        app.models.register(ScriptedModel([Reply("a", usage=Usage(input_tokens=9))]))
        print((await app.ask("hi", model="scripted")).cost, "genai_prices" in sys.modules)
        app.models.register(ScriptedModel([Reply("a", usage=Usage(input_tokens=1000))], id="openai:gpt-4o"))
        costs = []
        app.events.subscribe("usage.updated", lambda event: costs.append(event.cost))
        print((await app.ask("hi", model="openai:gpt-4o")).cost, costs[-1], "genai_prices" in sys.modules)
asyncio.run(main())
"""
    assert run(code) == "None False\n0.0025 0.0025 True"


def test_without_the_extra_prices_are_unknown() -> None:
    code = """
import sys
sys.modules["genai_prices"] = None
from kestrel_nb import Usage
from kestrel_nb.providers.prices import context_window, price
print(price("openai:gpt-4o", Usage(input_tokens=10)), context_window("openai:gpt-4o"))
"""
    assert run(code) == "None None"


def test_what_waits_for_the_list_is_called_once_it_is_there() -> None:
    called: list[int] = []
    prices.load_ahead("openai:gpt-4o", lambda: called.append(1))
    assert price("openai:gpt-4o", Usage(input_tokens=1))
    prices.load_ahead("openai:gpt-4o", lambda: called.append(2))
    prices.load_ahead("demo", lambda: called.append(3))
    assert called == [1, 2]
