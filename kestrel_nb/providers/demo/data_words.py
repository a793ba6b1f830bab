"""The words of requests about tables: statistics, kinds of figures, groups, and words that say nothing."""

from __future__ import annotations

import re


def _set(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\S+", text))


STATS = {
    word: stat
    for stat, words in {
        "mean": "mean means average averages avg",
        "median": "median medians",
        "sum": "sum sums total totals",
        "min": "min minimum smallest lowest least lightest shortest earliest oldest",
        "max": "max maximum highest largest greatest biggest heaviest longest tallest latest newest",
        "std": "std sd stdev",
        "var": "variance var",
    }.items()
    for word in words.split()
}
"""Word -> the method of pandas."""
UP = _set("ascending bottom lowest smallest least lightest shortest fewest earliest oldest")
DOWN = _set(
    "descending top highest largest greatest biggest heaviest longest tallest most latest newest decreasing reverse"
)
DRAW = _set(
    "plot plots draw graph chart charts visualise visualize diagram scatter scatterplot histogram hist distribution"
    " bar bars barplot box boxes boxplot line lines curve"
)
CHARTS = {
    word: chart
    for chart, words in {
        "scatter": "scatter scatterplot",
        "hist": "histogram hist distribution",
        "bar": "bar bars barplot",
        "box": "box boxes boxplot",
        "line": "line lines curve",
    }.items()
    for word in words.split()
}
MISSING = _set("missing null nulls nan nans na nas empty")
CORRELATED = _set("correlation correlations correlate correlated correlates corr")
SORT = _set("sort sorted order ordered rank")
UNIQUE = _set("unique distinct different")
SUMMARY = _set("summary statistics statistic stats summarise summarize")
LOOK = _set("look inspect describe columns column schema structure dtypes dtype types type info shape")
HOLDS = _set("contain contains hold holds inside")
ROWS = _set("row rows record records entry entries observation observations")
VERSUS = _set("against versus vs")
NOISE = _set(
    "the a an all my our your this that these those please me us there just whole entire overall various value values"
    " data dataset dataframe frame table variable what whats s is are was were which how show give compute calculate"
    " find get tell list print display see view of in for from on to at and do does did have has had i we you need"
    " want know make create out up work with as it be between among across many much count number using versus vs"
    " against different column columns please strongly well relationship exist"
)
BY = (
    "grouped by,group by,broken down by,split by,separated by,coloured by,colored by,colour by,color by,for each"
    ",for every,of each,of every,in each,in every,within each,on each,by each,by,per,each,every,over,across"
)
BY_WORDS = tuple(tuple(phrase.split()) for phrase in BY.split(","))
COMPARE = {"is": "==", "=": "==", "==": "==", "equals": "==", "are": "==", "!=": "!=", ">": ">", "<": "<"}
COMPARE |= {">=": ">=", "<=": "<=", "above": ">", "over": ">", "below": "<", "under": "<"}


ORDERS = _set("ascending descending decreasing reverse")

OWN_WORDS: dict[str, frozenset[str]] = {
    "plot": DRAW | VERSUS | frozenset(STATS) | _set("counts function over time trend") | ROWS,
    "missing": MISSING | ROWS | _set("per each by contain contains any"),
    "correlation": CORRELATED | _set("matrix coefficient pearson numeric"),
    "sort": SORT | UP | DOWN | ROWS | _set("by first max maximum min minimum"),
    "unique": UNIQUE,
    "distinct": UNIQUE,
    "head": ROWS | _set("first head top"),
    "tail": ROWS | _set("last tail bottom"),
    "summary": SUMMARY | _set("describe descriptive basic"),
    "stat": frozenset(STATS) | UP | DOWN | _set("numeric"),
    "count": ROWS | _set("counts size"),
    "rows": ROWS,
    "look": LOOK | HOLDS,
}


GRAMMAR = _set(
    "mean average avg median sum total min max minimum maximum std deviation standard variance count number how many"
    " missing null nan na empty correlation correlate sort order top bottom first last head tail row rows record"
    " entry unique distinct different plot scatter histogram hist distribution bar box line chart graph draw by per"
    " each every and or of in for from with the a an is are what which where summary statistic describe column"
    " columns highest lowest largest smallest greatest biggest show list"
)
"""Words that say what to do; a part of a column's name does not make them a column."""
