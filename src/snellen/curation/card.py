"""The data card of a curated set: its questions, its construction, its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from snellen.curation.candidates import Candidate

STAGES: Mapping[str, str] = {
    "hard": "asked of closed-book models, and dropped where one knew the answer",
    "leaks": "searched for by its picture, and dropped where the web ties the picture to the answer",
    "evidence": "dropped where no given page supports the answer",
    "review": "accepted, edited or rejected by people",
}


def card(name: str, version: str, candidates: Sequence[Candidate], provenance: Mapping[str, Any]) -> str:
    """Build the README.md of a released set."""
    stages: Mapping[str, Any] = provenance["stages"]
    lines = [
        f"# {name}, version {version}",
        "",
        f"{len(candidates):,} questions about {len({candidate.sha256 for candidate in candidates}):,} pictures, with "
        f"{len({candidate.target or candidate.answer for candidate in candidates}):,} different answers, curated from "
        f"{provenance['candidates']['count']:,} candidates with Snellen {provenance['snellen']}.",
        "",
        "```",
        f"snellen run fika --data {name}-{version}.zip --model KIND:NAME",
        "```",
        "",
        "## How it was made",
        "",
        "| stage | each candidate was | entered | kept | dropped |",
        "|---|---|---|---|---|",
    ]
    for stage, action in STAGES.items():
        summary = stages[stage]
        if summary.get("skipped"):
            lines.append(f"| {stage} | **not checked: this stage was skipped** | | | |")
            continue
        counts = summary["counts"]
        lines.append(f"| {stage} | {action} | {counts['entered']:,} | {counts['keep']:,} | {counts['drop']:,} |")
    lines += ["", *_settings(stages), *_agreement(provenance), *_contents(candidates)]
    return "\n".join(lines) + "\n"


def _settings(stages: Mapping[str, Any]) -> list[str]:
    lines = ["Settings of the stages:", ""]
    for stage, summary in stages.items():
        if not summary.get("skipped"):
            values = ", ".join(f"{name} {_shown(value)}" for name, value in summary["settings"].items())
            lines.append(f"- {stage}: {values}")
    return [*lines, ""]


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " and ".join(str(part) for part in value) or "none"
    return "none" if value in (None, "") else str(value)


def _agreement(provenance: Mapping[str, Any]) -> list[str]:
    lines = []
    for pair in provenance["agreement"]:
        kappa = "not defined (both always said the same)" if pair["kappa"] is None else f"{pair['kappa']:.2f}"
        lines.append(
            f"- {' and '.join(pair['reviewers'])}: the same opinion on {pair['observed']:.1%} of {pair['n']:,}, Cohen's "
            f"kappa {kappa}"
        )
    return ["Agreement of the reviewers before either saw the other's opinion:", "", *lines, ""] if lines else []


def _contents(candidates: Sequence[Candidate]) -> list[str]:
    lines = ["## What it holds", ""]
    for field in ("domain", "subcategory", "source", "language"):
        counts = Counter(getattr(candidate, field) for candidate in candidates if getattr(candidate, field))
        if counts:
            lines.append(f"- {field}: {', '.join(f'{value} {n:,}' for value, n in sorted(counts.items()))}")
    return [
        *lines,
        "",
        "| file | |",
        "|---|---|",
        "| `manifest.jsonl` | a question a line: id, image, question, answer, aliases, evidence, domain, subcategory, "
        "source, language, target |",
        "| `images/` | the pictures under numbers, without Exif or other metadata |",
        "| `provenance.json` | by question: what models, search, pages and reviewers said |",
        "",
        "The answers, evidence links and provenance give the questions away: keep them from models that are evaluated, "
        "and from what these can search. Pictures keep the licences that they came with; name them here before you "
        "pass the set on.",
    ]
