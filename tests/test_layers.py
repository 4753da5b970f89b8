"""The house's order of rooms, checked by import-linter's contracts in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parent.parent


def test_arrows_between_the_rooms_point_downward_only(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    status = lint_imports(no_cache=True)
    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out
