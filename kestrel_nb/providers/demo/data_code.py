"""The pandas and matplotlib code that answers a request about a table, written to be read."""

from __future__ import annotations

from collections.abc import Sequence

from .columns import Column, Table, Unclear, keys, pick
from .data_requests import Ask
from .plots import plot_code
from .python_text import quoted
from .quoting import code


def code_for(ask: Ask, table: Table) -> str:
    """Code whose last expression is the answer. Raises Unclear when ``ask`` can't be answered with these columns."""
    frame = _frame(ask, table)
    match ask.action:
        case "plot":
            return plot_code(ask, table, frame)
        case "stat":
            return _stat(ask, table, frame)
        case "count":
            return _count(ask, table, frame)
        case "rows":
            return f"len({frame})"
        case "missing":
            return _missing(ask, table, frame)
        case "correlation":
            return _correlation(ask, table, frame)
        case "sort":
            return _sort(ask, table, frame)
        case "unique":
            return _counts(table.columns[ask.measures[0]], frame)
        case "distinct":
            return f"{frame}[{table.columns[ask.measures[0]].key}].nunique()"
        case "summary":
            return f"{_chosen(ask, table, frame)}.describe()"
        case _:
            return f"{frame}.{ask.action}({5 if ask.n is None else ask.n})"


def title_of(ask: Ask, table: Table) -> str:
    """What the code gives, in a few words: "mean `body_mass_g` of `penguins` by `species`"."""
    measures = " and ".join(map(code, _names(ask.measures, table)))
    by = f" by {' and '.join(map(code, _names(ask.by, table)))}" if ask.by else ""
    name = code(table.name)
    of, end = f" of {name}", "highest" if ask.descending else "lowest"
    titles = {
        "stat": f"{' and '.join(map(_spoken, ask.stats))} {measures or 'of the numeric columns'}{of}{by}",
        "count": f"number of rows{of}{by}",
        "rows": f"number of rows{of}",
        "missing": f"number of missing values{' in ' + measures if measures else ' per column'}{of}",
        "correlation": f"correlation of {measures or 'the numeric columns'}{of}{by}",
        "sort": f"{'rows' if ask.n is None else _first(ask.n)}{of} from the {end} {measures}",
        "unique": f"values of {measures} in {name}, with how often each occurs",
        "distinct": f"number of different values of {measures} in {name}",
        "summary": f"summary {'of ' + measures if measures else 'of the numeric columns'}{of}{by}",
        "head": f"first {5 if ask.n is None else ask.n} rows{of}",
        "tail": f"last {5 if ask.n is None else ask.n} rows{of}",
        "plot": f"figure of {measures or 'the rows'}{of}{by}",
    }
    where = (
        f" where {code(table.columns[ask.where[0]].name)} {ask.where[1]} {code(str(ask.where[2]))}" if ask.where else ""
    )
    return titles[ask.action] + where


def _spoken(stat: str) -> str:
    return {"std": "standard deviation of", "var": "variance of", "min": "lowest", "max": "highest"}.get(stat, stat)


def _first(n: int) -> str:
    return "first row" if n == 1 else f"first {n} rows"


def _columns(numbers: Sequence[int], table: Table) -> list[Column]:
    return [table.columns[number] for number in numbers]


def _names(numbers: Sequence[int], table: Table) -> list[str]:
    return [table.columns[number].name for number in numbers]


def _frame(ask: Ask, table: Table) -> str:
    if ask.where is None:
        return table.name
    column, operator, value = ask.where
    compared = table.columns[column]
    if compared.dtype and compared.numeric and not compared.truth and isinstance(value, str):
        raise Unclear(f"{code(compared.name)} is a column of numbers, {code(value)} is none")
    if not compared.numeric and not isinstance(value, str):
        raise Unclear(f"{code(compared.name)} is a column of {compared.dtype}, {value} is a number")
    given = quoted(value) if isinstance(value, str) else repr(value)
    return f"{table.name}[{table.name}[{table.columns[column].key}] {operator} {given}]"


