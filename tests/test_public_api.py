"""The public names: what `import snellen` shows, and that Python functions take what the command line takes."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_type_hints

from msgspec import structs

import snellen
from snellen.engine.progress import Progress
from snellen.engine.run_folder import RunSpec
from snellen.models.base import ModelOptions, ModelSettings

VERBS = (
    "compare",
    "evaluate",
    "export",
    "judge",
    "label_failures",
    "load_run",
    "query",
    "redact",
    "report",
    "rerun",
    "score",
)


def test_dir_shows_the_public_names_alone_and_each_can_be_had() -> None:
    names = dir(snellen)
    assert set(VERBS) < set(names)
    assert len(names) <= 32
    assert all(getattr(snellen, name) is not None for name in names)
    assert all(inspect.getdoc(getattr(snellen, name)) for name in VERBS)


def test_evaluate_takes_every_setting_of_a_run() -> None:
    parameters = set(inspect.signature(snellen.evaluate).parameters)
    settings = set(get_type_hints(ModelSettings))
    options = {option.name for option in structs.fields(ModelOptions)}
    assert options <= parameters | settings
    assert {setting.name for setting in structs.fields(RunSpec)} - {"options"} <= parameters
    types = {option.name: option.type for option in structs.fields(ModelOptions)}
    assert {name: types[name] for name in settings} == get_type_hints(ModelSettings)


def test_progress_is_reported_and_a_run_has_a_short_repr(tmp_path: Path) -> None:
    reports: list[tuple[int, int | None]] = []

    def note(progress: Progress) -> None:
        reports.append((progress.done, progress.total))

    run = snellen.evaluate("chart/digits", "embedded", limit=3, out=tmp_path / "three", on_progress=note)
    assert reports[-1] == (3, 3)
    assert repr(run) == f"<Run chart/digits, embedded: 3 of 3 answered, {str(tmp_path / 'three')!r}>"
