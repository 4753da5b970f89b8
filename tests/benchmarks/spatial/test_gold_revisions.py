"""Gold answers that were corrected after figures had been published are known for what they are, in every layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.spatial import kit_drawn, official_drawn
from snellen import evaluate
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import BLINK
from snellen.benchmarks.spatial.reference import published, verification
from snellen.benchmarks.spatial.tasks import EVERY
from snellen.benchmarks.table.set_sections import Correction
from snellen.cli import main
from snellen.easi.result import locate_results
from snellen.easi.score import score_result
from snellen.models.base import Model
from snellen.runs.caveats import conditions
from snellen.runs.run import load_run
from snellen.types import Prompt, Response

OLD = EVERY["blink"].declared.correction
BEFORE, AFTER = OLD.name("before"), OLD.name("after")
CORRECTED = "".join({"A": "B", "B": "C", "C": "A"}[letter] for letter in OLD.first)


class AlwaysA(Model):
    """Says A."""

    name = "always:a"

    def identity(self) -> dict[str, str]:
        return {"name": "a"}

    async def preflight(self) -> None: ...

    async def answer(self, prompt: Prompt) -> Response:
        return Response("A")

    async def close(self) -> None: ...


def kit_table(folder: Path, letters: str) -> Path:
    """A table of VLMEvalKit's with these answers to Relative_Reflectance, which has another MD5 than the kit's."""
    options = dict(zip("ABC", ("up", "down", "same"), strict=True))
    row = {"question": "Which is darker?", **options, "category": OLD.group, "split": "val", "image": kit_drawn.text(1)}
    return kit_drawn.tsv(folder / "BLINK.tsv", [{"index": at, **row, "answer": one} for at, one in enumerate(letters)])


def hub_folder(folder: Path, letters: str) -> Path:
    """The hub's layout, rows not in the order of their numbers."""
    folder = official_drawn.draw("blink", folder)
    (file,) = folder.rglob(f"*{OLD.group}/val-00000-of-00001.parquet")
    table = pq.read_table(file)
    (row, *_) = table.to_pylist()
    rows = [
        {**row, "idx": f"val_{OLD.group}_{at + 1}", "answer": f"({one})", "choices": ["up", "down", "same"]}
        for at, one in enumerate(letters)
    ]
    pq.write_table(pa.Table.from_pylist(rows[::-1], schema=table.schema), file)
    return folder


@pytest.mark.parametrize("layout", [kit_table, hub_folder])
def test_answers_from_before_the_correction_are_named_whatever_the_layout(layout: Any, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir(), (tmp_path / "new").mkdir()
    old, new = layout(tmp_path / "old", OLD.first), layout(tmp_path / "new", CORRECTED)
    (line,) = [line for line in BLINK.notices(Data(old)) if BEFORE in line]
    assert "134 of the 1,901 questions" in line and "2025-09-03" in line and "2026-05-11" in line
    assert not any(BEFORE in line for line in BLINK.notices(Data(new)))
    assert BLINK.gold(Data(old), BLINK.digest(Data(old))) == BEFORE
    assert BLINK.gold(Data(new), BLINK.digest(Data(new))) == OLD.name("other")


def test_the_two_tables_of_the_kit_are_known_by_their_digests_alone() -> None:
    for table, revision in ((OLD.before, "before"), (OLD.after, "after")):
        assert OLD.by_digest(table.md5) == OLD.by_digest(f"sha256:{table.sha256}0123") == revision
        name = OLD.name("before" if revision == "before" else "after")
        assert BLINK.gold(Data(None), f"sha256:{table.sha256}0123") == name
    assert OLD.by_digest("d41d8cd98f00b204e9800998ecf8427e") is None


def test_a_table_with_the_old_md5_is_not_called_changed_but_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kit_table(tmp_path, CORRECTED)
    assert any("rows may have been changed" in line for line in BLINK.notices(Data(path)))
    monkeypatch.setattr(Correction, "by_digest", lambda self, digest: "before")
    lines = BLINK.notices(Data(path))
    assert not any("rows may have been changed" in line for line in lines)
    assert any(BEFORE in line for line in lines)


def test_published_rows_name_the_answers_that_they_rest_on() -> None:
    assert dict(published.table().gold) == {"blink/overall": BEFORE}
    (own,) = published.published_column("blink")
    assert dict(own.gold) == {"overall": BEFORE}
    assert published.published_column("vsi-bench")[0].gold == ()
    assert all(check.gold["vlmevalkit"] == BEFORE for check in verification.verification_rows("blink", None))


def runs(root: Path) -> list[Path]:
    """A run over the old answers, and one over the corrected ones."""
    folders = []
    for name, letters in (("old", OLD.first), ("new", CORRECTED)):
        (root / name).mkdir()
        folders.append(root / f"run-{name}")
        evaluate("blink", AlwaysA(), data=kit_table(root / name, letters), out=folders[-1])
    return folders


def test_a_comparison_across_revisions_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = runs(tmp_path)
    said = f"the baseline has {BEFORE}; the other has {OLD.name('other')}"
    assert main(["compare", str(old), str(new)]) == 12
    assert said in " ".join(capsys.readouterr().err.split())
    assert main(["compare", str(old), str(new), "--force", "--json"]) == 0
    (pairing,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert any(said in line for line in pairing["notes"])


@pytest.mark.parametrize("known", [True, False], ids=["by its digest", "by its answers"])
def test_the_revision_is_that_of_the_answers_by_which_replies_are_scored_now(
    known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = load_run(runs(tmp_path)[0])
    recorded = str(old.meta.identity["data"])
    monkeypatch.setattr(
        Correction, "by_digest", lambda self, digest: "before" if known and digest and digest in recorded else None
    )
    assert BLINK.gold(old.meta.spec.data, recorded) == BEFORE
    kit_table(tmp_path / "old", CORRECTED)
    assert BLINK.gold(old.meta.spec.data, recorded) == OLD.name("other")
    (line,) = [line for line in conditions(old.meta, old.benchmark) if "the published figures rest on" in line]
    assert line.startswith(OLD.name("other"))
    (tmp_path / "old/BLINK.tsv").unlink()
    assert BLINK.gold(old.meta.spec.data, recorded) == (BEFORE if known else "")


def test_a_run_beside_published_rows_and_in_a_submission_says_which_answers_it_has(tmp_path: Path) -> None:
    old, new = (load_run(folder) for folder in runs(tmp_path))
    assert not any("rest on" in line for line in conditions(old.meta, old.benchmark))
    assert any(f"the published figures rest on {BEFORE}" in line for line in conditions(new.meta, new.benchmark))
    for run, name in ((old, BEFORE), (new, OLD.name("other"))):
        (result,) = locate_results([run.path]).values()
        (source,) = score_result(result, "easi").provenance["sources"]
        assert source["gold"] == name


def test_answers_of_another_harness_that_bring_the_old_gold_along_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, letters in (("old", OLD.first), ("new", CORRECTED)):
        rows = [
            {"index": at, "question": "Which?", "A": "up", "B": "down", "C": "same", "category": OLD.group}
            | {"answer": one, "prediction": "A"}
            for at, one in enumerate(letters)
        ]
        path = kit_drawn.tsv(tmp_path / f"{name}_BLINK.tsv", rows)
        assert main(["score", str(path), "--benchmark", "blink"]) == 0
        told = " ".join("".join(capsys.readouterr()).split())
        assert (BEFORE in told) == (name == "old")
