"""A page says why a figure has no interval."""

from pathlib import Path

import pytest

from snellen.cli import main


def test_a_page_says_why_its_headline_has_no_interval(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the embedded model needs torch: pip install 'snellen[local]'")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "chart", "--model", "embedded", "--limit", "8", "--out", "few", "--report", "--quiet"]) == 0
    about = Path("few/report.html").read_text("utf-8").partition('class="about">')[2].partition("<br>")[0]
    assert "no interval: too few clusters (effective number 1.0)" in about
