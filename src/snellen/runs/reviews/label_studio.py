"""Reviews to and from Label Studio: cases become tasks, annotations become decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, structs

from snellen.errors import DataError, SnellenError, UsageError
from snellen.formats.label_studio import StudioAnnotation, StudioTask, labelling_config, read_tasks, task_json
from snellen.media import encode
from snellen.runs.answer_view import answer_view
from snellen.runs.reviews.audit_sample import AuditSample
from snellen.runs.reviews.cases import reviewed_profile, shown_digest
from snellen.runs.reviews.decisions import (
    DECISION_TEXTS,
    DECISIONS,
    LONGEST,
    CaseKey,
    DecisionWord,
    VerdictReview,
    decision_id,
    now,
)
from snellen.runs.reviews.journal import ReviewJournal
from snellen.runs.run import Run
from snellen.runs.scoring import profiles_of, scores_of
from snellen.types import VERDICTS, Image, MediaSettings, Record, Sample, Text, Video

DECISION, NOTE, REPLY = "decision", "note", "reply"
CONTROLS = {DECISION: "choices", NOTE: "textarea"}
IMAGE_SIDE = 1024
RUN_CHARACTERS = 16


class ImportedReviews(Struct, frozen=True):
    """Decisions read from an export of Label Studio.

    Attributes:
        reviews: the decisions, without those that are in the journal already once they are appended.
        skipped: annotations that were passed over, by reason.
        problems: tasks that cannot be used, one line each.
    """

    reviews: tuple[VerdictReview, ...]
    skipped: Mapping[str, int]
    problems: tuple[str, ...]


def run_mark(run: Run) -> str:
    """Return what tasks name the run by: the beginning of its fingerprint, which tells nothing of the model."""
    return run.meta.fingerprint[:RUN_CHARACTERS]


def review_config(*, images: bool) -> str:
    """Build the labelling configuration of a review; `images` adds the place of the images."""
    objects: list[tuple[str, str, Mapping[str, str]]] = []
    if images:
        objects.append(("Images", "Image", {"name": "images", "valueList": "$images", "zoom": "true"}))
    objects += [
        (heading, "Text", {"name": name, "value": f"${name}"})
        for heading, name in (
            ("Question", "question"),
            ("Options", "options"),
            ("Gold answer", "gold"),
            ("Reply", REPLY),
            ("Extracted from the reply", "extracted"),
            ("Automatic verdict", "verdict"),
        )
    ]
    return labelling_config(objects, (DECISION, DECISION_TEXTS), NOTE, REPLY)


def tasks(
    run: Run,
    keys: Sequence[CaseKey],
    *,
    profile: str | None = None,
    images: bool = True,
    show_gold: bool = False,
    audit: AuditSample | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield a task for each case, in the order of `keys`, with the decisions that stand; no task names the model.

    Args:
        profile: whose verdicts are reviewed; None: the benchmark's first.
        images: embed images as data URIs of at most 1,024 pixels; otherwise tasks have texts only.
        show_gold: include the gold answers of a restricted benchmark.
        audit: the run's audit sample, so that each task says its design.
    """
    name = reviewed_profile(run, profile)
    scorers = profiles_of(run.benchmark, name)
    wanted, verdicts = set(keys), run.verdicts()
    standing = ReviewJournal(run.path).standing
    members = set() if audit is None else set(audit.probabilities())
    built: dict[CaseKey, dict[str, Any]] = {}
    for sample, record in run.answers():
        key = (sample.id, record.repeat)
        if key not in wanted:
            continue
        scores = scores_of(run.benchmark, sample, record, scorers, verdicts)
        open_gold = show_gold or not (run.benchmark.restricted or run.meta.restricted)
        view = answer_view(sample, record, scores, show_target=open_gold)
        score = view.scores[name]
        data: dict[str, Any] = {
            "sample_id": sample.id,
            "repeat": record.repeat,
            "run": run_mark(run),
            "profile": name,
            "design": "audit" if key in members else "queue",
            "digest": shown_digest(sample, record),
            "question": _question(view.parts),
            "options": "\n".join(f"{letter}. {text}" for letter, text in view.options.items()) or "(none)",
            "gold": "(withheld)" if not open_gold else _plain(view.target),
            REPLY: view.reply or "(no reply)",
            "extracted": _plain(score.extracted),
            "verdict": score.verdict,
        }
        if images:
            data["images"] = [uri for part in view.parts if (uri := _data_uri(part))]
        annotations = tuple(_annotation_of(review) for review in standing.get(key, {}).values())
        built[key] = task_json(StudioTask(data=data, annotations=annotations), CONTROLS, REPLY)
    yield from (built.pop(key) for key in dict.fromkeys(keys) if key in built)


