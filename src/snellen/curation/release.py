"""Stage 5, the pack: a versioned zip that `snellen run fika --data` takes, with its data card and its provenance.

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
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen import __version__
from snellen.curation import DECIDING, evidence, leaks, model_filter, reviews
from snellen.curation.candidates import Candidate
from snellen.curation.card import card
from snellen.curation.workspace import Decision, Work
from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError, RunError, UsageError
from snellen.text import pretty_json, slug

ROOT = "data"
FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHOWN = 5
_READING = "reading"


class Packed(Struct, frozen=True):
    """What was written: the zip and its SHA-256, how many questions, and edits that were left out with the reason."""

    path: Path
    sha256: str
    questions: int
    left_out: Mapping[str, str]


def pack(
    work: Work, version: str, *, name: str = "", skip: Collection[str] = (), without_undecided: bool = False
) -> Packed:
    """Write the zip of all candidates that every stage has kept.

    Args:
        version: of the set; goes into its name. An existing pack is never replaced by another one.
        name: what the set is called; empty: the working folder's name.
        skip: stages that were not run; the data card says so.
        without_undecided: leave out candidates that a stage could not decide on; else they are an error.

    Raises:
        RunError: a stage has not been run, or has left candidates undecided.
        UsageError: name or version cannot be part of a file name, or the version exists with other contents.
        DataError: nothing was kept, or a picture was changed since it was taken in.
    """
    name = name or slug(work.state.name) or "curated"
    require_names(name, version)
    kept = work.entering("pack", skip)
    if not without_undecided:
        _require_decided(work, skip)
    found, left_out = _as_reviewed(work, kept, skip)
    if not found:
        raise DataError(f"{work.path}: no candidate has been kept by every stage", "The files of the stages say why.")
    provenance = _provenance(work, name, version, found, left_out, skip)
    data = _zip(work, name, version, found, provenance)
    path = work.folder("packs") / f"{name}-{version}.zip"
    if path.exists() and path.read_bytes() != data:
        raise UsageError(
            f"{path} is there with other contents; a version is never replaced", "Give the new set another --version."
        )
    digest = sha256(data).hexdigest()
    files = RunFolder(work.path)
    files.write(path, data)
    files.write(path.with_name(path.name + ".sha256"), f"{digest}  {path.name}\n".encode())
    return Packed(path, digest, len(found), left_out)


def require_names(name: str, version: str) -> None:
    """Refuse a set's name or version that cannot be part of a file name. Raises UsageError."""
    for what, text in (("name", name), ("version", version)):
        if not _NAME.fullmatch(text):
            raise UsageError(
                f"--{what} {text!r}: letters, digits, dots, hyphens and underscores were expected",
                f"Give --{what} {what}-1.",
            )


def _require_decided(work: Work, skip: Collection[str]) -> None:
    for stage in DECIDING:
        found = None if stage in skip else work.stage(stage)
        left = [one for one in found.decisions if one.verdict == "undecided"] if found is not None else []
        if left:
            shown = "\n".join(f"  {one.id}: {one.reason}" for one in left[:_SHOWN])
            raise RunError(
                f"{work.path}: stage {stage} has left {len(left):,} candidates undecided\n{shown}",
                f"Run it again: --stage {stage}. To pack without them: --without-undecided.",
            )


