"""code-eval: its rows, what a program may not get at, and that nothing is left of one that was ended."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from calling import call, calls, is_failure, rows_of
from processes import children
from stage import Stage

from kestrel_nb.plugins.builtin_tools.code_eval import CodeEval
from kestrel_nb.plugins.builtin_tools.config import BuiltInToolConfig
from kestrel_nb.protocol.sessions import ApprovalRequest, PermissionRule
from kestrel_nb.testing import Reply, ScriptedModel

LIMIT = BuiltInToolConfig(code_eval_timeout=1_000)
IN_WORDS = {  # what stands in the rows in words
    "code-eval-O006": 5,
    "code-eval-O013": "Symbol(x)",
    "code-eval-O009": None,
}


@pytest.fixture
def tool() -> CodeEval:
    return CodeEval(BuiltInToolConfig())


async def value(code: str) -> Any:
    """The result of a program that ends well."""
    data = await call(CodeEval(BuiltInToolConfig()), code=code)
    assert "error" not in data, data
    assert set(data) == {"result", "stdout", "executionMs"}
    return data["result"]


def assert_expected(row: dict[str, Any], data: dict[str, Any]) -> None:
    expect = row["expect"]
    if row["id"] in IN_WORDS:
        assert data["result"] == IN_WORDS[row["id"]]
    elif row["id"] == "code-eval-O019":
        assert data["stdout"] == "\x1b[2J<script>"
    elif row["id"] == "code-eval-O024":  # a line separator ends a comment, as the standard says
        assert data["message"] == "ReferenceError: alert is not defined"
    elif "result" in expect and "then" not in expect:
        assert data["result"] == expect["result"], row["id"]
    elif "then" not in expect:
        assert is_failure(data), row["id"]
        if "timeout" in expect["outcome"]:
            assert data == {"error": True, "message": "Execution timed out", "executionMs": 1000}


async def test_every_row_of_code_eval(tool: CodeEval) -> None:
    rows, excluded = rows_of("code-eval")
    assert len(rows) + len(excluded) == 24
    for row, data in zip(rows, await calls(tool, [row["input"] for row in rows]), strict=True):
        assert_expected(row, data)
        if "then" in row["expect"]:
            assert await value(row["expect"]["then"]) == row["expect"]["result"]
    assert not children("javascript_worker")


async def test_the_examples_of_the_specification(tool: CodeEval) -> None:
    sums = """
    const data = [1, 2, 3, 4, 5];
    const sum = data.reduce((a, b) => a + b, 0);
    const avg = sum / data.length;
    console.log('Average:', avg);
    avg;
    """
    names = "const input = [{ name: 'Alice' }, { name: 'Bob' }]; JSON.stringify(input.map(p => p.name));"
    first, second, third = await calls(
        tool, [{"code": sums}, {"code": names}, {"code": "while(true) {}", "timeout": 1000}]
    )
    assert {**first, "executionMs": 0} == {"result": 3, "stdout": "Average: 3", "executionMs": 0}
    assert (second["result"], second["stdout"]) == ('["Alice","Bob"]', "")
    assert third == {"error": True, "message": "Execution timed out", "executionMs": 1000}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("(x) => x", "(x) => x"),
        ("[() => 1, Symbol('y'), 10n, undefined, NaN, -Infinity]", ["() => 1", "Symbol(y)", "10", None, None, None]),
        (
            "({a: undefined, f() {}, n: -0, big: 2 ** 53, huge: 1e21})",
            {"f": "f() {}", "n": 0, "big": 2**53, "huge": 1e21},
        ),
        ("new Map([[1, 2]])", {}),
        ("JSON.rawJSON('1e400')", None),
        ("JSON.rawJSON('1'.repeat(5000))", None),
        ("'\\u0000\\u2028😀'", "\0\u2028\U0001f600"),
        ("'\\ud800'", "\ufffd"),
        ("", None),
        ("// nothing", None),
        ("(async () => { await null; return [await 1, 2] })()", [1, 2]),
        ("let x = {n: 0}; Promise.resolve().then(() => { x.n = 1 }); x", {"n": 1}),
        ("({then(done) { done(7) }, a: 1})", {"then": "then(done) { done(7) }", "a": 1}),
        ("(function f(n) { return n ? 1 + f(n - 1) : 0 })(8000)", 8000),
        ("/(?<y>\\d{4})/.exec('in 2025').groups.y", "2025"),
        ("eval('var z = 3'); z", 3),
        ("'use strict'; (function () { return this })() === undefined", True),
    ],
)
async def test_values_pass_through_json(code: str, expected: Any) -> None:
    assert await value(code) == expected


@pytest.mark.parametrize(
    ("code", "message", "name", "line"),
    [
        ("1;\n2;\nnull.x", "TypeError: cannot read property 'x' of null", "TypeError", 3),
        ("1;\nlet let = 3", "SyntaxError: 'let' is not a valid lexical identifier", "SyntaxError", 2),
        ("function f() {\n throw new RangeError('no')\n}\nf()", "RangeError: no", "RangeError", 2),
        ("\nclass Own extends Error { get name() { return 'Own' } }; throw new Own('x')", "Own: x", "Own", 2),
        ("Promise.reject(\nnew Error('later'))", "Error: later", "Error", 2),
        ("(async () => {\n\nthrow new Error('deep')\n})()", "Error: deep", "Error", 3),
        ("throw 1", "Uncaught 1", None, None),
        ("throw new Error('a\\n  b')", "Error: a b", "Error", 1),
        ("throw null", "Uncaught null", None, None),
        ("throw {a: 1}", 'Uncaught {"a":1}', None, None),
        ("queueMicrotask(() => { throw new Error('loose') }); 1", "Uncaught Error: loose", None, None),
        ("new Promise(() => {})", "the promise was never settled", None, None),
        ("let a = {}; a.a = a; a", "TypeError: circular reference", "TypeError", None),
        ("a b", "SyntaxError: expecting ';'", "SyntaxError", 1),
        (
            "Error.prepareStackTrace = (e, t) => t; null.x",
            "TypeError: cannot read property 'x' of null",
            "TypeError",
            None,
        ),
    ],
)
async def test_errors_carry_name_message_and_line(code: str, message: str, name: str | None, line: int | None) -> None:
    data = await call(CodeEval(BuiltInToolConfig()), code=f"console.log('before');{code}")
    assert is_failure(data)
    assert data["message"] == message
    assert (data.get("name"), data.get("line")) == (name, line)
    assert data.get("stdout") == (None if name == "SyntaxError" else "before")
    assert isinstance(data["executionMs"], int)


@pytest.mark.parametrize(
    "code",
    [
        "({toJSON() { while (1); }})",
        "Promise.resolve().then(function f() { Promise.resolve().then(f) }); 1",
        "(async () => { for (;;) await null })()",
        "queueMicrotask(function f() { queueMicrotask(f) })",
        "throw {get name() { while (1); }}",
        "throw {get message() { while (1); }, name: 'x'}",
        "new Proxy({}, {ownKeys() { while (1); }})",
        "/^(a+)+$/.test('a'.repeat(40) + '!')",
        "console.log({toJSON() { while (1); }})",
        "try { while (1); } catch {} finally { while (1); }",
        "let s = []; while (1) { try { s.push('x'.repeat(1e6) + s.length) } catch { s = [] } }",
    ],
)
async def test_whatever_does_not_end_is_ended(code: str) -> None:
    data = await call(CodeEval(LIMIT), code=code)
    assert data == {"error": True, "message": "Execution timed out", "executionMs": 1000}
    assert not children("javascript_worker")


async def test_a_message_is_one_line_of_a_few_hundred_characters(tool: CodeEval) -> None:
    for code in (
        "throw new Error('x'.repeat(1e6))",
        "throw 'x'.repeat(1e6)",
        "throw {name: 'x'.repeat(1e6), message: 'y'}",
    ):
        assert is_failure(await call(tool, code=code))


async def test_the_limit_is_a_ceiling() -> None:
    started = time.monotonic()
    long, short, bad = await calls(
        CodeEval(LIMIT),
        [
            {"code": "while (1);", "timeout": 60_000},
            {"code": "while (1);", "timeout": 300},
            {"code": "1", "timeout": 0},
        ],
    )
    assert (long["executionMs"], short["executionMs"]) == (1000, 300)
    assert "schema_error" in bad
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "code",
    [
        "(function f() { f() })()",
        "let a = []; while (1) a.push('x'.repeat(1e6) + a.length)",
        "'x'.repeat(2 ** 29)",
        "'x'.repeat(2e6)",
        "let s = 'x'; while (1) s += s",
        "new Array(1e5).fill('x'.repeat(1e3))",
        "new ArrayBuffer(2 ** 30)",
        "new Uint8Array(2 ** 40)",
        "let x = []; for (let i = 0; i < 150; i++) x = [x]; x",
        "let x = []; for (let i = 0; i < 60000; i++) x = [x]; x",
        "JSON.parse('['.repeat(1e6))",
        "eval('('.repeat(1e6))",
        "new RegExp('('.repeat(1e5) + ')'.repeat(1e5))",
        "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x",
        "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    ],
)
async def test_what_takes_too_much_is_an_error_object(code: str) -> None:
    data = await call(CodeEval(BuiltInToolConfig()), code=code)
    assert is_failure(data)
    assert not children("javascript_worker")


async def test_only_the_language_is_there() -> None:
    names = (
        "process require module exports Buffer global std os scriptArgs print fetch XMLHttpRequest WebSocket Deno Bun"
    )
    names += " setTimeout setInterval WebAssembly navigator location document window importScripts load read __dirname"
    listed = ", ".join(f"typeof {name}" for name in names.split())
    assert set(await value(f"[{listed}]")) == {"undefined"}
    for module in (
        "fs",
        "node:fs",
        "std",
        "os",
        "/etc/passwd",
        "file:///etc/passwd",
        "data:text/javascript,1",
    ):
        data = await call(CodeEval(BuiltInToolConfig()), code=f"import('{module}').then(m => 1)")
        assert data["message"] == f"ReferenceError: could not load module '{module}'"


@pytest.mark.parametrize(
    "code",
    [
        "this.constructor.constructor('return process')()",
        "console.log.constructor('return process')()",
        "(async () => {}).constructor('return process')()",
        "Object.getPrototypeOf(function* () {}).constructor('return process')().next()",
        "console.log.caller.arguments",
        "(function () { return arguments.callee.caller.toString() })()",
        "Reflect.construct(Function, ['return require'])()",
        "new (class extends Function {})('return process')()",
    ],
)
async def test_no_way_leads_out(code: str) -> None:
    assert is_failure(await call(CodeEval(BuiltInToolConfig()), code=code))


POISON = """
const own = Reflect.ownKeys, define = Object.defineProperty;
const places = [JSON, Reflect, Object.prototype, Function.prototype, Array.prototype, String.prototype,
  Number.prototype, Symbol.prototype, BigInt.prototype, Promise.prototype, RegExp.prototype,
  Error.prototype, Date.prototype];
