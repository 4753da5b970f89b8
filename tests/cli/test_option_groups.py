"""Groups of options: their defaults are those of the Python settings, and their headings reach --help."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec import structs

from snellen import evaluate
from snellen.cli import options
from snellen.cli.options import AgentOptions
from snellen.cli.run import RunOptions
from snellen.engine.run_folder import RunSpec
from snellen.models.base import ModelOptions
from snellen.runs.settings import run_spec
from snellen.setting import settings_of
from snellen.types import Generation, MediaSettings

pytestmark = pytest.mark.installed


def test_omitted_options_give_the_default_settings_of_a_model():
    groups = (options.StudyOptions(), options.EndpointOptions(), options.MediaOptions(), options.LocalOptions())
    assert options.model_options(*groups) == ModelOptions()
    assert ModelOptions(**AgentOptions().settings(None)) == ModelOptions()


def test_omitted_options_give_the_default_settings_of_a_run():
    groups = (RunOptions(), options.DataOptions(), options.StudyOptions(), options.EndpointOptions())
    groups += (options.MediaOptions(), options.LocalOptions(), options.WorkerOptions(), options.BudgetOptions())
    assert run_spec("chart", "embedded", options.run_settings(*groups)) == RunSpec(benchmark="chart", model="embedded")


def test_every_setting_is_described_and_its_option_and_plan_have_its_range():
    undescribed = {"benchmark", "model", "data", "options", "recipe", "seeds"}  # the last two are recorded, not set
    for struct, without in (
        (RunSpec, undescribed),
        (ModelOptions, set()),
        (Generation, {"seed", "reply_schema"}),  # each question has its own
        (MediaSettings, set()),
    ):
        assert settings_of(struct).keys() == set(struct.__struct_fields__) - without
    assert "Maximum requests per minute." in evaluate.__doc__ and "rpm" in evaluate.__doc__


def test_omitted_options_give_the_default_generation_and_media():
    assert options.GenerationOptions().settings() == Generation()
    assert options.MediaOptions().settings() == MediaSettings()


def test_options_with_a_field_of_the_same_name_in_the_run_have_its_default():
    groups = (options.EndpointOptions(), options.BudgetOptions(), options.WorkerOptions())
    values = {name: value for group in groups for name, value in dataclasses.asdict(group).items()}
    defaults = {field.name: field.default for field in structs.fields(RunSpec)}
    names = set(values) & set(defaults)
    assert {"max_attempts", "max_cost", "max_tokens_total", "nproc", "ray"} <= names
    assert {name: values[name] for name in names} == {name: defaults[name] for name in names}


def test_options_stand_under_the_heading_of_their_group(capsys):
    from snellen.cli import main

    assert main(["judge", "--help-all"]) == 0
    text = capsys.readouterr().out
    endpoint = text.index(options.ENDPOINT)
    assert text.index(options.WRITING) < text.index("--temperature") < endpoint < text.index("--max-attempts")