def _question(parts: Iterable[object]) -> str:
    texts, images = [], 0
    for part in parts:
        if isinstance(part, Text):
            texts.append(part.text)
        else:
            images += 1
            texts.append(f"[{'video' if isinstance(part, Video) else 'image'} {images}]")
    return "\n".join(texts)


def _plain(value: object) -> str:
    if value is None:
        return "(none)"
    return ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _data_uri(part: object) -> str:
    if not isinstance(part, Image):
        return ""
    try:
        encoded = encode(part.blob, MediaSettings(max_long_side=IMAGE_SIDE, format="jpeg", quality=85))
    except (SnellenError, OSError):
        return ""
    return encoded.data_uri.decode()


def _annotation_of(review: VerdictReview) -> StudioAnnotation:
    return StudioAnnotation(
        id=review.id,
        annotator=(review.reviewer,),
        choices={DECISION: (str(review.decision),)},
        texts={NOTE: (review.note,)} if review.note else {},
        at=review.seconds,
    )


def read_annotations(
    path: Path,
    run: Run,
    *,
    reviewers: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
    id_field: str = "sample_id",
    control: str = DECISION,
    audit: AuditSample | None = None,
) -> ImportedReviews:
    """Read the decisions about a run from an export of Label Studio.

    Args:
        path: the export, JSON or JSON-MIN.
        run: the run that the decisions are about; annotations of tasks that name another run are skipped.
        reviewers: the annotator's id, e-mail or name to the reviewer's name; others keep their own name.
        words: the project's words to those of a review, for projects with other choices.
        id_field: the member of a task's data that holds the sample id.
        control: name of the project's choices that hold the decision; a project with other names but one known word in
            its choices needs none.
        audit: the run's audit sample, which says the design of each decision.

    Raises:
        DataError: the file cannot be read, or no task of it is about a reply of the run.
        UsageError: a word of `words` is no decision.
    """
    known_words = _known_words(words or {})
    file = read_tasks(path)
    wanted = {_key(task, id_field) for task in file.tasks}
    answers = {
        (sample.id, record.repeat): (sample, record)
        for sample, record in run.answers()
        if (sample.id, record.repeat) in wanted
    }
    judged = run.verdicts()
    members = set() if audit is None else set(audit.probabilities())
    standing = ReviewJournal(run.path).standing
    skipped: Counter[str] = Counter({"cancelled by the annotator": file.skipped} if file.skipped else {})
    reviews, problems = [], list(file.problems)
    strange = ""
    for task in file.tasks:
        key = _key(task, id_field)
        if key is None or key not in answers:
            strange = strange or (repr(task.data[id_field]) if id_field in task.data else "")
            skipped["no such reply in the run" if id_field in task.data else f"no {id_field!r} in the task"] += 1
            continue
        if task.data.get("run", run_mark(run)) != run_mark(run):
            skipped["about another run"] += 1
            continue
        for annotation in task.annotations:
            word = _chosen(annotation, known_words, control)
            if word is None:
                skipped["no decision"] += 1
                continue
            profile, verdict = _shown(run, judged, task, answers[key])
            review = VerdictReview(
                sample_id=key[0],
                repeat=key[1],
                reviewer=_reviewer(annotation, reviewers or {}),
                decision=cast(DecisionWord, word),
                at=annotation.at or now(),
                design="audit" if key in members else "queue",
                note=_note(annotation)[: LONGEST["note"]],
                digest=_text(task.data.get("digest")),
                profile=profile,
                verdict=verdict,
            )
            before = standing.get(key, {}).get(review.reviewer)
            if before is not None and (before.decision, before.note) == (review.decision, review.note):
                skipped["already there"] += 1
                continue
            stamp = "" if annotation.id else annotation.at
            reviews.append(structs.replace(review, id=decision_id(f"label studio {annotation.id} {stamp}", review)))
    if not reviews and not skipped["cancelled by the annotator"] and not skipped["already there"]:
        raise DataError(
            f"{path}: none of {len(file.tasks):,} tasks holds a decision about {run.path}: "
            + "; ".join(f"{count:,} × {reason}" for reason, count in skipped.items())
            + (f"; its {id_field} is like {strange}" if strange else ""),
            "Name the member with the sample id (--id-field), the choices (--control), or other words (--word OK=right).",
        )
    return ImportedReviews(tuple(reviews), dict(skipped), tuple(problems))