for (let at = 0; at < places.length; at++) {
  const names = own(places[at]);
  for (let n = 0; n < names.length; n++) {
    if (names[n] !== 'constructor') try { places[at][names[n]] = () => '{"result":"1","stdout":"forged"}' } catch {}
  }
}
define(Array.prototype, '0', {set() { throw 9 }, get() { return 8 }, configurable: true});
define(Array.prototype, '1', {set() { throw 9 }, get() { return 8 }, configurable: true});
define(Object.prototype, 'error', {get() { return 'forged' }, configurable: true});
define(Object.prototype, 'max_output', {get() { return 1e9 }, configurable: true});
console.log('said');
globalThis.eval = globalThis.JSON = globalThis.Reflect = globalThis.Promise = undefined;
"""


async def test_a_program_can_not_forge_the_answer() -> None:
    data = await call(CodeEval(BuiltInToolConfig()), code=POISON + "2")
    assert (data["result"], data["stdout"]) == (2, "said")
    data = await call(CodeEval(BuiltInToolConfig()), code=POISON + "throw 2")
    assert (data["message"], data["stdout"]) == ("Uncaught 2", "said")
    forged = '"}, "stdout": "", "stdout_total": 0}}\\n{"ms": 1, "answer": {"result": "1"'
    data = await call(CodeEval(BuiltInToolConfig()), code=f"console.log('{forged}'); '{forged}'")
    assert data["result"] == data["stdout"] == forged.replace("\\n", "\n")


async def test_console_is_captured_and_bounded(tool: CodeEval) -> None:
    code = "console.log('a', 1, -1.5, null, undefined, 5n, Symbol('s'), {a: [1]}, new Error('e')); console.warn(); "
    code += "console.error('é\\n'); console.info(function f() {}); console.log({get a() { throw 1 }})"
    data, long = await calls(tool, [{"code": code}, {"code": "for (let i = 0; i < 1e5; i++) console.log('x😀')"}])
    assert data["stdout"] == 'a 1 -1.5 null undefined 5n Symbol(s) {"a":[1]} Error: e\n\né\n\n[Function: f]\n[object]'
    assert long["stdout"].endswith("\n[cut: 100,000 of 399,999 characters shown]")
    assert 70_000 < len(long["stdout"]) < 100_100


async def test_the_loop_goes_on_and_stop_ends_a_program_within_a_second(tool: CodeEval) -> None:
    model = ScriptedModel([Reply(tool_calls=[("code-eval", {"code": "for (;;) ;"})]), "done"])
    stage = Stage(model, [tool])
    run = asyncio.ensure_future(stage.ask())
    await stage.until("tool.started")
    gap, last = 0.0, time.monotonic()
    for _ in range(60):
        await asyncio.sleep(0.01)
        gap, last = max(gap, time.monotonic() - last), time.monotonic()
    started = time.monotonic()
    stage.session.cancel()
    result = await run
    assert time.monotonic() - started < 1
    assert result.status == "cancelled"
    assert gap < 1
    assert not children("javascript_worker")
    stage.check()


async def test_the_code_that_was_shown_is_the_code_that_runs(tool: CodeEval) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest, signal: Any) -> bool:
        asked.append(request)
        return True

    model = ScriptedModel([Reply(tool_calls=[("code-eval", {"code": "1 + 1\n", "timeout": 9_000})]), "done"])
    stage = Stage(model, [tool], approve=approve)
    stage.manager.add_rule(PermissionRule(tool="code-eval", action="ask"))
    assert (await stage.ask()).status == "completed"
    (event,) = stage.of("tool.executed")
    assert event.data["result"] == 2
    (request,) = asked
    assert request.preview is not None
    assert (request.preview.kind, request.preview.title) == ("text", "Run JavaScript, at most 5000 ms")
    assert request.preview.text == "1 + 1\n"


async def test_the_schema_is_the_specified_one(tool: CodeEval) -> None:
    schema = tool.schema
    assert (schema.name, schema.permission, schema.read_only, schema.deterministic) == (
        "code-eval",
        "auto",
        True,
        False,
    )
    assert list(schema.parameters["properties"]) == ["code", "timeout"]
    assert tool.unavailable() is None


@pytest.mark.parametrize(
    ("logged", "stdout"),
    [
        ('"%s is %d years", "Bob", 42', "Bob is 42 years"),
        ('"%i %f %d", "12.7px", "3.5em", "7"', "12 3.5 7"),
        ('"%o %O %j", {a: 1}, [2], {b: 3}', '{"a":1} [2] {"b":3}'),
        ('"%s %s", "x"', "x %s"),
        ('"%s", "x", "y", 1', "x y 1"),
        ('"%%%s%%", 1', "%1%"),
        ('"%%"', "%%"),
        ('"100% sure", 5', "100% sure 5"),
        ('"%x", 1', "%x 1"),
        ('"%c red", "color: red"', " red"),
        ('"%s", "%s", "z"', "%s z"),
        ('"%d %d %d", Symbol("s"), {}, () => 1', "NaN NaN NaN"),
        ('"%s %d", 10n, 10n', "10n 10n"),
        ('5, "%s", "a"', "5 %s a"),
        ('"%d", {valueOf() { throw 1 }}', "NaN"),
    ],
)
async def test_the_first_item_of_a_log_may_say_where_the_others_go(tool: CodeEval, logged: str, stdout: str) -> None:
    assert (await call(tool, code=f"console.log({logged}); 1"))["stdout"] == stdout


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("/(/", None),  # a fault of the parser that the engine gives no place: not one of another file
        ("\n\nnull.x", 3),
        ("\nfunction g() {\n throw new Error('q')\n}\ng()", 3),
        ("(async () => {\n throw new Error('r')\n})()", 2),
        ("new RegExp('(')", 1),
    ],
)
async def test_the_line_of_an_exception_is_one_of_the_program(tool: CodeEval, code: str, line: int | None) -> None:
    data = await call(tool, code=code)
    assert is_failure(data)
    assert data.get("line") == line


@pytest.mark.parametrize("code", ["await 5", "const x = await f(); x", "[await f()]", "g(await f())"])
async def test_who_awaits_outside_of_a_function_hears_what_to_write(tool: CodeEval, code: str) -> None:
    data = await call(tool, code=f"async function f() {{}}\n{code}")
    assert data["name"] == "SyntaxError"
    assert "end with (async () => { ... })()" in data["message"]


async def test_a_program_that_needs_too_much_hears_how_much_there_is(tool: CodeEval) -> None:
    data = await call(tool, code="new Array(1e6).fill(0)")
    assert data["message"] == (
        "the result is too long, 2000001 characters as JSON of at most 1000000; give a part of it"
    )


async def test_a_large_result_is_whole(tool: CodeEval) -> None:
    assert await value("new Array(3e5).fill(7)") == [7] * 300_000
    assert await value("Array.from({length: 300}, () => [])") == [[]] * 300
    assert await value('"[".repeat(300)') == "[" * 300
