"""Checks as the pages of CI services show them: JUnit XML, and Markdown of a step.

JUnit XML about checks: one suite per run, one case per check, for the test pages of CI services.

The form is that of Ant and Jenkins, which GitLab, GitHub actions, Azure and CircleCI read too: testsuites, testsuite,
properties, testcase, failure and error.

Markdown for the page of a CI step, such as GitHub's step summary: checks, metrics, comparison and ranking.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from snellen.atomic_write import replacing
from snellen.redaction import redact
from snellen.runs.threshold_check import CheckCase, CheckSuite
from snellen.scoring.metric_text import counted, span
from snellen.text import one_line
from snellen.types import Metric

if TYPE_CHECKING:
    from snellen.runs.compare import Pairing
    from snellen.runs.ranking import Ranking


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, suites: Sequence[CheckSuite]) -> None:
    """Write the suites to a file, and make its folder.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_bytes(junit_xml(suites))


def junit_xml(suites: Sequence[CheckSuite]) -> bytes:
    """Return the XML of the suites, in UTF-8, without keys and without characters that XML cannot hold."""
    root = ElementTree.Element("testsuites", {"name": "snellen", **_counts([c for s in suites for c in s.cases])})
    for suite in suites:
        seconds = f"{suite.seconds:.3f}"
        element = ElementTree.SubElement(
            root, "testsuite", {"name": _text(suite.name), **_counts(suite.cases), "skipped": "0", "time": seconds}
        )
        if suite.properties:
            properties = ElementTree.SubElement(element, "properties")
            for name, value in suite.properties.items():
                ElementTree.SubElement(properties, "property", {"name": _text(name), "value": _text(value)})
        for case in suite.cases:
            # A dot would be read as a package of Java.
            classname = f"snellen.{_text(suite.name).replace('.', '_')}"
            attributes = {"classname": classname, "name": _text(case.name), "time": "0"}
            node = ElementTree.SubElement(element, "testcase", attributes)
            if case.outcome == "passed":
                ElementTree.SubElement(node, "system-out").text = _text(case.text)
            else:
                tag = "failure" if case.outcome == "failed" else "error"
                first_line = _text(case.text).partition("\n")[0]
                reason = ElementTree.SubElement(node, tag, {"message": first_line, "type": case.kind or tag})
                reason.text = _text(case.text)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _counts(cases: Sequence[CheckCase]) -> dict[str, str]:
    return {
        "tests": str(len(cases)),
        "failures": str(sum(case.outcome == "failed" for case in cases)),
        "errors": str(sum(case.outcome == "error" for case in cases)),
    }


def _text(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", redact(text))


MOST_BYTES = 900_000
"""GitHub refuses more than 1 MiB a step."""
MOST_ROWS = 40
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~])")
_MARKS = {"passed": "✅", "failed": "❌", "error": "⚠️"}


def append_summary(path: Path, markdown: str) -> None:
    """Append Markdown to a file, and make its folder; what other commands wrote there stays.

    Raises:
        OSError: it cannot be written.
    """
    data = redact(markdown).encode("utf-8", "replace")
    if len(data) > MOST_BYTES:
        data = data[:MOST_BYTES].decode("utf-8", "ignore").encode() + b"\n\n(cut off)\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(data)


def checks_markdown(cases: Iterable[CheckCase]) -> str:
    """Return a list of checks, each with its mark and its sentence."""
    lines = [f"- {_MARKS[case.outcome]} **{escaped(case.name)}**: {escaped(case.text)}" for case in cases]
    return "\n".join([*lines, ""]) if lines else ""


def metrics_markdown(title: str, metrics: Sequence[Metric]) -> str:
    """Return a heading and a table of metrics with intervals, n and coverage."""
    rows = [
        (
            escaped(metric.name),
            "–" if metric.value is None else f"{metric.value:.4f}",
            span(metric.ci95, ".4f"),
            counted(metric.n, metric.interval),
            f"{metric.coverage:.1%}",
            "" if metric.chance is None else f"{metric.chance:.3f}",
        )
        for metric in metrics[:MOST_ROWS]
    ]
    table = _table(("metric", "value", "95 % interval", "n", "coverage", "chance"), rows)
    omitted = len(metrics) - len(rows)
    return f"### {escaped(title)}\n\n{table}" + (f"\n{omitted:,} more metrics are omitted.\n" if omitted else "")


def comparison_markdown(pairing: Pairing) -> str:
    """Return a heading and a table of the parts of one comparison, with its notes."""
    rows = []
    for part in pairing.parts[:MOST_ROWS]:
        comparison = part.comparison
        rows.append(
            (
                escaped(part.name),
                counted(comparison.n, comparison.interval),
                f"{part.baseline:.4f}",
                f"{part.other:.4f}",
                f"{comparison.difference:+.4f}",
                span(comparison.ci95, "+.4f"),
                f"{comparison.p_value:.2g}",
            )
        )
    headings = ("samples", "n", "baseline", "other", "difference", "95 % interval", "p")
    notes = "".join(f"- {escaped(line)}\n" for line in pairing.notes)
    title = f"{pairing.other} against {pairing.baseline}, {pairing.profile}"
    return f"### {escaped(title)}\n\n{_table(headings, rows)}" + (f"\n{notes}" if notes else "")


def ranking_markdown(ranking: Ranking) -> str:
    """Return a heading and the table of a ranking."""
    rows = [
        (str(run.rank), escaped(run.run), f"{run.score:.4f}", span(run.ci95, ".4f"), run.groups) for run in ranking.runs
    ]
    table = _table(("rank", "run", "score", "95 % interval", "group"), rows)
    return (
        f"### Ranking over {ranking.n:,} samples, {escaped(ranking.profile)}\n\n{table}\n"
        f"Runs that share a letter cannot be told apart (Holm, {ranking.alpha:g} over all pairs).\n"
    )


def escaped(text: str) -> str:
    """Return text on one line, with the characters that Markdown and HTML read as marks escaped."""
    return _SPECIAL.sub(r"\\\1", one_line(text))


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
