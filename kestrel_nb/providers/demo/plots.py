"""Code for figures: plain matplotlib, with axis labels, a title and, for groups, a legend."""

from __future__ import annotations

from collections.abc import Sequence

from .columns import Column, Table, Unclear, keys, pick
from .data_requests import Ask
from .python_text import quoted
from .quoting import code

BINS = 20  # of a histogram


def plot_code(ask: Ask, table: Table, frame: str) -> str:
    """Code that draws the figure and shows it. Raises Unclear when the columns do not make one."""
    measures = [table.columns[number] for number in ask.measures]
    by = [table.columns[number] for number in ask.by]
    chart = ask.chart or _usual(measures, by, ask.stats)
    if table.rows == 0:
        raise Unclear(f"{code(table.name)} has no rows to draw")
    draw = {"scatter": _scatter, "hist": _hist, "bar": _bar, "box": _box, "line": _line}.get(chart)
    if draw is None:
        raise Unclear("it is not clear what to draw: name one or two columns, or a mean by groups")
    lines = draw(ask, measures, by, frame)
    return "\n".join(["import matplotlib.pyplot as plt", "", "plt.figure()", *lines, "plt.show()"])


def _usual(measures: Sequence[Column], by: Sequence[Column], stats: Sequence[str]) -> str:
    """The kind of figure that these columns usually make."""
    if stats and by:
        return "line" if stats != ("count",) and len(by) == 1 and by[0].ordered else "bar"
    if len(measures) == 2 and all(column.ordered for column in measures):
        return "scatter"
    if len(measures) == 1 and measures[0].numeric:
        return "box" if by else "hist"
    if len(measures) == 2 and not by:
        return "scatter"  # which says why these columns make none
    return "bar" if len(measures) == 1 or (by and not measures) else ""


def _labels(x: str, y: str, title: str, legend: str = "") -> list[str]:
    lines = [f"plt.xlabel({_shown(x)})", f"plt.ylabel({_shown(y)})", f"plt.title({_shown(title)})"]
    return [*lines, f"plt.legend(title={_shown(legend)})"] if legend else lines


def _shown(text: str) -> str:
    """``text`` as a literal that matplotlib writes as it is; between two dollars would stand a formula."""
    return quoted(text.replace("$", "\\$"))


def _numeric(columns: Sequence[Column]) -> None:
    for column in columns:
        if not column.ordered or column.truth:
            raise Unclear(
                f"{code(column.name)} is a column of {column.dtype}, not numbers, so it has no place on that axis"
                f"{_possible(column, columns)}"
            )


def _possible(column: Column, columns: Sequence[Column]) -> str:
    """What can be drawn of ``column`` together with the other one."""
    other = next((other for other in columns if other is not column), None)
    if other is None:
        return ""
    if not other.numeric or other.truth:
        return f"; I can draw: bar chart of the count by {code(column.name)}"
    by = f"{code(other.name)} by {code(column.name)}"
    return f"; I can draw: box plot of {by}, or bar chart of the mean {by}"


def _one_group(by: Sequence[Column]) -> None:
    if len(by) > 1:
        raise Unclear("this figure can be split by one column only")


def _scatter(ask: Ask, measures: Sequence[Column], by: Sequence[Column], frame: str) -> list[str]:
    if len(measures) != 2:
        raise Unclear("a scatter plot needs two columns of numbers")
    _numeric(measures)
    _one_group(by)
    x, y = (measures[1], measures[0]) if ask.flipped else (measures[0], measures[1])
    title = f"{y.name} against {x.name}"
    if not by:
        return [f"plt.scatter({frame}[{x.key}], {frame}[{y.key}])", *_labels(x.name, y.name, title), *_slanted(x)]
    return [
        f"for _name, _rows in {frame}.groupby({by[0].key}, dropna=False):",
        f"    plt.scatter(_rows[{x.key}], _rows[{y.key}], label=str(_name))",
        *_labels(x.name, y.name, f"{title} by {by[0].name}", by[0].name),
        *_slanted(x),
    ]


def _slanted(axis: Column) -> list[str]:
    """Dates are too long to stand side by side."""
    return ['plt.xticks(rotation=45, ha="right")'] if axis.date else []


def _hist(ask: Ask, measures: Sequence[Column], by: Sequence[Column], frame: str) -> list[str]:
    if len(measures) != 1:
        raise Unclear("a histogram needs one column")
    _one_group(by)
    column = measures[0]
    if not column.ordered or column.truth:
        return _bar(ask, (), [column], frame)
    if not by:
        draw = [f"plt.hist({frame}[{column.key}].dropna(), bins={BINS})"]
        return [*draw, *_labels(column.name, "count", f"Distribution of {column.name}"), *_slanted(column)]
    grouped = f"{frame}.groupby({by[0].key}, dropna=False)[{column.key}]"
    return [
        f"_groups = {{str(name): values.dropna() for name, values in {grouped}}}",
        f"plt.hist(list(_groups.values()), bins={BINS}, stacked=True, label=list(_groups))",
        *_labels(column.name, "count", f"Distribution of {column.name} by {by[0].name}", by[0].name),
        *_slanted(column),
    ]