def _shown(
    run: Run, judged: Mapping[str, str] | None, task: StudioTask, answer: tuple[Sample, Record]
) -> tuple[str, str]:
    """Return profile and verdict that the annotator of a task saw: as it says, else as the run is scored now."""
    profile, verdict = _text(task.data.get("profile")), _text(task.data.get("verdict"))
    if verdict in VERDICTS:
        return profile, verdict
    name = reviewed_profile(run, profile if profile in run.benchmark.score else None)
    return name, scores_of(run.benchmark, *answer, profiles_of(run.benchmark, name), judged)[name].verdict


def _known_words(words: Mapping[str, str]) -> dict[str, str]:
    for theirs, ours in words.items():
        if ours not in DECISIONS:
            raise UsageError(f"--word {theirs}={ours}: no such decision", f"Decisions: {', '.join(DECISIONS)}.").near(
                ours, DECISIONS
            )
    known = {_folded(word): word for word in DECISIONS}
    known |= {_folded(text): word for word, text in DECISION_TEXTS.items()}
    return known | {_folded(theirs): ours for theirs, ours in words.items()}


def _folded(text: str) -> str:
    return "-".join(text.replace("_", " ").replace("-", " ").lower().split())


def _key(task: StudioTask, id_field: str) -> CaseKey | None:
    sample_id, repeat = task.data.get(id_field), task.data.get("repeat", 0)
    if isinstance(sample_id, bool) or not isinstance(sample_id, (str, int)) or not isinstance(repeat, int):
        return None
    return (str(sample_id), repeat)


OWN_DATA = frozenset(
    {"sample_id", "repeat", "run", "profile", "design", "digest", "question", "options", "gold", REPLY, "extracted"}
    | {"verdict", "images", NOTE}
)
"""Members of our tasks that are no labels; a JSON-MIN row has both side by side."""


def _chosen(annotation: StudioAnnotation, words: Mapping[str, str], control: str) -> str | None:
    """Return the decision: that of the named control, else the only known word among the other choices."""
    labels = annotation.choices.get(control) or [
        label for name, labels in annotation.choices.items() if name not in OWN_DATA for label in labels
    ]
    decisions = {words[_folded(label)] for label in labels if _folded(label) in words}
    return decisions.pop() if len(decisions) == 1 else None


def _reviewer(annotation: StudioAnnotation, reviewers: Mapping[str, str]) -> str:
    names = annotation.annotator
    mapped = next((reviewers[name] for name in names if name in reviewers), "")
    own = f"annotator {names[0]}" if names and names[0].isdigit() else "".join(names[:1])
    cleaned = " ".join("".join(c for c in own if c.isprintable()).split())[: LONGEST["reviewer"]].strip()
    return mapped or cleaned or "label studio"


def _note(annotation: StudioAnnotation) -> str:
    """Return the remark: that of the control `note`, else all texts of text areas."""
    if annotation.texts is annotation.choices:  # a JSON-MIN row, in which a text may be anything
        return "\n".join(annotation.texts.get(NOTE, ()))
    return "\n".join(annotation.texts.get(NOTE) or [text for texts in annotation.texts.values() for text in texts])


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
