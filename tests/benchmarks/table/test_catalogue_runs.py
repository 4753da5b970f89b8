"""Each entry of the catalogue: read from a drawn set in its official layout, run against an oracle, scored by profile."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from card_sets_drawn import CARD_HEADLINES, empty_wordnet
from catalogue_drawn import ROWS, draw
from clip_sets_drawn import CLIP_SETS
from document_sets_drawn import DOCUMENT_SETS
from further_video_sets_drawn import FURTHER_VIDEO_SETS
from medical_sets_drawn import MEDICAL_HEADLINES
from msgspec import structs
from video_sets_drawn import VIDEO_SETS

import snellen
from servers.oracle import OracleServer
from snellen.benchmarks import registry
from snellen.benchmarks.table.end_to_end import kept_rows, prompt_parts
from snellen.benchmarks.table.entries import entry, headline, names
from snellen.benchmarks.table.official import table_name
from snellen.cli import main
from snellen.errors import DataError
from snellen.sources.digests import with_md5
from snellen.types import Text

HEADLINES = {
    "mmvp": 3 / 4,
    "cv-bench-2d": (3 / 4 + 1) / 2,
    "hrbench4k": (1 / 2 + 3) / 4,
    "hrbench8k": (1 / 2 + 3) / 4,
    "hallusionbench": (7 / 8 + 3 / 4 + 3 / 4) / 3,
    "amber": (3 / 4 + 1) / 2,
    "naturalbench": 1 / 2,
    "mmbench-dev-en-v11": 1 / 2,
    "mmbench-dev-cn-v11": 1 / 2,
    "ocrbench": 7,
    "blindtest": (1 / 2 + 3) / 4,
    "mme": 9 * 200 + 50,
    "pope": 6 / 7,
    "winoground": 3 / 4,
    **CARD_HEADLINES,
    **MEDICAL_HEADLINES,
}
"""The headline where every reply is right but the first row's; of other entries it is 7 of 8."""
BY_HARNESS = {
    ("crpe-exist", "vlmevalkit"): 1.0,  # any reply of two characters that begins with none of A to D is right there
    ("crpe-relation", "vlmevalkit"): 1.0,
    (
        "dynamath",
        "lmms-eval",
    ): 0.0,  # its reader takes a tag, a box or a number that ends a line, not the JSON that is asked for
    ("logicvista", "lmms-eval"): 0.0,  # the same reader, and bare letters
    ("mathverse", "lmms-eval"): 0.5,
    ("wemath", "lmms-eval"): 0.0,
    ("screenspot-v2", "lmms-eval"): 0.0,  # clicks in thousandths, where it reads shares of the sides
}
"""Headlines of the same replies where a harness's own rule gives another; harness_vectors.jsonl has replies that it scored."""


def md5_of(path: Path) -> str:
    return with_md5(path)[1]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("nltk.data.path", empty_wordnet(tmp_path / "nltk"))
    monkeypatch.delenv("LMUData", raising=False)


ELSEWHERE = {*VIDEO_SETS, *CLIP_SETS, *DOCUMENT_SETS, *FURTHER_VIDEO_SETS}
"""Sets that files of their own draw and run."""


@pytest.mark.parametrize("name", [name for name in names() if name not in ELSEWHERE])
def test_an_entry_is_read_run_and_scored(name: str, tmp_path: Path) -> None:
    drawn = draw(entry(name), tmp_path)
    with OracleServer(drawn.reply) as server:
        run = snellen.evaluate(
            name, "api:oracle", base_url=server.url, data=drawn.path, images=drawn.images, out=tmp_path / "run"
        )
    assert run.meta.totals.ok == run.meta.totals.done == drawn.rows
    assert len(server.requests) == drawn.rows
    expected = HEADLINES.get(name, (ROWS - 1) / ROWS)
    for profile in ("strict", "vlmevalkit", "lmms-eval"):
        first = run.figures(profile)[profile][0]
        assert first.name == headline(entry(name))
        assert first.value == pytest.approx(BY_HARNESS.get((name, profile), expected)), profile
        assert first.coverage == 1.0
        invalid = next(metric for metric in run.figures(profile)[profile] if metric.name == "invalid")
        assert invalid.value is not None


