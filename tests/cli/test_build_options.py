"""All values of an attribute as options, and numbers of images by level."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from snellen.questions.verify import verify_set

pytestmark = pytest.mark.installed

LEVELS = ("order", "genus", "species")
GENERA = {"gull": ("herring gull", "ivory gull", "common gull"), "tern": ("arctic tern", "fairy tern")}
SONGBIRDS = {
    "warbler": ("yellow warbler", "hooded warbler", "pine warbler", "palm warbler"),
    "ovenbird": ("teacher bird",),
}
TAXONOMY = [
    f"{order},{genus},{species}"
    for order, genera in (("gulls", GENERA), ("songbirds", SONGBIRDS))
    for genus, kinds in genera.items()
    for species in kinds
]
BILLS = ("hooked", "hooked seabird", "cone", "dagger", "needle")


def bills(folder: Path) -> str:
    """Values of bill shape in turn; every tenth image has a second one."""
    lines = [f'"val/a,b/{n}.jpg",bill shape,{BILLS[n % 5]}' for n in range(100)]
    lines += [f'"val/a,b/{n}.jpg",bill shape,{BILLS[(n + 2) % 5]}' for n in range(0, 100, 10)]
    (folder / "values.csv").write_text("image,attribute,value\n" + "\n".join(lines) + "\n")
    return str(folder / "values.csv")


def rows(folder: Path) -> str:
    """A hundred rows of image and label, the ten species in turn."""
    (folder / "rows.csv").write_text("".join(f"val/a,b/{n}.jpg,{TAXONOMY[n % 10].split(',')[2]}\n" for n in range(100)))
    return str(folder / "rows.csv")


def taxonomy(folder: Path) -> str:
    (folder / "taxonomy.csv").write_text("\n".join([",".join(LEVELS), *TAXONOMY]) + "\n")
    return str(folder / "taxonomy.csv")


def built(snellen: Any, folder: Path, *more: str) -> list[dict[str, Any]]:
    """Build with further options from the command line, and return the table's rows."""
    given = ("--rows", rows(folder), "--taxonomy", taxonomy(folder), "--out", str(folder / "set"))
    said = snellen("build", "questions", *given, *more)
    assert said.status == 0, said.err
    return pq.read_table(folder / "set" / "questions.parquet").to_pylist()


def test_all_lists_every_value_of_an_attribute_and_leaves_the_levels_alone(snellen, tmp_path):
    more = ("--kinds", "choice,attributes", "--attributes", bills(tmp_path), "--options", "3,all")
    table = built(snellen, tmp_path, *more)
    choices = [row for row in table if row["kind"] == "choice"]
    sizes = {level: Counter(len(row["options"]) for row in choices if row["level"] == level) for level in LEVELS}
    assert sizes == {"order": {2: 100}, "genus": {3: 100}, "species": {3: 100}}
    asked = [row for row in choices if row["ask"] == "attribute"]
    # An image with two values lists four: its second true value would be a second right option.
    assert Counter(len(row["options"]) for row in asked) == {5: 90, 4: 10}
    assert all(set(row["options"]) == set(BILLS) for row in asked if len(row["options"]) == 5)
    report = verify_set(tmp_path / "set")
    assert report.holds, report.claims
    assert "whose options are all values" in (tmp_path / "set/README.md").read_text()


def test_without_all_an_attribute_has_as_many_options_as_a_level(snellen, tmp_path):
    table = built(snellen, tmp_path, "--kinds", "attributes", "--attributes", bills(tmp_path))
    options = [set(row["options"]) for row in table if row["kind"] == "choice"]
    assert max(map(len, options)) == 4 and not any({"hooked", "hooked seabird"} <= each for each in options)


def test_each_level_has_its_own_number_of_images_for_a_class(snellen, tmp_path):
    table = built(snellen, tmp_path, "--kinds", "short", "--per-class", "order=35,genus=20,3")
    counts = {level: Counter(row["label"] for row in table if row["level"] == level) for level in LEVELS}
    assert counts["order"] == {"gulls": 35, "songbirds": 35}
    assert counts["genus"] == {"gull": 20, "tern": 20, "warbler": 20, "ovenbird": 10}  # of 30, 20, 40 and 10
    assert set(counts["species"].values()) == {3}


def test_a_level_without_a_number_has_all_its_images(snellen, tmp_path):
    table = built(snellen, tmp_path, "--kinds", "short", "--per-class", "order=5")
    assert Counter(row["level"] for row in table) == {"order": 10, "genus": 100, "species": 100}


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--options", "all"), "--attributes FILE"),
        (("--options", "many"), "a number of options, `all`, or both"),
        (("--options", "4,5"), "a number of options, `all`, or both"),
        (("--options", "1"), "2 to 26"),
        (("--per-class", "family=3"), "levels are order, genus, species"),
        (("--per-class", "order=3,order=4"), "once for a level"),
        (("--per-class", "order=few"), "LEVEL=NUMBER"),
        (("--per-class", "order=0"), "at least 1"),
    ],
)
def test_numbers_that_cannot_be_used_are_refused(snellen, tmp_path, more, complaint):
    said = snellen(
        "build", "questions", "--rows", rows(tmp_path), "--taxonomy", taxonomy(tmp_path), "--out", "x", *more
    )
    assert said.status == 2 and complaint in " ".join(said.err.split())
