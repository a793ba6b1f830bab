"""JSON-Schema argument validation: us per validation of a typical tool-argument object, and a differential check.

    python validate.py [--quick] [--cases FILE] [--parts MODULE]

Rows show what makes the jsonschema package fast enough: one validator per schema (compiled once, kept) and a small
closure compiled from the schema for the common keywords in front of it. The closure may only ever say "surely
valid"; the check compares it with jsonschema over every pair of a schema and a value from FILE (JSON lines with
input.schema, input.data, expect.valid) and from the generated ones below, and exits 1 if it ever says valid wrongly.
--parts: only the named project's validator (peers/MODULE.py, see peers/README.md) beside plain jsonschema.
"""

import argparse
import copy
import importlib
import itertools
import json
import os
import sys
import time

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "old": {"type": "string"},
        "new": {"type": "string"},
        "count": {"type": "integer"},
        "replace_all": {"type": "boolean"},
        "mode": {"enum": ["exact", "regex", "glob"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "options": {
            "type": "object",
            "properties": {"depth": {"type": "integer"}, "hidden": {"type": "boolean"}},
            "required": ["depth"],
            "additionalProperties": False,
        },
    },
    "required": ["path", "old", "new"],
    "additionalProperties": False,
}
GOOD = {
    "path": "src/app.py",
    "old": "a" * 200,
    "new": "b" * 200,
    "count": 3,
    "replace_all": True,
    "mode": "exact",
    "tags": ["x", "y", "z"],
    "options": {"depth": 2, "hidden": False},
}
BAD = {**GOOD, "count": "3", "extra": 1}


CONSTRAINTS = {"type", "properties", "required", "additionalProperties", "items", "enum"}
ANNOTATIONS = {"$schema", "$comment", "title", "description", "default", "examples", "deprecated"}
SIMPLE = {"string": str, "boolean": bool, "integer": int, "null": type(None)}


def precheck(schema):
    """A closure that says True when the instance is surely valid; None for a schema with any keyword not known here."""
    if schema is True:
        return lambda v: True
    if type(schema) is not dict or not set(schema) <= CONSTRAINTS | ANNOTATIONS:
        return None
    if not set(schema) & CONSTRAINTS:
        return lambda v: True
    kind, enum = schema.get("type"), schema.get("enum")
    if enum is not None:
        if kind not in (None, "string") or not all(type(e) is str for e in enum):
            return None
        allowed = frozenset(enum)
        return lambda v: type(v) is str and v in allowed
    if type(kind) is not str:
        return None
    if kind in SIMPLE:
        t = SIMPLE[kind]
        return lambda v: type(v) is t
    if kind == "number":
        return lambda v: type(v) is int or type(v) is float
    if kind == "array":
        item = precheck(schema["items"]) if "items" in schema else (lambda v: True)
        return item and (lambda v: type(v) is list and all(map(item, v)))
    if kind == "object":
        props = {k: precheck(s) for k, s in schema.get("properties", {}).items()}
        if None in props.values() or schema.get("additionalProperties", True) not in (True, False):
            return None
        required, closed = tuple(schema.get("required", ())), schema.get("additionalProperties") is False

        def check(v):
            if type(v) is not dict:
                return False
            for k in required:
                if k not in v:
                    return False
            for k, x in v.items():
                c = props.get(k)
                if c is None:
                    if closed:
                        return False
                elif not c(x):
                    return False
            return True

        return check
    return None


def timed(fn, arg, budget):
    n, best = 1, []
    while True:
        t = time.process_time()
        for _ in range(n):
            fn(arg)
        t = time.process_time() - t
        if t > budget / 5:
            best.append(t / n)
            if len(best) == 5:
                return sorted(best)[2] * 1e6
        else:
            n *= 2


def candidates():
    """Schemas around the edges of the closure, and values around the edges of their types."""
    leaves = [
        {},
        True,
        False,
        {"enum": ["a", "b"]},
        {"enum": [1, True, None]},
        {"type": "string", "enum": ["a"]},
        {"type": ["string", "null"]},
        {"type": "string", "minLength": 2},
        {"const": "a"},
        *({"type": t} for t in ("string", "boolean", "integer", "number", "null", "array", "object")),
    ]
    schemas = list(leaves)
    for leaf in leaves:
        schemas.append({"type": "array", "items": leaf})
        for extra, required in itertools.product(
            (
                {},
                {"additionalProperties": True},
                {"additionalProperties": False},
                {"additionalProperties": {"type": "string"}},
            ),
            ([], ["a"], ["a", "b"]),
        ):
            schemas.append({"type": "object", "properties": {"a": leaf}, "required": required, **extra})
    values = [
        None,
        True,
        False,
        0,
        1,
        1.0,
        1.5,
        -0.0,
        2**70,
        1e400,
        "",
        "a",
        "b",
        "c",
        "aa",
        "é",
        [],
        ["a"],
        [1, "a"],
        [[]],
        [None, 1.0],
        {},
    ]
    values += [{k: v} for k in ("a", "c") for v in copy.deepcopy(values)]
    values += [{"a": v, "b": 1} for v in copy.deepcopy(values[:22])]
    return schemas, values


