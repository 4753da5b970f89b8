"""The data card of a curated set: what it asks, how it was made, what its files hold."""

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


def card(name: str, version: str, kept: Sequence[Candidate], provenance: Mapping[str, Any]) -> str:
    """README.md of a pack."""
    stages: Mapping[str, Any] = provenance["stages"]
    lines = [
        f"# {name}, version {version}",
        "",
        f"{len(kept):,} questions about {len({one.sha256 for one in kept}):,} pictures, with "
        f"{len({one.target or one.answer for one in kept}):,} different answers, curated from "
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
    for stage, what in STAGES.items():
        one = stages[stage]
        if one.get("skipped"):
            lines.append(f"| {stage} | **not checked: this stage was skipped** | | | |")
            continue
        counts = one["counts"]
        lines.append(f"| {stage} | {what} | {counts['entered']:,} | {counts['keep']:,} | {counts['drop']:,} |")
    lines += ["", *_settings(stages), *_agreement(provenance), *_contents(kept)]
    return "\n".join(lines) + "\n"


def _settings(stages: Mapping[str, Any]) -> list[str]:
    lines = ["Settings of the stages:", ""]
    for stage, one in stages.items():
        if not one.get("skipped"):
            shown = ", ".join(f"{name} {_shown(value)}" for name, value in one["settings"].items())
            lines.append(f"- {stage}: {shown}")
    return [*lines, ""]


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " and ".join(str(part) for part in value) or "none"
    return "none" if value in (None, "") else str(value)


def _agreement(provenance: Mapping[str, Any]) -> list[str]:
    lines = []
    for one in provenance["agreement"]:
        kappa = "not defined (both always said the same)" if one["kappa"] is None else f"{one['kappa']:.2f}"
        lines.append(
            f"- {' and '.join(one['reviewers'])}: the same opinion on {one['observed']:.1%} of {one['n']:,}, Cohen's "
            f"kappa {kappa}"
        )
    return ["Agreement of the reviewers before either saw the other's opinion:", "", *lines, ""] if lines else []


def _contents(kept: Sequence[Candidate]) -> list[str]:
    lines = ["## What it holds", ""]
    for field in ("domain", "subcategory", "source", "language"):
        counts = Counter(getattr(one, field) for one in kept if getattr(one, field))
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
