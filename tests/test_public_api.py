"""The public names: what `import snellen` shows, and that Python functions take what the command line takes."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_type_hints

import pytest
from msgspec import structs

import snellen
from snellen.engine.progress import Progress
from snellen.engine.run_folder import RunSpec
from snellen.models.base import ModelOptions, ModelSettings
from snellen.runs.settings import run_spec

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
    assert len(names) <= 33
    assert all(getattr(snellen, name) is not None for name in names)
    assert all(inspect.getdoc(getattr(snellen, name)) for name in VERBS)


def test_evaluate_takes_every_setting_of_a_run() -> None:
    parameters = inspect.signature(snellen.evaluate).parameters
    options = {option.name: option for option in structs.fields(ModelOptions)}
    assert get_type_hints(ModelOptions) == get_type_hints(ModelSettings)
    assert options.keys() <= parameters.keys()
    assert {setting.name for setting in structs.fields(RunSpec)} - {"options", "recipe", "seeds"} <= parameters.keys()
    assert (parameters["limit"].default, parameters["max_attempts"].default) == (None, 6)
    assert parameters["timeout_s"].default == ModelOptions().timeout_s


@pytest.mark.parametrize("function", [snellen.evaluate, snellen.rerun, snellen.judge, snellen.label_failures])
def test_a_misspelt_setting_is_refused_and_the_right_one_named(function: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match=r"'patience'\. Did you mean 'patience_s'\?"):
        function("chart/digits", "embedded", patience=3)
    for name in ("zzz", "profile"):
        with pytest.raises(TypeError, match=rf"unexpected keyword argument '{name}'$"):
            function("chart/digits", "embedded", **{name: 3})


def test_a_setting_of_the_reply_or_of_images_is_sent_to_its_own_argument() -> None:
    for name, place in {
        "max_tokens": "generation=Generation(max_tokens=…)",
        "temperature": "generation=Generation(temperature=…)",
        "blank_images": "media=MediaSettings(blank=…)",
        "corrupt": "media=MediaSettings(corrupt=…)",
    }.items():
        with pytest.raises(TypeError, match=re.escape(f"'{name}'. Write {place}")):
            snellen.evaluate("chart/digits", "embedded", **{name: 3})  # type: ignore[arg-type]


def test_none_stands_for_the_default_of_a_setting() -> None:
    assert run_spec("chart", "embedded", {"generation": None, "limit": None}) == RunSpec(  # type: ignore[typeddict-item]
        benchmark="chart", model="embedded"
    )


def test_help_lists_the_settings_with_their_defaults() -> None:
    text = pydoc.plain(pydoc.render_doc(snellen.evaluate))
    assert "max_cost: 'float | None' = None" in text
    assert "timeout_s: 'float' = 300.0" in text


def test_progress_is_reported_and_a_run_has_a_short_repr(tmp_path: Path) -> None:
    reports: list[tuple[int, int | None]] = []

    def note(progress: Progress) -> None:
        reports.append((progress.done, progress.total))

    run = snellen.evaluate("chart/digits", "embedded", limit=3, out=tmp_path / "three", on_progress=note)
    assert reports[-1] == (3, 3)
    assert repr(run) == f"<Run chart/digits, embedded: 3 of 3 answered, {str(tmp_path / 'three')!r}>"
