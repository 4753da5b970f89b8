"""Each entry of the catalogue: read from a drawn set in its official layout, run against an oracle, scored by profile."""

from __future__ import annotations

from pathlib import Path

import pytest
from catalogue_drawn import ROWS, draw

import snellen
from servers.oracle import OracleServer
from snellen.benchmarks import registry
from snellen.benchmarks.table.entries import entry, headline, names

HEADLINES = {
    "mmvp": 3 / 4,
    "cv-bench-2d": (3 / 4 + 1) / 2,
    "hrbench4k": (1 / 2 + 3) / 4,
    "hrbench8k": (1 / 2 + 3) / 4,
    "hallusionbench": (7 / 8 + 3 / 4 + 3 / 4) / 3,
    "amber": (3 / 4 + 1) / 2,
    "naturalbench": 1 / 2,
    "mmbench-dev-en-v11": 1 / 2,
    "ocrbench": 7,
    "blindtest": (1 / 2 + 3) / 4,
    "mme": 9 * 200 + 50,
    "pope": 6 / 7,
    "winoground": 3 / 4,
}
"""The headline where every reply is right but the first row's; of other entries it is 7 of 8."""


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LMUData", raising=False)


@pytest.mark.parametrize("name", names())
def test_an_entry_is_read_run_and_scored(name: str, tmp_path: Path) -> None:
    drawn = draw(entry(name), tmp_path)
    with OracleServer(drawn.reply) as server:
        run = snellen.evaluate(
            name, "api:oracle", base_url=server.url, data=drawn.path, images=drawn.images, out=tmp_path / "run"
        )
    assert run.meta.totals.ok == run.meta.totals.done == drawn.rows
    assert len(server.asked) == drawn.rows
    expected = HEADLINES.get(name, (ROWS - 1) / ROWS)
    for profile in ("strict", "vlmevalkit", "lmms-eval"):
        first = run.figures(profile)[profile][0]
        assert first.name == headline(entry(name))
        assert first.value == pytest.approx(expected), profile
        assert first.coverage == 1.0
        invalid = next(metric for metric in run.figures(profile)[profile] if metric.name == "invalid")
        assert invalid.value is not None


def test_the_data_is_another_table_and_the_user_is_told(tmp_path: Path) -> None:
    drawn = draw(entry("mmstar"), tmp_path)
    benchmark = registry.find("mmstar")
    lines = benchmark.notices(snellen.Data(path=drawn.path))
    assert "drawn.tsv is another table than the catalogue's" in lines[0]
    assert lines[1] == "the table has 8 rows; 1,500 are known of mmstar"
