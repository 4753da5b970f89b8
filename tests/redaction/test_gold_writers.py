"""What is written about a restricted set holds no gold answer in any dress: judges' files, pages, reports, redacted runs."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path

from benchmarks.fika import made
from redaction.test_gold import ENCODINGS, recoverable
from snellen import evaluate
from snellen.cli import main
from snellen.errors import BadRequestError
from snellen.models.base import Model
from snellen.runs.judge.ask import judge
from snellen.types import Prompt, Response, Text

DRESSES = list(ENCODINGS.values())
SAMPLES = len(DRESSES)


def gold(number: int) -> list[str]:
    return [f"Zyxgold {number} Mark II", f"Qwvalias-{number}"]


def said(number: int) -> str:
    """An answer that names the gold answer and an alias, each in a dress, beside another thing."""
    first, second = gold(number)
    dress, other = DRESSES[number % SAMPLES], DRESSES[(number + 7) % SAMPLES]
    answer = f"It is a {dress(first)} or {other(second)}, by its shape."
    return json.dumps(
        {"answer": answer, "evidence": [{"url": f"https://x.example/{other(first)}"}], "reasoning": answer}
    )


def test_gold_in_errors_of_the_model_is_in_no_summary_of_them(tmp_path, monkeypatch, capsys):
    class Failing(made.Scripted):
        async def answer(self, prompt: Prompt) -> Response:
            number = int("".join(filter(str.isdigit, "".join(map(str, prompt.parts[-1:])).partition("\\n")[0])) or 0)
            raise BadRequestError(f"cannot say {gold(number)[0]} {gold(number)[1]}: " + "x" * 180 + gold(number)[0])

    monkeypatch.chdir(tmp_path)
    evaluate("fika", Failing(lambda _: None), out="run", data=made.whole(tmp_path / "fika.zip", 12))
    assert main(["report", "run", "--out", "report.html"]) == 0
    for words in (["score", "run"], ["score", "run", "--json"], ["list", "--runs", "--results", "."]):
        main(words)
    written = capsys.readouterr()
    for text in (written.out + written.err, Path("report.html").read_text("utf-8")):
        assert "cannot say [gold withheld]" in text
        assert "zyxgold" not in recoverable(text) and "qwvalias" not in recoverable(text)


class Talkative(Model):
    """A judge that repeats the reference answer in every dress, in every field, in errors too."""

    name = "mine"

    def __init__(self) -> None:
        self._turn = count()

    async def answer(self, prompt: Prompt) -> Response:
        shown = "".join(part.text for part in prompt.parts if isinstance(part, Text))
        number = int(re.search(r"Zyxgold (\d+) Mark II", shown)[1])  # type: ignore[index]
        turn = next(self._turn)
        words = " and ".join(DRESSES[turn % SAMPLES](form) for form in gold(number))
        if turn % 5 == 4:
            raise BadRequestError(f"cannot read: {words}")
        verdict = "It is " + words if turn % 5 == 3 else json.dumps({"verdict": "incorrect", "reason": words})
        return Response(verdict, finish_reason=words, model=words, reasoning=words)


def texts_of(*places: str) -> list[tuple[Path, str]]:
    paths = [path for place in places for path in (Path(place).rglob("*") if Path(place).is_dir() else [Path(place)])]
    return [
        (path, path.read_text("utf-8"))
        for path in paths
        if path.is_file() and path.suffix in (".json", ".jsonl", ".html")
    ]


def test_gold_is_in_no_dress_in_what_judges_reports_failure_pages_and_redacted_runs_write(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    evaluate("fika", made.Scripted(said), out="run", data=made.whole(tmp_path / "fika.zip", SAMPLES))
    judge("run", Talkative(), concurrency=1)  # type: ignore[arg-type]
    assert main(["failures", "run", "--pages", "pages"]) == 0
    assert main(["report", "run", "--out", "report.html"]) == 0
    assert main(["report", "run", "--redact", "public"]) == 0
    capsys.readouterr()
    assert main(["query", "SELECT * FROM scores", "run", "--csv"]) == 0
    written = [
        *texts_of("run_judged", "run/failures.jsonl", "pages", "report.html", "public"),
        (Path("query"), capsys.readouterr().out),
    ]
    names = {path.parent.name for path, _ in written}
    assert {"raw_judge_inputs", "raw_judge_outputs", "run_judged", "pages", "public", "run"} <= names
    assert sum(text.count("[gold withheld]") for _, text in written) > SAMPLES
    for path, text in written:
        plain = recoverable(text)
        for number in range(SAMPLES):
            for form in gold(number):
                assert recoverable(form) not in plain, (path, form)