def _grouped(ask: Ask, measures: Sequence[Column], by: Sequence[Column], frame: str) -> tuple[str, str]:
    """The numbers of a bar or line chart as an expression, and what they are."""
    apart = ".unstack()" if len(by) == 2 else ""
    if len(by) > 2:
        raise Unclear("this figure can be split by two columns at most")
    if not measures:
        counts = (
            f"{frame}[{by[0].key}].value_counts(dropna=False)"
            if len(by) == 1
            else f"{frame}.groupby({keys(by)}).size()"
        )
        return counts + apart, "count"
    if len(measures) != 1 or len(ask.stats) != 1 or ask.stats == ("count",):
        raise Unclear("say which number of one column to draw, as in: mean body mass by species")
    if not measures[0].numeric:
        raise Unclear(
            f"{code(measures[0].name)} is a column of {measures[0].dtype}, not numbers, so it has no {ask.stats[0]}"
        )
    stat = ask.stats[0]
    if measures[0].truth and stat in ("min", "max"):
        raise Unclear(f"{code(measures[0].name)} is True or False, so its {stat} can't be drawn")
    return f"{frame}.groupby({keys(by)}){pick(measures[:1])}.{stat}(){apart}", f"{stat} {measures[0].name}"


def _bar(ask: Ask, measures: Sequence[Column], by: Sequence[Column], frame: str) -> list[str]:
    if not by and len(measures) == 1 and ask.stats in ((), ("count",)):
        measures, by = (), measures
    if not by:
        raise Unclear("a bar chart needs groups, as in: bar chart of the mean body mass by species")
    numbers, what = _grouped(ask, measures, by, frame)
    draw = f"{numbers}.plot.bar(rot=0, ax=plt.gca())"
    return [draw, *_labels(by[0].name, what, _title(what, by)), *_slanted(by[0])]


def _line(ask: Ask, measures: Sequence[Column], by: Sequence[Column], frame: str) -> list[str]:
    if not ask.stats:
        return _plain_line(ask, measures, by, frame)
    if not by:
        raise Unclear("a line needs a column to run along, as in: plot the mean body mass over year")
    axis = next((column for column in by if column.ordered), by[0])
    order = [axis, *(column for column in by if column is not axis)]
    numbers, what = _grouped(ask, measures, order, frame)
    if not measures:
        numbers = numbers.replace(".value_counts(dropna=False)", ".value_counts().sort_index()")
    return [f'{numbers}.plot(marker="o", ax=plt.gca())', *_labels(axis.name, what, _title(what, order)), *_whole(axis)]


def _plain_line(ask: Ask, measures: Sequence[Column], by: Sequence[Column], frame: str) -> list[str]:
    if len(measures) == 1 and len(by) == 1:  # "plot the price over time"
        y, x = measures[0], by[0]
    elif len(measures) == 2 and not by:
        x, y = (measures[1], measures[0]) if ask.flipped else (measures[0], measures[1])
    else:
        raise Unclear("a line needs two columns: one to run along, and one of numbers")
    _numeric((x, y))
    draw = [f"_rows = {frame}.sort_values({x.key})", f"plt.plot(_rows[{x.key}], _rows[{y.key}])"]
    return [*draw, *_labels(x.name, y.name, f"{y.name} over {x.name}"), *_whole(x), *_slanted(x)]


def _whole(axis: Column) -> list[str]:
    """Years and other whole numbers get no ticks between them."""
    whole = axis.dtype.lower().lstrip("u").startswith("int")
    return ["plt.gca().xaxis.get_major_locator().set_params(integer=True)"] if whole else []


def _title(what: str, by: Sequence[Column]) -> str:
    return f"{what[0].upper()}{what[1:]} by {' and '.join(column.name for column in by)}"


def _box(ask: Ask, measures: Sequence[Column], by: Sequence[Column], frame: str) -> list[str]:
    if len(measures) != 1:
        raise Unclear("a box plot needs one column of numbers")
    _numeric(measures)
    if not measures[0].numeric:
        raise Unclear(
            f"{code(measures[0].name)} is a column of {measures[0].dtype}, not numbers, so it has no box plot"
        )
    _one_group(by)
    name = measures[0].name
    group = f", by=[{by[0].key}]" if by else ""
    draw = f"{frame}.boxplot(column={measures[0].key}{group}, grid=False, ax=plt.gca())"
    title = f"{name} by {by[0].name}" if by else name
    return [draw, 'plt.suptitle("")', *_labels(by[0].name if by else "", name, title)]
