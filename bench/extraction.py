"""How well and how fast replies are read, beside the two kinds of rule that harnesses use.

    python bench/extraction.py

The first rule takes the first thing that looks like an answer (a letter, `yes` or `no`, a number, the first words);
the second looks for the gold answer as a substring of the reply. A reply without an answer counts as right when
nothing is read; the substring rule, which cannot abstain, is right there when it finds no gold in it.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snellen.scoring.answers import AnswerContext
from snellen.scoring.extract import correct, read

DATA = Path(__file__).parents[1] / "tests" / "scoring" / "data"
Row = dict[str, Any]


def context_of(row: Row) -> AnswerContext:
    return AnswerContext(question=row.get("question") or "", unit=row.get("unit") or "")


def snellen_rule(row: Row) -> bool:
    reading = read(row["kind"], row["reply"], **given_of(row))
    if row["expect"] is None:
        return reading.value is None
    return correct(row["kind"], reading, row["expect"], row.get("aliases", ()), context_of(row))


def outcome(row: Row) -> str:
    """Return right, unread or wrong; a reply without an answer is right when nothing is read."""
    reading = read(row["kind"], row["reply"], **given_of(row))
    if row["expect"] is None:
        return "right" if reading.value is None else "wrong"
    return "unread" if reading.value is None else "right" if snellen_rule(row) else "wrong"


def stage_of(row: Row) -> str:
    return read(row["kind"], row["reply"], **given_of(row)).stage


def given_of(row: Row) -> Row:
    return {name: row[name] for name in ("question", "options", "form", "unit") if name in row}


def first_match_rule(row: Row) -> bool:
    kind, reply, expect = row["kind"], row["reply"], row["expect"]
    value: Any = None
    if kind == "truth":
        match = re.search(r"\b(yes|no|true|false|t|f)\b", reply, re.IGNORECASE)
        value = match.group(1).lower() in ("yes", "true", "t") if match else None
    elif kind == "choice":
        match = re.search(r"\b([A-H])\b", reply)
        value = match.group(1) if match else None
    elif kind in ("count", "number", "quantity"):
        match = re.search(r"-?\d+(?:\.\d+)?", reply)
        value = read(kind, match.group()).value if match else None
    else:
        value = reply.strip().strip(".") or None
    if expect is None or value is None:
        return value is expect
    return correct(kind, value, expect, row.get("aliases", ()), context_of(row))


def substring_rule(row: Row) -> bool:
    expect = row["expect"]
    if row["kind"] == "truth" and isinstance(expect, bool):
        expect = "yes" if expect else "no"
    if expect is None:
        gold = row["gold"]
        return str(gold).lower() not in row["reply"].lower()
    shown = f"{expect:g}" if isinstance(expect, float) else str(expect)
    return shown.lower() in row["reply"].lower()


RULES: dict[str, Callable[[Row], bool]] = {
    "snellen": snellen_rule,
    "first match": first_match_rule,
    "substring": substring_rule,
}


def main() -> None:
    rows = [json.loads(line) for path in sorted(DATA.glob("*replies*.jsonl")) for line in path.open(encoding="utf-8")]
    right: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        for name, rule in RULES.items():
            for group in (row["kind"], row["level"]):
                right[name, group][0] += rule(row)
                right[name, group][1] += 1
    groups = [*dict.fromkeys(row["kind"] for row in rows), "easy", "hard", "none"]
    read_as = {group: Counter(outcome(row) for row in rows if group in (row["kind"], row["level"])) for group in groups}
    print(f"{'':12}" + "".join(f"{name:>14}" for name in RULES) + f"{'unread':>9}{'wrong':>8}{'n':>7}")
    for group in groups:
        shares = (right[name, group][0] / right[name, group][1] for name in RULES)
        counts, n = read_as[group], right["snellen", group][1]
        print(
            f"{group:12}"
            + "".join(f"{share:14.1%}" for share in shares)
            + f"{counts['unread'] / n:9.1%}{counts['wrong'] / n:8.1%}{n:7}"
        )
    stages = Counter(stage_of(row) for row in rows)
    print("read by stage: " + ", ".join(f"{name or 'unread'} {count:,}" for name, count in stages.most_common()))
    start = time.process_time()
    for row in rows:
        snellen_rule(row)
    spent = time.process_time() - start
    words = sum(len(row["reply"].split()) for row in rows) / len(rows)
    print(
        f"\n{len(rows) / spent:,.0f} replies/s on one core ({spent / len(rows) * 1e6:.0f} µs a reply of {words:.0f} words)"
    )
    options = {"A": "osprey", "B": "red kite"}
    timed("choice", "B", options=options)
    timed("truth", "Yes")
    timed("choice", "B. red kite", options=options)
    reasoning = "The tail is forked and the body is rufous, which is unlike what is seen in other birds of this size. "
    for kilobytes in (1, 8, 30):
        timed("choice", reasoning * (kilobytes * 10) + "Therefore, the answer is B.", options=options)
        timed("choice", f"<think>{reasoning * (kilobytes * 10)}</think>\nB", options=options)


def timed(kind: str, reply: str, **given: Any) -> None:
    times = []
    for i in range(300):
        varied = reply if len(reply) < 40 else reply.replace("tail", f"tail {i}")
        start = time.process_time_ns()
        read(kind, varied, **given)
        times.append(time.process_time_ns() - start)
    median = sorted(times)[len(times) // 2] / 1000
    print(f"{median:8.0f} µs  {kind}, {len(reply):,} characters: {reply[:24]!r}")


if __name__ == "__main__":
    main()