def differential(compiler, cases):
    """-> the number of (schema, value) pairs that the fast path calls valid and jsonschema invalid"""
    from jsonschema import Draft202012Validator as V

    schemas, values = candidates()
    suite = [json.loads(line)["input"] | json.loads(line)["expect"] for line in open(cases)] if cases else []
    schemas += [c["schema"] for c in suite]
    values += [c["data"] for c in suite]
    unique = {json.dumps(s, sort_keys=True): s for s in schemas}.values()
    compiled = [(s, f, V(s)) for s in unique if (f := compiler(s)) is not None]
    pairs = said = wrong = 0
    for schema, fast, v in compiled:
        for value in values:
            pairs += 1
            if fast(value):
                said += 1
                if not v.is_valid(value):
                    wrong += 1
                    print(f"WRONG: {json.dumps(value)} is not valid under {json.dumps(schema)}")
    mine = [c for c in suite if (f := compiler(c["schema"])) and f(c["data"]) and not c["valid"]]
    strange = sum(V(c["schema"]).is_valid(c["data"]) != c["valid"] for c in suite)
    print(
        f"differential: {len(suite)} suite cases ({len(mine)} invalid ones called valid; jsonschema itself differs from "
        f"the suite in {strange}); {len(compiled)} of {len(unique)} schemas have a fast path; {pairs} pairs, {said} "
        f"called valid, {wrong} wrongly"
    )
    return wrong + len(mine)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--quick", action="store_true")
    ap.add_argument("--cases")
    ap.add_argument("--parts")
    a = ap.parse_args()
    budget = 0.1 if a.quick else 0.5
    import jsonschema
    from jsonschema import Draft202012Validator as V

    v = V(SCHEMA)
    pre = precheck(SCHEMA)
    assert pre(GOOD) and not pre(BAD) and v.is_valid(GOOD) and not v.is_valid(BAD)

    def swallow(f, *errors):
        def g(x):
            try:
                f(x)
            except errors:
                pass

        return g

    rows = {
        "jsonschema: jsonschema.validate() each time": swallow(
            lambda x: jsonschema.validate(x, SCHEMA), jsonschema.ValidationError
        ),
        "jsonschema: kept validator, list(iter_errors)": lambda x: list(v.iter_errors(x)),
        "jsonschema: kept validator, is_valid": v.is_valid,
        "jsonschema kept + closure precheck": lambda x: pre(x) or list(v.iter_errors(x)),
    }
    compiler = precheck
    if a.parts:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        errors = importlib.import_module(f"peers.{a.parts}").validator
        mine = errors(SCHEMA)
        assert not mine(GOOD) and mine(BAD)
        rows = {
            "jsonschema: kept validator, list(iter_errors)": rows["jsonschema: kept validator, list(iter_errors)"],
            a.parts: mine,
        }

        def compiler(schema):
            check = errors(schema)
            return lambda value: not check(value)
    else:
        rows.update(others(swallow))
    print("## argument validation, us CPU per call (8 properties, one array, one nested object)", flush=True)
    for name, fn in rows.items():
        good, bad = timed(fn, GOOD, budget), timed(fn, BAD, budget)
        print(f"{name:48s} valid {good:8.2f}   invalid {bad:8.2f}", flush=True)
    sys.exit(1 if differential(compiler, a.cases) else 0)


def others(swallow):
    rows = {}
    try:
        import fastjsonschema

        rows["fastjsonschema (compiled)"] = swallow(fastjsonschema.compile(SCHEMA), fastjsonschema.JsonSchemaException)
    except ImportError:
        pass
    try:
        import jsonschema_rs

        r = jsonschema_rs.validator_for(SCHEMA)
        rows["jsonschema-rs is_valid"] = r.is_valid
        rows["jsonschema-rs list(iter_errors)"] = lambda x: list(r.iter_errors(x))
    except ImportError:
        pass
    try:
        from typing import Literal

        from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

        class Options(BaseModel):
            model_config = ConfigDict(extra="forbid", strict=True)
            depth: int
            hidden: bool = False

        class Args(BaseModel):
            model_config = ConfigDict(extra="forbid", strict=True)
            path: str
            old: str
            new: str
            count: int = 0
            replace_all: bool = False
            mode: Literal["exact", "regex", "glob"] = "exact"
            tags: list[str] = []
            options: Options | None = None

        rows["pydantic TypeAdapter.validate_python"] = swallow(TypeAdapter(Args).validate_python, ValidationError)
    except ImportError:
        pass
    return rows


main()
