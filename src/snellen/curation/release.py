"""Stage 5, release: a versioned zip for `snellen run fika --data`, with data card and provenance.

```
NAME-VERSION.zip
  data/README.md         the data card
  data/manifest.jsonl    the questions
  data/provenance.json   how each came to be here
  data/images/000017.jpg
NAME-VERSION.zip.sha256
```

The same decisions give the same bytes. What a reviewer has edited is held against the recorded hits, pages and replies
again, and is left out where it would not have come so far.
"""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen import __version__
from snellen.curation import DECIDING, evidence, leaks, model_filter, review_cases
from snellen.curation.workspace import Candidate, StageDecision, Work
from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError, RunError, UsageError
from snellen.text import pretty_json, slug

ROOT = "data"
FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHOWN = 5
_READING = "reading"


class ReleasedSet(Struct, frozen=True):
    """A written release: zip, SHA-256, number of questions, and omitted edits with reasons."""

    path: Path
    sha256: str
    questions: int
    left_out: Mapping[str, str]


def pack(
    work: Work, version: str, *, name: str = "", skip: Collection[str] = (), without_undecided: bool = False
) -> ReleasedSet:
    """Write the zip of all candidates that every stage kept.

    Args:
        version: of the set; goes into its name. An existing pack is never replaced by another one.
        name: what the set is called; empty: the working folder's name.
        skip: stages that were not run; the data card says so.
        without_undecided: leave out candidates that a stage could not decide on; else they are an error.

    Raises:
        RunError: a stage has not been run, or has left candidates undecided.
        UsageError: name or version cannot be part of a file name, or the version exists with other contents.
        DataError: nothing was kept, or an image was changed since it was taken in.
    """
    name = name or slug(work.state.name) or "curated"
    require_release_names(name, version)
    entering = work.entering("pack", skip)
    if not without_undecided:
        _require_decided(work, skip)
    candidates, left_out = _as_reviewed(work, entering, skip)
    if not candidates:
        raise DataError(
            f"{work.path}: no candidate was kept by every stage", "The files of the stages give the reasons."
        )
    provenance = _provenance(work, name, version, candidates, left_out, skip)
    data = _zip(work, name, version, candidates, provenance)
    path = work.folder("packs") / f"{name}-{version}.zip"
    if path.exists() and path.read_bytes() != data:
        raise UsageError(f"{path} exists with other contents; versions are never replaced", "Give another --version.")
    digest = sha256(data).hexdigest()
    files = RunFolder(work.path)
    files.write(path, data)
    files.write(path.with_name(path.name + ".sha256"), f"{digest}  {path.name}\n".encode())
    return ReleasedSet(path, digest, len(candidates), left_out)


def require_release_names(name: str, version: str) -> None:
    """Refuse a set name or version that cannot be part of a file name. Raises UsageError."""
    for option, text in (("name", name), ("version", version)):
        if not _NAME.fullmatch(text):
            raise UsageError(
                f"--{option} {text!r}: only letters, digits, dots, hyphens and underscores are allowed",
                f"Give --{option} {option}-1.",
            )


def _require_decided(work: Work, skip: Collection[str]) -> None:
    for stage in DECIDING:
        decisions = {} if stage in skip else work.decisions(stage)
        if undecided := [decision for decision in decisions.values() if decision.verdict == "undecided"]:
            lines = "\n".join(f"  {decision.id}: {decision.reason}" for decision in undecided[:_SHOWN])
            raise RunError(
                f"{work.path}: stage {stage} left {len(undecided):,} candidates undecided\n{lines}",
                f"Run the stage again with --stage {stage}, or omit them with --without-undecided.",
            )


def _as_reviewed(
    work: Work, entering: Sequence[Candidate], skip: Collection[str]
) -> tuple[list[Candidate], dict[str, str]]:
    """Return candidates with their edits applied, and reasons for edited ones that an earlier stage would drop."""
    candidates: list[Candidate] = []
    left_out: dict[str, str] = {}
    review = {} if "review" in skip else work.decisions("review")
    for candidate in entering:
        changes = review[candidate.id].detail.get("edited") if candidate.id in review else None
        if not changes:
            candidates.append(candidate)
            continue
        now = structs.replace(
            candidate, question=changes["question"], answer=changes["answer"], aliases=tuple(changes["aliases"])
        )
        why = _fault(work, candidate, now, skip)
        if why:
            left_out[candidate.id] = why
        else:
            candidates.append(now)
    return candidates, left_out


def _fault(work: Work, before: Candidate, now: Candidate, skip: Collection[str]) -> str:
    """Return the reason why an edited candidate would fail an earlier stage; empty if it passes."""
    if "hard" not in skip and (settings := _settings(work, "hard")) and settings["correct"] == _READING:
        if now.question != before.question:
            return "hard: the question was edited and not tested with the models again"
        tries = [
            model_filter.tries(work, model_filter.run_folder(work, model), model, settings["repeats"], [now])[now.id]
            for model in settings["models"]
        ]
        if (again := model_filter.decide(now, tries, settings["max_correct"])).verdict != "keep":
            return f"hard: {again.reason}"
    if "leaks" not in skip and (settings := _settings(work, "leaks")):
        known = {name: settings[name] for name in leaks.LeakRule.__struct_fields__ if name in settings}
        rule = msgspec.convert(known, leaks.LeakRule)
        line = leaks.recorded(work, settings["engine"], rule.k).get(now.sha256)
        report = None if line is None else leaks.audit(now, work.image(now).read_bytes(), line, "", rule)
        if report is not None and "page" in rule.drop:
            report = leaks.read_pages(work, now, report, evidence.fetched(work))
        if (again := leaks.decide(now, report, rule)).verdict != "keep":
            return f"leaks: {again.reason}"
    if "evidence" not in skip and (settings := _settings(work, "evidence")):
        checks = evidence.check(work, now, evidence.fetched(work))
        if (again := evidence.decide(now, checks, settings["least"])).verdict != "keep":
            return f"evidence: {again.reason}"
    return ""


