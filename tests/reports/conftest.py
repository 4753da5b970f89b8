"""Synthetic runs for the report's tests: a few hundred answers with pictures that are drawn, and hostile ones."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator

import pytest
from msgspec import structs
from PIL import Image as Picture
from PIL import ImageDraw

import simulated_taxonomy
from snellen.benchmarks.base import Published, PublishedRow
from snellen.reports import AnswerView, RunView, answer_view
from snellen.scoring import metrics, taxonomy
from snellen.scoring.scores import ScoreBuilder
from snellen.sources.blobs import BytesBlob, Drawn
from snellen.types import Failure, Image, Metric, Prompt, Record, Response, Sample, Score, Text, Usage

HOSTILE = "<script>window.owned=1;document.title='owned'</script><img src=x onerror=\"window.owned=1\"></script><!-- {{7*7}} ]]>"
NAMES = {"class": ["bird", "fish", "beetle"], "species": ["corvus corax", "salmo salar", "lucanus cervus"]}


def drawing(seed: int, side: int = 64) -> Image:
    """A picture of one shape; the seed is its key."""

    def draw() -> bytes:
        chance = random.Random(seed)
        picture = Picture.new("RGB", (side, side), (240, 240, 240))
        corner = chance.randint(0, side // 2)
        box = (corner, corner, corner + side // 3, corner + side // 3)
        ImageDraw.Draw(picture).ellipse(box, fill=tuple(chance.randint(0, 200) for _ in range(3)))
        out = io.BytesIO()
        picture.save(out, "PNG")
        return out.getvalue()

    return Image(Drawn(f"drawing {seed} {side}", draw))


def broken() -> Image:
    return Image(BytesBlob("/home/someone/secret/broken.png", b"\x89PNG\r\n\x1a\n" + b"\0" * 20))


Row = tuple[Sample, Record, dict[str, Score]]


def ask(number: int, skill: float) -> Row:
    """Question `number` of the synthetic benchmark, answered right with probability `skill` on the class level."""
    kind = ("short", "truth")[number % 2]
    level = ("class", "species")[number // 2 % 2]
    names = NAMES[level]
    right = random.Random(number).random() < skill * (1.0 if level == "class" else 0.6)
    name = names[number % 3]
    if kind == "truth":
        target: object = number % 4 == 1
        said: object = target if right else not target
        reply = "Yes." if said else "No."
    else:
        target, said = name, name if right else names[(number + 1) % 3]
        reply = f"It is a {said}."
    sample = Sample(
        id=f"chart/{number:04d}",
        prompt=Prompt((drawing(number // 2), Text(f"Question {number}: what is this? ({level})"))),
        target=target,
        kind=kind,
        group=f"picture {number // 2}",
        meta={"level": level, "chance": 0.5 if kind == "truth" else 0.33},
    )
    record = Record(sample.id, "ok", response=Response(reply, Usage(10, 4), latency_s=0.1 + number % 7 / 10))
    strict = Score(float(right), said, "correct" if right else "wrong")
    inverted = Score(1.0 - right, said, "wrong" if right else "correct", "first word")
    other = inverted if number % 20 == 9 else strict
    return sample, record, {"strict": strict, "official": other}


def rows(n: int = 120, skill: float = 0.9) -> list[Row]:
    """`n` answers; the last three timed out, could not be read, and are hostile."""
    found = [ask(number, skill) for number in range(n - 3)]
    sample, _, _ = ask(n - 3, skill)
    lost = Score(0.0, None, "error")
    timeout = Record(sample.id, "timeout", error=Failure("timeout", "no whole reply within 300 s"))
    found.append((sample, timeout, {"strict": lost, "official": lost}))
    sample, _, _ = ask(n - 2, skill)
    unread = Score(0.0, None, "invalid", "names two answers")
    found.append((sample, Record(sample.id, "ok", response=Response("either")), {"strict": unread, "official": unread}))
    hostile = Sample(
        id=f"hostile {HOSTILE}",
        prompt=Prompt((broken(), Text(HOSTILE)), system=HOSTILE),
        target=HOSTILE,
        kind="choice",
        options={"A": HOSTILE, "B": "\u202egnp.exe\u2066"},
        meta={"level": HOSTILE, HOSTILE: HOSTILE},
    )
    reply = Response(HOSTILE + " \ud800 \x00 \u202e", reasoning=HOSTILE)
    score = Score(0.0, HOSTILE, "wrong", HOSTILE)
    found.append((hostile, Record(hostile.id, "ok", response=reply), {"strict": score, "official": score}))
    return found


def view(
    name: str = "run-a", model: str = "embedded", *, n: int = 120, skill: float = 0.9, **changes: object
) -> RunView:
    """A run over `rows`, with the metrics that a benchmark would give."""
    answered = rows(n, skill)
    summary = {}
    for profile in ("strict", "official"):
        builder = ScoreBuilder()
        for sample, _, scores in answered:
            builder.add(sample, scores[profile])
        table = builder.build(n)
        parts = [p for by in (("level",), ("kind",), ("kind", "level")) for p in metrics.breakdown(table, by)]
        summary[profile] = [metrics.accuracy(table), *parts, metrics.share(table, "invalid", "invalid")]

    def answers() -> Iterator[AnswerView]:
        return (answer_view(*row) for row in answered)

    facts = {"fingerprint": "3f2a91be", "output tokens": "480"}
    settings = {"facts": facts, "profiles": {"strict": "a careful reader", "official": "as released"}, **changes}
    return RunView(name, "chart/test", model, summary, answers, **settings)


SUBTASKS = {"near": 0.8, "far": 0.5, "count": 0.6}


def suite_view(name: str = "suite-a", model: str = "embedded", *, skill: float = 0.5, **changes: object) -> RunView:
    """A run of a suite without an `accuracy`: means over its members first, then every member's own figures.

    Near and far are asked in pairs whose first profile goes by letters (`T`), count in numbers.
    """
    answered: list[Row] = []
    for task, ease in SUBTASKS.items():
        for number in range(40):
            right = random.Random(f"{task} {number}").random() < skill * ease * 1.6
            target: object = number % 3 + 1 if task == "count" else number % 2 == 0
            said: object = target if right else (target % 3 + 1 if task == "count" else not target)
            letter = said if task == "count" else "T" if said else "F"
            meta = {
                "task": task,
                "pair": f"{task} {number // 2}",
                **({} if task == "count" else {"half": "pn"[number % 2]}),
            }
            sample = Sample(
                f"{task}/{number}",
                Prompt((drawing(number), Text(f"{task} {number}: T or F?"))),
                target,
                "count" if task == "count" else "truth",
                meta=meta,
            )
            record = Record(sample.id, "ok", response=Response(f"{letter}", Usage(10, 1), latency_s=0.2))
            verdict = "correct" if right else "wrong"
            scores = {"official": Score(float(right), letter, verdict), "strict": Score(float(right), said, verdict)}
            answered.append((sample, record, scores))
    summary = {}
    for profile in ("official", "strict"):
        found = []
        for task in SUBTASKS:
            builder = ScoreBuilder()
            for sample, _, scores in answered:
                if sample.meta["task"] == task:
                    builder.add(sample, scores[profile])
            table = builder.build(50 if task == "far" else 40)
            name_of = "count_score" if task == "count" else "pair_accuracy"
            head = structs.replace(metrics.accuracy(table), name=f"{task}/{name_of}", chance=0.25)
            found += [head, structs.replace(metrics.share(table, "invalid", "invalid"), name=f"{task}/invalid")]
        values = [m.value for m in found if not m.name.endswith("invalid")]
        overall = Metric("overall_3", sum(values) / 3, 120, (0.3, 0.6), coverage=0.92, chance=0.25)
        summary[profile] = [overall, *found]
    settings = {
        "profiles": {"official": "as released", "strict": "a careful reader"},
        "published": [PUBLISHED],
        **changes,
    }
    return RunView(name, "suite", model, summary, lambda: (answer_view(*row) for row in answered), **settings)


PUBLISHED = Published(
    title="Suite, second version",
    source="Somebody et al. 2025, table 2",
    columns=("Near", "Far", "Video", "Avg"),
    metrics=("near/pair_accuracy", "far/pair_accuracy", "video/video_score", "overall_3"),
    profile="official",
    rows=(
        PublishedRow("chance", "chance", (0.25, 0.25, None, 0.25)),
        PublishedRow("human", "human", (0.9506, 0.9811, 1.0, 0.9773)),
        PublishedRow("Small-7B", "model", (0.3591, 0.4338, 0.465, 0.4193)),
        PublishedRow("Large-70B", "model", (0.4512, 0.3927, None, 0.4219)),
    ),
    notes=("Avg: the mean of three.", "Far: seen from a tower."),
)


def taxonomy_view(name: str = "tree-a", model: str = "embedded", **settings: object) -> RunView:
    """A run over a taxonomy of three levels, seen less well the finer one asks (see simulated_taxonomy)."""
    answered = simulated_taxonomy.answers(**settings)
    table = simulated_taxonomy.columns(answered)
    found = [metrics.accuracy(table), *taxonomy.by_level(table), *taxonomy.diagnosis(table)]

    def answers() -> Iterator[AnswerView]:
        for sample, score in answered:
            drawn = structs.replace(
                sample,
                prompt=Prompt((drawing(len(sample.id) + int(sample.group.split()[1]) % 97, 32), Text("What is it?"))),
            )
            yield answer_view(
                drawn, Record(sample.id, "ok", response=Response(score.extracted or "No.")), {"strict": score}
            )

    return RunView(name, "tree", model, {"strict": found}, answers, profiles={"strict": "a careful reader"})


@pytest.fixture(scope="session")
def make_taxonomy_run():
    return taxonomy_view


@pytest.fixture(scope="session")
def make_suite():
    return suite_view


@pytest.fixture(scope="session")
def published_table():
    return PUBLISHED


@pytest.fixture(scope="session")
def run():
    return view()


@pytest.fixture(scope="session")
def make_run():
    return view


@pytest.fixture(scope="session")
def hostile_text():
    return HOSTILE


@pytest.fixture(scope="session")
def draw_picture():
    return drawing
