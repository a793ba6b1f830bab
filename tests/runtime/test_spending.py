"""Tokens and cost of a session: each reply at the price of its own model, also once it is stored and read again."""

from pathlib import Path

import pytest
from stage import Stage

from kestrel_nb.protocol.sessions import ModelUsage, Usage
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.runtime.run import RunOptions
from kestrel_nb.runtime.spending import Spending
from kestrel_nb.testing import Reply, ScriptedModel

PRICES = {"cheap": 0.001, "dear": 0.1}


def price(model: str, usage: Usage) -> float | None:
    """US dollars for each token; a request of more than 100 tokens costs double, as with some vendors."""
    rate = PRICES.get(model)
    return None if rate is None else rate * usage.total_tokens * (2 if usage.input_tokens > 100 else 1)


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens)


def replies(id: str, *tokens: int) -> ScriptedModel:
    return ScriptedModel([Reply("Fine.", usage=used(count)) for count in tokens], id=id)


def test_each_reply_is_priced_alone() -> None:
    spending = Spending()
    for tokens in (60, 60):
        spending.add("cheap", used(tokens), price("cheap", used(tokens)))
    assert spending.cost == pytest.approx(0.12)
    assert spending.usage == used(120)


def test_what_has_no_price_leaves_the_cost_unknown_and_is_tried_again() -> None:
    spending = Spending()
    assert spending.cost is None
    spending.add("cheap", used(10), None)
    spending.add("none", Usage(), None)
    assert (spending.cost, [entry.model for entry in spending.entries]) == (None, ["cheap"])
    spending.add("dear", used(1), 0.1)
    assert spending.cost is None
    spending.price_again(price)
    assert spending.cost == pytest.approx(0.11)
    spending.add("none", used(1), None)
    spending.price_again(price)
    assert spending.cost is None


async def test_a_session_that_changes_its_model_pays_each_its_own(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    stage = Stage(replies("cheap", 10, 20), price=price, store=store)
    dear, unknown = replies("dear", 10), replies("unknown", 5)
    for model in (dear, unknown):
        stage.manager._options.models.register(model)
    session = stage.session
    first = await stage.ask()
    other = await stage.ask(options=RunOptions(model="dear"))
    session.set_model("cheap")
    again = await stage.ask()
    costs = [first.cost, other.cost, again.cost]
    assert costs == pytest.approx([0.01, 1.0, 0.02])
    assert [event.cost for event in stage.of("usage.updated")] == costs
    assert session.cost == session.summary().cost == pytest.approx(1.03)
    assert [(entry.model, entry.usage.input_tokens) for entry in session.spent] == [("cheap", 30), ("dear", 10)]
    await stage.manager.close()

    later = Stage(
        ScriptedModel([Reply("Fine.", usage=used(5))], id="unknown"), price=price, store=FileSessionStore(tmp_path)
    )
    await later.manager.initialize()
    loaded = later.manager.get(session.id)
    assert (loaded.cost, loaded.spent) == (session.cost, session.spent)
    await loaded.start("go", options=RunOptions(model="unknown"))
    assert loaded.cost is None
    assert loaded.spent[-1] == ModelUsage(model="unknown", usage=used(5), unpriced=used(5))
    await later.manager.close()


async def test_a_fork_has_spent_nothing() -> None:
    stage = Stage(replies("cheap", 10), price=price)
    await stage.ask()
    fork = stage.manager.fork(stage.session.id)
    assert (fork.usage, fork.spent, fork.cost) == (Usage(), (), None)


async def test_the_end_of_a_run_waits_for_prices_that_are_being_loaded() -> None:
    known: set[str] = set()

    async def ready() -> None:
        known.add("cheap")

    stage = Stage(
        replies("cheap", 10), price=lambda model, usage: price(model, usage) if known else None, prices_ready=ready
    )
    result = await stage.ask()
    assert [event.cost for event in stage.of("usage.updated")] == [None, pytest.approx(0.01)]
    assert result.cost == stage.session.cost == pytest.approx(0.01)
    assert stage.types()[-2:] == ["run.completed", "session.updated"]


async def test_tokens_of_an_older_file_have_no_known_cost() -> None:
    stage = Stage(replies("cheap", 10), price=price)
    await stage.ask()
    detail = stage.session.detail()
    assert detail.spent[0].cost == pytest.approx(0.01)
    stage.session._state.spending = Spending()
    assert stage.session.cost is None