def _settings(work: Work, stage: str) -> dict[str, Any]:
    file = work.stage(stage)
    return {} if file is None else dict(file.settings)


def _provenance(
    work: Work,
    name: str,
    version: str,
    candidates: Sequence[Candidate],
    left_out: Mapping[str, str],
    skip: Collection[str],
) -> dict[str, Any]:
    """Collect the origin of each question. Reviewers are numbered."""
    stages: dict[str, Any] = {}
    decisions: dict[str, dict[str, StageDecision]] = {}
    for stage in DECIDING:
        file = None if stage in skip else work.stage(stage)
        if file is None:
            stages[stage] = {"skipped": True}
            continue
        stages[stage] = {"settings": file.settings, "counts": file.counts()}
        decisions[stage] = work.decisions(stage)
    opinions = [] if "review" in skip else review_cases.read_all(work)
    reviewer_names = {
        who: f"reviewer {number}"
        for number, who in enumerate(dict.fromkeys(opinion.reviewer for opinion in opinions), 1)
    }
    agreed = []
    if "review" in decisions:
        reviewers = stages["review"]["settings"]["reviewers"]
        for pair in review_cases.agreement(opinions, decisions["review"], reviewers):
            agreed.append({**structs.asdict(pair), "reviewers": [reviewer_names[who] for who in pair.reviewers]})
    return {
        "format": FORMAT,
        "name": name,
        "version": version,
        "snellen": __version__,
        "candidates": {"count": work.state.count, "digest": work.state.candidates, "images": work.state.images},
        "stages": stages,
        "agreement": agreed,
        "edits_left_out": len(left_out),
        "questions": [
            {
                "id": _id(candidate),
                "candidate": candidate.id,
                "sha256": candidate.sha256,
                **_history(candidate, decisions, reviewer_names),
            }
            for candidate in candidates
        ],
    }


def _history(
    candidate: Candidate, decisions: Mapping[str, Mapping[str, StageDecision]], reviewer_names: Mapping[str, str]
) -> dict[str, Any]:
    details = {stage: by_id[candidate.id].detail for stage, by_id in decisions.items() if candidate.id in by_id}
    history: dict[str, Any] = {}
    if "hard" in details:
        history["closed_book"] = details["hard"]["models"]
    if "leaks" in details:
        audit = details["leaks"]
        history["leakage"] = {name: audit.get(name) for name in ("engine", "at", "hits", "leaks", "twin", "alike")}
    if "evidence" in details:
        history["evidence"] = details["evidence"]["links"]
    if "review" in details:
        history["review"] = [
            {
                **{name: value for name, value in opinion.items() if name != "id"},
                "reviewer": reviewer_names[opinion["reviewer"]],
            }
            for opinion in details["review"]["opinions"]
        ]
    return history


def _id(candidate: Candidate) -> str:
    """Return a number as id, since a candidate's own id may reveal the answer."""
    return f"c{PurePosixPath(candidate.image).stem}"


def _rows(candidates: Sequence[Candidate]) -> Iterator[dict[str, Any]]:
    for candidate in candidates:
        row = {
            "id": _id(candidate),
            "image": f"images/{candidate.image}",
            "question": candidate.question,
            "answer": candidate.answer,
            "aliases": candidate.aliases,
            "evidence": candidate.evidence,
            "domain": candidate.domain,
            "subcategory": candidate.subcategory,
            "source": candidate.source,
            "language": candidate.language,
            "target": candidate.target,
        }
        yield {name: value for name, value in row.items() if value not in ("", ())}


def _zip(work: Work, name: str, version: str, candidates: Sequence[Candidate], provenance: Mapping[str, Any]) -> bytes:
    manifest = b"".join(msgspec.json.encode(row) + b"\n" for row in _rows(candidates))
    texts = {
        "README.md": card(name, version, candidates, provenance).encode(),
        "manifest.jsonl": manifest,
        "provenance.json": pretty_json(provenance),
    }
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for member, data in texts.items():
            archive.writestr(_member(member), data, zipfile.ZIP_DEFLATED)
        for candidate in candidates:
            data = work.image(candidate).read_bytes()
            if sha256(data).hexdigest() != candidate.sha256:
                raise DataError(
                    f"{work.image(candidate)} was changed since it was copied", "Start again with another --out."
                )
            archive.writestr(_member(f"images/{candidate.image}"), data, zipfile.ZIP_STORED)
    return out.getvalue()


def _member(name: str) -> zipfile.ZipInfo:
    """Return a zip member with a fixed date, so that equal contents give equal bytes."""
    member = zipfile.ZipInfo(f"{ROOT}/{name}", (1980, 1, 1, 0, 0, 0))
    member.external_attr = 0o644 << 16
    member.create_system = 3
    return member


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
    lines += ["", *_settings_lines(stages), *_agreement(provenance), *_contents(candidates)]
    return "\n".join(lines) + "\n"


def _settings_lines(stages: Mapping[str, Any]) -> list[str]:
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