def test_a_table_of_another_layout_is_refused_with_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "hub.csv"
    file.write_text("index,image,question,answer\n0,a.png,Which? A: x B: y,A\n")
    with pytest.raises(DataError, match="columns A, B and so on were expected; the columns are index, image, question"):
        list(registry.find("mmstar").samples(snellen.Data(path=file)))
    with pytest.raises(DataError, match=r"\[rows\] question: there is no column 'prompt'"):
        list(registry.find("cv-bench-2d").samples(snellen.Data(path=file)))


def test_nothing_is_fetched_to_list_an_entry(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: object, **settings: object) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr("snellen.sources.remote.fetch", refused)
    monkeypatch.setattr("snellen.benchmarks.table.official.fetch", refused)
    monkeypatch.setattr("snellen.sources.hub.download", refused)
    assert registry.find("mmstar").size(snellen.Data()) == 1500
    assert registry.find("colorbench").size(snellen.Data()) is None
    assert main(["list", "mmstar", "colorbench"]) == 0
    assert main(["list", "catalogue"]) == 0
    assert main(["list"]) == 0
    assert (
        f"{len(names())} declared benchmarks, such as mmstar, pope and chartqa: snellen list catalogue"
        in capsys.readouterr().out
    )


def test_a_table_in_the_kits_folder_is_run_without_a_word_about_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = draw(entry("vsr"), tmp_path)
    (tmp_path / "lmu").mkdir()
    table = drawn.path.rename(tmp_path / "lmu" / "VSR-zeroshot.tsv")
    known = structs.replace(entry("vsr"), source=structs.replace(entry("vsr").source, md5=md5_of(table)))
    monkeypatch.setattr("snellen.benchmarks.table.catalogue_benchmarks.entry", lambda name: known)
    monkeypatch.setenv("LMUData", str(tmp_path / "lmu"))
    with OracleServer(drawn.reply) as server:
        run = snellen.evaluate("vsr", "api:oracle", base_url=server.url, out=tmp_path / "run")
        again = snellen.rerun(tmp_path / "run", base_url=server.url)
    assert run.figures("vlmevalkit")["vlmevalkit"][0].value == 7 / 8
    assert again.meta.totals.ok == drawn.rows


def test_the_data_is_another_table_and_the_user_is_told(tmp_path: Path) -> None:
    drawn = draw(entry("mmstar"), tmp_path)
    benchmark = registry.find("mmstar")
    lines = benchmark.notices(snellen.Data(path=drawn.path))
    assert "drawn.tsv is another table than the declared one" in lines[0]
    assert lines[1] == "the table has 8 rows; 1,500 are known of mmstar"


OWN_PROMPTS = ("visualpuzzles", "vlmbias", "vstar", "visonlyqa")
"""Entries whose class in VLMEvalKit is not described, or whose table has another name there."""
FOLLOWING = [name for name in names() if entry(name).follows.startswith("kit@") and name not in OWN_PROMPTS]


@pytest.mark.parametrize("name", FOLLOWING)
def test_the_prompts_are_those_of_the_harness_that_an_entry_follows(name: str, tmp_path: Path) -> None:
    drawn = draw(entry(name), tmp_path)
    dataset = table_name(entry(name).source).removesuffix(".tsv")
    rows = kept_rows(dataset, drawn.path.read_text(encoding="utf-8"))
    samples = list(registry.find(name).samples(snellen.Data(path=drawn.path)))
    assert [str(row["index"]) for row in rows] == [sample.id for sample in samples]
    for row, sample in zip(rows, samples, strict=True):
        expected = prompt_parts(dataset, row)
        kinds = ["text" if isinstance(part, Text) else "image" for part in sample.prompt.parts]
        assert kinds == [part["type"] for part in expected if part.get("value") != ""]
        texts = [part.text for part in sample.prompt.parts if isinstance(part, Text)]
        for text, part in zip(texts, (part for part in expected if part["type"] == "text"), strict=False):
            if "sha256" in part:
                assert hashlib.sha256(text.encode()).hexdigest() == part["sha256"]
            elif part["value"]:
                assert text == part["value"]
