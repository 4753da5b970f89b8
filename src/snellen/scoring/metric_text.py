"""Text form of metrics: names, shares, intervals in one notation (`0.301 – 0.954`), one set of method marks for all tables."""

from __future__ import annotations

from collections.abc import Iterable

from snellen.types import IntervalMethod, Metric

HEADS = frozenset(
    {"drop", "consistency", "kinship", "stem", "class_worst", "class_best", "class_gap", "class_std", "class_spread"}
    | {"class_perfect", "class_share", "class_count", "class_histogram"}
)
"""First parts of the names of the metrics of a diagnosis over a taxonomy (after the name of a data set, if there is one)."""
BY_LETTER = ("accuracy/gold/", "replies/")
"""First parts of the names of the metrics of a bias towards letters of options (benchmarks/table/summary.py)."""
DETAILS = frozenset({"cue", "type", "pattern"})
"""Parts of the names of the metrics of VLM2-Bench's breakdowns (benchmarks/vlm2/metrics.py)."""
MARKS = {
    "Wilson": "W",
    "Wilson, effective size": "We",
    "cluster-robust Wilson": "CW",
    "Wilson over clusters": "Wc",
    "bootstrap": "B",
    "cluster bootstrap": "CB",
    "m out of n bootstrap": "Bm",
    "m out of n cluster bootstrap": "CBm",
    "Student t": "T",
    "cluster-robust t": "CT",
    "MOVER": "M",
    "cluster-robust MOVER": "CM",
    "MOVER, a group under 5 rows": "Ms",
    "cluster-robust MOVER, a group under 5 rows": "CMs",
    "Bonett-Price": "BP",
    "cluster-robust Bonett-Price": "CBP",
    "Newcombe": "N",
    "paired t": "PT",
    "linearised t": "LT",
    "Jeffreys": "J",
    "cluster-robust Jeffreys": "CJ",
    "prediction-powered": "PP",
    "cluster-robust prediction-powered": "CPP",
    "posterior of the threshold, equal tails": "P",
    "item response theory, models left out": "IRT",
}
"""Short marks of interval methods, for narrow tables."""
MOST_REASONS = 3
"""Different reasons for no interval that a legend gives."""


def is_diagnosis(name: str) -> bool:
    """Return True for the name of a metric of a diagnosis over a taxonomy, of one data set (`birds/drop/...`) or of all."""
    return not HEADS.isdisjoint(name.split("/")[:-1])


def is_by_class(name: str) -> bool:
    """Return True for a metric of a diagnosis other than the drops from level to level."""
    return is_diagnosis(name) and "drop" not in name.split("/")[:-1]


def is_detail(name: str) -> bool:
    """Return True for a metric that tables after a run leave to `snellen score --all`: by class, by letter, by wording."""
    return is_by_class(name) or name.startswith(BY_LETTER) or not DETAILS.isdisjoint(name.split("/")[:-1])


def percent(share: float, digits: int = 1) -> str:
    """Format a share as `83.1`; never rounds up to 100 or down to 0 what is not: `> 99.9`, `< 0.1`."""
    text = f"{100 * share:.{digits}f}"
    if share < 1.0 and float(text) >= 100.0:
        return f"> {100 - 10**-digits:.{digits}f}"
    if share > 0.0 and float(text) == 0.0:
        return f"< {10**-digits:.{digits}f}"
    return text


def span(ends: tuple[float, float] | None, form: str = ".3f", *, scale: float = 1.0) -> str:
    """Format an interval as `0.301 – 0.954`; empty for None.

    Args:
        form: format of each end, such as `.3f` or `+.1f`.
        scale: factor of each end; 100 writes a fraction in per cent.
    """
    return "" if ends is None else f"{scale * ends[0]:{form}} – {scale * ends[1]:{form}}"


def bracketed(ends: tuple[float, float] | None, form: str = ".3f", *, scale: float = 1.0) -> str:
    """Format an interval for running text: ` [0.301 – 0.954]`, with a leading space; empty for None."""
    return "" if ends is None else f" [{span(ends, form, scale=scale)}]"


def counted(n: int, about: IntervalMethod | None) -> str:
    """Format a number of samples, with the effective number of their clusters: `2,160 (19.2 clusters)`."""
    if about is None or about.cluster is None or about.effective is None:
        return f"{n:,}"
    return f"{n:,} ({about.effective:,.{0 if about.effective >= 100 else 1}f} clusters)"


def mark(about: IntervalMethod | None) -> str:
    """Return the mark of a method with a leading space, ` –` for no interval; empty if the method is unknown."""
    if about is None:
        return ""
    return " –" if about.is_none else f" {MARKS.get(about.method, about.method)}"


def legend(metrics: Iterable[Metric]) -> str:
    """Explain the marks of these metrics: `95 % intervals: W Wilson, CW cluster-robust Wilson by image, – no interval: …`."""
    words: dict[str, list[str]] = {}
    reasons: dict[str, None] = {}
    for metric in metrics:
        about = metric.interval
        if about is None:
            continue
        if about.is_none:
            reasons.setdefault(f"– {about.text}")
            continue
        clusters = words.setdefault(about.method, [])
        if about.cluster is not None and about.cluster not in clusters:
            clusters.append(about.cluster)
    parts = [
        f"{MARKS.get(method, method)} {method}" + (f" by {' or '.join(sorted(clusters))}" if clusters else "")
        for method, clusters in sorted(
            words.items(), key=lambda item: list(MARKS).index(item[0]) if item[0] in MARKS else 99
        )
    ]
    parts += list(reasons)[:MOST_REASONS] + ["…"] * (len(reasons) > MOST_REASONS)
    return f"95 % intervals: {', '.join(parts)}" if parts else ""
