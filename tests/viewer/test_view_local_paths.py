"""Paths of this machine on exported pages: shortened to their last name, wherever a run brought them along."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_runs import ask, write_questions

from snellen.runs.evaluate import evaluate
from snellen.viewer.export import export_site, path_hider
from snellen.viewer.site import ViewSettings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/tmp/x/model-1.jsonl holds no answer", "…/model-1.jsonl holds no answer"),
        ("replay:/home/ada/secret project.jsonl", "replay:…/secret project.jsonl"),
        ("<b>/Users/ada/a/b.png</b>", "<b>…/b.png</b>"),
        ("&#39;/mnt/disk/a.csv&#39;: gone", "&#39;…/a.csv&#39;: gone"),
        ("file:///scratch/ada/x", "…/x"),
        ("--data=/data/ada/set/", "--data=…/set"),
        ("C:\\Users\\ada\\keys.txt", "…/keys.txt"),
        ("/var/folders/q1/T/run", "…/run"),
        ("https://example.org/home/ada/index.html", "https://example.org/home/ada/index.html"),
        ("images/tmp/a.png and/or /usr/bin/python", "images/tmp/a.png and/or /usr/bin/python"),
        ("1/2, km/home, </data></media>", "1/2, km/home, </data></media>"),
    ],
)
def test_paths_of_users_are_shortened_and_other_slashes_stay(text, expected, tmp_path):
    assert path_hider(tmp_path)(text) == expected


def test_an_export_holds_no_path_that_an_error_or_a_setting_names(tmp_path: Path, monkeypatch):
    table = write_questions(tmp_path / "questions")
    ask(table, tmp_path / "results" / "api", ["A", "B", "C"])
    replies = tmp_path / "elsewhere" / "model-1.jsonl"
    replies.parent.mkdir()
    replies.write_text('{"id": "q1", "prediction": "A"}\n')
    evaluate(str(table), f"replay:{replies}", out=tmp_path / "results" / "replay")
    for picture in (tmp_path / "questions" / "pics").iterdir():
        picture.unlink()
    monkeypatch.chdir(tmp_path / "elsewhere")
    export_site(ViewSettings(tmp_path / "results"), tmp_path / "site")
    texts = [
        path.read_text("utf-8") for path in (tmp_path / "site").rglob("*") if path.suffix in (".html", ".js", ".css")
    ]
    assert any("model-1.jsonl holds no answer" in text for text in texts)
    assert not any(str(tmp_path) in text or str(tmp_path.parent) in text for text in texts)
