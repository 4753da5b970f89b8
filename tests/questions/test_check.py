"""A check finds what was spoiled, and says where."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from birds import rows, taxonomy

from snellen.cli import main
from snellen.errors import DataError
from snellen.questions.generate import BuildSettings, generate
from snellen.questions.verify import verify_set

pytestmark = pytest.mark.usefixtures("printed_as_schema")


@pytest.fixture
def built(tmp_path: Path) -> Path:
    kinds = ("truth", "choice", "short", "bias")
    generate(BuildSettings(out=tmp_path / "set", rows=rows(tmp_path), taxonomy=taxonomy(tmp_path), kinds=kinds))
    return tmp_path / "set"


def spoil(folder: Path, which: str, **values: object) -> None:
    """Change columns of the first row whose id begins so."""
    path = folder / "questions.parquet"
    table = pq.read_table(path)
    found = table.to_pylist()
    row = next(row for row in found if row["id"].startswith(which))
    for name, value in values.items():
        row[name] = value(row) if callable(value) else value
    pq.write_table(pa.Table.from_pylist(found, schema=table.schema), path)


def broken(folder: Path) -> set[str]:
    """Claims that do not hold, without the digests, which any change breaks."""
    return {claim.name for claim in verify_set(folder).claims if claim.faults} - {"files"}


def test_a_set_as_it_was_built_holds(built):
    report = verify_set(built)
    assert report.holds and {claim.name for claim in report.claims if not claim.cases} == {"images"}
    assert report.questions == 3 * 3 * 100 + 200
    share = {part.part: part.sibling_share for part in report.parts}
    assert share["order/choice"] == 0 and 0.6 < share["species/choice"] < 1


@pytest.mark.parametrize(
    ("which", "values", "claims"),
    [
        ("species/truth/", {"target": lambda row: "no" if row["target"] == "yes" else "yes"}, {"answer"}),
        ("species/choice/", {"target": "palm warbler x"}, {"answer"}),
        ("species/choice/", {"options": lambda row: [row["label"]] * 4}, {"answer", "overlap"}),
        ("species/choice/", {"kinship": ["other"] * 4, "siblings": 0, "cousins": 0, "others": 3}, {"negatives"}),
        ("species/short/", {"image": "ivory_gull.jpg"}, {"leak"}),
        ("species/short/", {"text": lambda row: f"Which {row['label']} is this?"}, {"leak"}),
        ("species/short/", {"text": lambda row: f"What is in {row['source']}?"}, {"leak"}),
        ("species/short/2", {"id": "species/short/1"}, {"ids"}),
    ],
)
def test_what_was_spoiled_is_found(built, which, values, claims):
    spoil(built, which, **values)
    assert claims <= broken(built)
    assert not verify_set(built).holds


def test_a_set_that_says_yes_too_often_is_found(built):
    path = built / "questions.parquet"
    table = pq.read_table(path)
    found = table.to_pylist()
    for row in found:
        if row["kind"] == "truth":
            row.update(asked=row["label"], target="yes", text=f"Is it {row['label']}?")
        if row["kind"] == "choice":
            others = [name for name in row["options"] if name != row["label"]]
            row.update(options=[row["label"], *others], right=0)
    pq.write_table(pa.Table.from_pylist(found, schema=table.schema), path)
    assert {"balance", "positions"} <= broken(built)


def test_a_question_file_that_says_something_else_is_found(built):
    path = built / "genus/genus_question_short_answer.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"class":"gull"', b'"class":"tern"', 1))
    claim = next(claim for claim in verify_set(built).claims if claim.name == "files")
    assert claim.faults == 2 and "genus_question_short_answer.jsonl" in " ".join(claim.examples)


def test_the_command_proves_with_its_exit_status(built, capsys):
    assert main(["build", "check", str(built), "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["holds"] is True
    spoil(built, "species/short/", image="ivory_gull.jpg")
    assert main(["build", "check", str(built)]) == 1
    assert "ivory_gull.jpg" in capsys.readouterr().out


def test_a_folder_without_a_set_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"benchmark\.json"):
        verify_set(tmp_path)


def test_the_command_builds_and_names_what_is_wrong(tmp_path, capsys):
    given = ["--rows", str(rows(tmp_path)), "--taxonomy", taxonomy(tmp_path), "--out", str(tmp_path / "set")]
    assert main(["build", "questions", *given, "--levels", "genus,species", "--kinds", "short", "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["questions"] == 200
    assert main(["build", "questions", *given]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err
