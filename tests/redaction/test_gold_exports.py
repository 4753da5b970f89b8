"""Exports without gold, and exports of hostile runs: what they hold, where they are written, and what is refused."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import snellen
from snellen.errors import RunError
from snellen.runs.export import export, formats
from snellen.runs.interchange.source import ExportSettings
from snellen.types import Prompt, Response, Text, TokenLogprob

GOLD = ("Zanzibar", "Quokka", "Xylitol", "Wombatia", "Fjordic", "Glyphon")
POOL = ("Mangrovia", "Tephritic", "Orchestra")
SETTINGS = ExportSettings(dataset="owner/set", task="task")


class Telling(snellen.Model):
    """Tells the gold answer in the reply of some samples, and of all in thinking, probabilities, ids and traces."""

    supports = frozenset({"system", "history"})

    def __init__(self, name: str = "api:telling") -> None:
        self.name = name

    async def answer(self, prompt: Prompt) -> Response:
        part = prompt.parts[-1]
        assert isinstance(part, Text)
        number = int(part.text.partition(":")[0].removeprefix("Q"))
        gold = GOLD[number]
        told = [gold, f"I think {gold.lower()}", "nothing", f"<b>{gold[:3]}</b>{gold[3:]}", "no", gold][number]
        tokens = tuple(TokenLogprob(text, -0.1, ((text, -0.1), (gold, -2.0))) for text in (told[:3], told[3:]))
        return Response(
            told, reasoning=f"Hm, {gold}", logprobs=tokens, request_id=gold, model=gold, trace={"reply": gold}
        )


@pytest.fixture
def run(tmp_path: Path) -> snellen.Run:
    """Make a run with examples, and earlier turns, of free answers."""
    turns = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello."}]
    rows = [
        {"id": f"s{number}", "question": f"Q{number}: which word?", "answer": gold, "history": turns, "kind": gold}
        for number, gold in enumerate(GOLD)
    ]
    pool = [{"id": f"p{number}", "question": f"P{number}: which?", "answer": gold} for number, gold in enumerate(POOL)]
    for name, lines in (("rows.jsonl", rows), ("pool.jsonl", pool)):
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = {"few_shot": 2, "few_shot_from": str(tmp_path / "pool.jsonl")}
    return snellen.evaluate(str(tmp_path / "rows.jsonl"), Telling(), out=tmp_path / "run", **settings)


def content(folder: Path) -> bytes:
    """Return all bytes below a folder, those in archives too."""
    parts = []
    for path in folder.rglob("*"):
        if path.is_file():
            parts.append(path.read_bytes())
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    parts += [archive.read(name) for name in archive.namelist()]
    return b"\n".join(parts).lower()


def test_no_format_without_gold_holds_a_gold_answer(run: snellen.Run, tmp_path: Path) -> None:
    able = [name for name, form in formats(run.benchmark).items() if form.withholds]
    assert {"jsonl", "lm-eval", "inspect", "eee", "hf"} <= set(able)
    for name in able:
        export(run, name, out=tmp_path / name, no_gold=True, settings=SETTINGS)
        written = content(tmp_path / name)
        assert written
        assert [word for word in (*GOLD, *POOL) if word.lower().encode() in written] == [], name
    export(run, "jsonl", out=tmp_path / "with", settings=SETTINGS)
    assert b"zanzibar" in content(tmp_path / "with")


@pytest.mark.parametrize(
    "model", ["api:../../../../etc/x", "api:org/..", "api:a/b/c", "api:" + "z" * 3000, "api:\x1b[31m", "api:.git/.ssh"]
)
def test_no_name_of_a_model_leads_out_of_the_folder_of_an_export(model: str, tmp_path: Path) -> None:
    rows = [{"id": name, "question": "Q0: which?", "answer": "x"} for name in ("../../../up", "/abs", "a\\..\\b", "..")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = snellen.evaluate(str(tmp_path / "rows.jsonl"), Telling(model), out=tmp_path / "run")
    before = set(tmp_path.rglob("*"))
    for name in formats(run.benchmark):
        files = export(run, name, out=tmp_path / "out" / name, settings=SETTINGS).files
        assert files
        assert all(path.resolve().is_relative_to(tmp_path / "out" / name) for path in files)
    assert all(path.is_relative_to(tmp_path / "out") for path in set(tmp_path.rglob("*")) - before)


@pytest.mark.parametrize("place", ["eee", "eee/data"])
def test_an_export_is_not_written_through_a_link_in_the_run(place: str, run: snellen.Run, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = run.path / "exports" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(RunError, match="symbolic link"):
        export(run, "eee", settings=SETTINGS)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("member", ["cached", "oversized_images", "records"])
def test_a_meta_with_a_negative_count_is_refused(member: str, run: snellen.Run) -> None:
    meta = json.loads((run.path / "run_meta.json").read_text())
    (meta if member == "records" else meta["totals"])[member] = -5
    (run.path / "run_meta.json").write_text(json.dumps(meta))
    with pytest.raises(RunError, match=f"{member} is out of range"):
        export(run.path, "jsonl", settings=SETTINGS)