def _numbers(numbers: Sequence[int], table: Table, what: str) -> list[Column]:
    """The columns ``numbers``. Raises Unclear when one can't be computed with."""
    for column in _columns(numbers, table):
        if not column.numeric:
            raise Unclear(f"{code(column.name)} is a column of {column.dtype}, not numbers, so it has no {what}")
    return _columns(numbers, table)


def _stat(ask: Ask, table: Table, frame: str) -> str:
    columns = _columns(ask.measures, table)
    if not (set(ask.stats) <= {"min", "max"} and all(column.ordered for column in columns)):
        _numbers(ask.measures, table, ask.stats[0])
    if set(ask.measures) & set(ask.by):
        raise Unclear(f"{code(table.columns[ask.by[0]].name)} can't be grouped by and computed with at once")
    several = len(ask.stats) > 1
    if several and len(ask.measures) != 1:
        raise Unclear("several statistics are possible of one column at a time")
    call = (
        f"agg([{', '.join(map(quoted, ask.stats))}])"
        if several
        else f"{ask.stats[0]}({'' if ask.measures else 'numeric_only=True'})"
    )
    if not ask.by:
        return f"{frame}{pick(_columns(ask.measures, table))}.{call}"
    grouped = f"{frame}.groupby({_keys(ask, table)}{'' if several else ', as_index=False'})"
    source = f"{grouped}{pick(_columns(ask.measures, table))}.{call}{'.reset_index()' if several else ''}"
    if ask.n is None:
        return source
    key = quoted(ask.stats[0]) if several else columns[0].key
    return f"{source}.sort_values({key}, ascending={not ask.descending}, ignore_index=True)"


def _keys(ask: Ask, table: Table) -> str:
    return keys(_columns(ask.by, table))


def _count(ask: Ask, table: Table, frame: str) -> str:
    columns = _columns(ask.by, table)
    if len(columns) == 1:
        return _counts(columns[0], frame)
    total = "count" if "count" not in _names(ask.by, table) else "rows"
    return f"{frame}.groupby({keys(columns)}, dropna=False).size().reset_index(name={quoted(total)})"


def _counts(column: Column, frame: str) -> str:
    return f"{frame}[{column.key}].value_counts(dropna=False)" + (
        '.rename_axis("value").reset_index()' if column.name == "count" else ".reset_index()"
    )


def _missing(ask: Ask, table: Table, frame: str) -> str:
    if ask.by:
        raise Unclear("missing values are counted per column, not by groups")
    if len(ask.measures) == 1:
        return f"{frame}{pick(_columns(ask.measures, table))}.isna().sum()"
    counted = f"{frame}{pick(_columns(ask.measures, table))}.isna().sum()"
    return f'{counted}.rename_axis("column").reset_index(name="missing")'


def _correlation(ask: Ask, table: Table, frame: str) -> str:
    names = _numbers(ask.measures, table, "correlation")
    if len(names) == 1:
        raise Unclear("a correlation needs two columns")
    if not ask.by:
        if len(names) == 2:
            return f"{frame}[{names[0].key}].corr({frame}[{names[1].key}])"
        return f"{frame}{pick(names)}.corr()" if names else f"{frame}.corr(numeric_only=True)"
    if len(names) != 2:
        raise Unclear("a correlation by groups needs two columns")
    if table.rows == 0:
        raise Unclear(f"{code(table.name)} has no rows")
    each = f"lambda rows: rows[{names[0].key}].corr(rows[{names[1].key}])"
    grouped = f"{frame}.groupby({_keys(ask, table)}){pick(names)}"
    return f'{grouped}.apply({each}).reset_index(name="correlation")'


def _sort(ask: Ask, table: Table, frame: str) -> str:
    if ask.by and not all(column.ordered for column in _columns(ask.measures, table)):
        raise Unclear("it is not clear what to sort by, as in: the top 5 rows by body mass")
    key = keys(_columns(ask.measures, table))
    order = ", ascending=False" if ask.descending else ""
    return f"{frame}.sort_values({key}{order})" + ("" if ask.n is None else f".head({ask.n})")


def _chosen(ask: Ask, table: Table, frame: str) -> str:
    grouped = f".groupby({_keys(ask, table)})" if ask.by else ""
    return f"{frame}{grouped}{pick(_columns(ask.measures, table))}"