def _as_reviewed(
    work: Work, kept: Sequence[Candidate], skip: Collection[str]
) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates with their edits; and edited ones that an earlier stage would have dropped, with its reason."""
    found: list[Candidate] = []
    left_out: dict[str, str] = {}
    review = {} if "review" in skip else _decisions(work, "review")
    for one in kept:
        changes = review[one.id].detail.get("edited") if one.id in review else None
        if not changes:
            found.append(one)
            continue
        now = structs.replace(
            one, question=changes["question"], answer=changes["answer"], aliases=tuple(changes["aliases"])
        )
        why = _fault(work, one, now, skip)
        if why:
            left_out[one.id] = why
        else:
            found.append(now)
    return found, left_out


def _fault(work: Work, before: Candidate, now: Candidate, skip: Collection[str]) -> str:
    """Why an edited candidate would not have passed the stages before the review; empty where it would."""
    if "hard" not in skip and (settings := _settings(work, "hard")) and settings["correct"] == _READING:
        if now.question != before.question:
            return "hard: its question was edited, and no model has been asked the new one"
        said = [
            model_filter.tries(work, model_filter.run_folder(work, model), model, settings["repeats"], [now])[now.id]
            for model in settings["models"]
        ]
        if (again := model_filter.decide(now, said, settings["max_correct"])).verdict != "keep":
            return f"hard: {again.reason}"
    if "leaks" not in skip and (settings := _settings(work, "leaks")):
        known = {name: settings[name] for name in leaks.Rule.__struct_fields__ if name in settings}
        rule = msgspec.convert(known, leaks.Rule)
        line = leaks.recorded(work, settings["engine"], rule.k).get(now.sha256)
        report = None if line is None else leaks.audit(now, work.image(now).read_bytes(), line, "", rule)
        if (again := leaks.decide(now, report, rule)).verdict != "keep":
            return f"leaks: {again.reason}"
    if "evidence" not in skip and (settings := _settings(work, "evidence")):
        checks = evidence.check(work, now, evidence.fetched(work))
        if (again := evidence.decide(now, checks, settings["least"])).verdict != "keep":
            return f"evidence: {again.reason}"
    return ""


def _settings(work: Work, stage: str) -> dict[str, Any]:
    found = work.stage(stage)
    return {} if found is None else dict(found.settings)


def _decisions(work: Work, stage: str) -> dict[str, Decision]:
    found = work.stage(stage)
    return {} if found is None else {one.id: one for one in found.decisions}


def _provenance(
    work: Work,
    name: str,
    version: str,
    kept: Sequence[Candidate],
    left_out: Mapping[str, str],
    skip: Collection[str],
) -> dict[str, Any]:
    """Everything that can be said about where each question comes from. Reviewers go by numbers."""
    stages: dict[str, Any] = {}
    decisions: dict[str, dict[str, Decision]] = {}
    for stage in DECIDING:
        found = None if stage in skip else work.stage(stage)
        if found is None:
            stages[stage] = {"skipped": True}
            continue
        stages[stage] = {"settings": found.settings, "counts": found.counts()}
        decisions[stage] = {one.id: one for one in found.decisions}
    said = [] if "review" in skip else reviews.read_all(work)
    people = {who: f"reviewer {number}" for number, who in enumerate(dict.fromkeys(one.reviewer for one in said), 1)}
    agreed = []
    if "review" in decisions:
        reviewers = stages["review"]["settings"]["reviewers"]
        for one in reviews.agreement(said, decisions["review"], reviewers):
            agreed.append({**structs.asdict(one), "reviewers": [people[who] for who in one.reviewers]})
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
            {"id": _id(one), "candidate": one.id, "sha256": one.sha256, **_history(one, decisions, people)}
            for one in kept
        ],
    }


def _history(
    one: Candidate, decisions: Mapping[str, Mapping[str, Decision]], people: Mapping[str, str]
) -> dict[str, Any]:
    details = {stage: by_id[one.id].detail for stage, by_id in decisions.items() if one.id in by_id}
    found: dict[str, Any] = {}
    if "hard" in details:
        found["closed_book"] = details["hard"]["models"]
    if "leaks" in details:
        audit = details["leaks"]
        found["leakage"] = {name: audit.get(name) for name in ("engine", "at", "hits", "leaks", "twin", "alike")}
    if "evidence" in details:
        found["evidence"] = details["evidence"]["links"]
    if "review" in details:
        found["review"] = [{**said, "reviewer": people[said["reviewer"]]} for said in details["review"]["opinions"]]
        for said in found["review"]:
            said.pop("id", None)
    return found


def _id(one: Candidate) -> str:
    """A number: what a candidate was called before may give the answer away."""
    return f"c{PurePosixPath(one.image).stem}"


def _rows(kept: Sequence[Candidate]) -> Iterator[dict[str, Any]]:
    for one in kept:
        row = {
            "id": _id(one),
            "image": f"images/{one.image}",
            "question": one.question,
            "answer": one.answer,
            "aliases": one.aliases,
            "evidence": one.evidence,
            "domain": one.domain,
            "subcategory": one.subcategory,
            "source": one.source,
            "language": one.language,
            "target": one.target,
        }
        yield {name: value for name, value in row.items() if value not in ("", ())}


def _zip(work: Work, name: str, version: str, kept: Sequence[Candidate], provenance: Mapping[str, Any]) -> bytes:
    manifest = b"".join(msgspec.json.encode(row) + b"\n" for row in _rows(kept))
    texts = {
        "README.md": card(name, version, kept, provenance).encode(),
        "manifest.jsonl": manifest,
        "provenance.json": pretty_json(provenance),
    }
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for member, data in texts.items():
            archive.writestr(_member(member), data, zipfile.ZIP_DEFLATED)
        for one in kept:
            data = work.image(one).read_bytes()
            if sha256(data).hexdigest() != one.sha256:
                raise DataError(f"{work.image(one)} was changed since it was taken in", "Begin anew in another --out.")
            archive.writestr(_member(f"images/{one.image}"), data, zipfile.ZIP_STORED)
    return out.getvalue()


def _member(name: str) -> zipfile.ZipInfo:
    """The same day for every member, so that the same contents are the same bytes."""
    found = zipfile.ZipInfo(f"{ROOT}/{name}", (1980, 1, 1, 0, 0, 0))
    found.external_attr = 0o644 << 16
    found.create_system = 3
    return found
