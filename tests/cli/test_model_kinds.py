"""Where each kind of model runs (`models.registry.KINDS`), and what plans, budgets, endpoints and videos make of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.stubs import ARITHMETIC
from servers.fast import MODEL
from snellen.engine.resume import require_video_reader
from snellen.engine.run_folder import RunSpec
from snellen.errors import MissingExtraError
from snellen.models.registry import API_KINDS, ENGINE_KINDS, KINDS, PLUGIN, TORCH_KINDS, runtime_of
from snellen.runs.plan.cells import ON_THIS_MACHINE, cells_of
from snellen.runs.plan.document import read_plan
from snellen.sources.blobs import BytesBlob
from snellen.types import Prompt, Sample, Video

pytestmark = pytest.mark.installed

IN_PROCESS = (*TORCH_KINDS, *ENGINE_KINDS)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both engines pass for installed: a model is opened, and none is started."""
    monkeypatch.setattr("snellen.models.in_process.find_spec", lambda name: object())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_where_it_runs_and_the_rest_agrees_with_that(kind):
    runtime = runtime_of(f"{kind}:name")
    assert runtime == runtime_of(kind) == KINDS[kind].runtime != PLUGIN
    assert runtime.here == (kind in IN_PROCESS) and runtime.remote == (kind in (*API_KINDS, "tools"))
    assert not (runtime.here and (runtime.remote or runtime.priced or runtime.open_files))
    assert runtime.priced == bool(runtime.open_files), "what opens no connection is paid to nobody"
    assert runtime.decodes == (kind != "replay")


def test_a_kind_of_a_plug_in_is_neither_here_nor_behind_a_known_server():
    assert runtime_of("my-kind:api:name") == runtime_of("") == PLUGIN
    assert not (PLUGIN.here or PLUGIN.remote or PLUGIN.decodes)


@pytest.mark.parametrize("kind", IN_PROCESS)
def test_cells_of_models_in_this_process_share_this_machine_and_omit_the_plans_endpoint(kind, snellen):
    name = kind if kind == "embedded" else f"{kind}:owner/name"
    Path("plan.toml").write_text(
        f'benchmarks = ["lights"]\nmodels = ["{name}"]\n[defaults]\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    (cell,) = cells_of(read_plan("plan.toml"))
    assert cell.endpoint == ON_THIS_MACHINE and cell.spec.options.base_url is None


@pytest.mark.parametrize("kind", ENGINE_KINDS)
def test_a_budget_for_an_engine_is_refused_without_advice_that_is_refused_too(kind, snellen, engines, tmp_path):
    said = snellen("run", "lights", "-m", f"{kind}:{tmp_path}", "--max-cost", "1")
    assert said.status == 2 and "Omit --max-cost" in said.err and "--prices" not in said.err


@pytest.mark.parametrize("kind", ENGINE_KINDS)
def test_an_engine_beside_a_model_behind_an_endpoint_is_not_given_the_endpoint(kind, snellen, engines, stub, tmp_path):
    said = snellen("run", "lights", "-m", f"{kind}:{tmp_path}", "-m", f"api:{MODEL}", "--base-url", stub.url)
    assert "--base-url" not in said.err and stub.stats()["served"] == 60


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "replay"])
def test_videos_without_their_reader_are_refused_before_the_model_is_loaded(kind, monkeypatch):
    monkeypatch.setattr("snellen.engine.resume.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "av", None)
    clip = Sample("one", Prompt((Video(blob=BytesBlob("a.mp4", b"")),)), "A", "short")
    films = replace(ARITHMETIC, samples=lambda data: iter([clip]))
    with pytest.raises(MissingExtraError, match=r"a\.mp4 needs PyAV"):
        require_video_reader(films, RunSpec(benchmark="films", model=f"{kind}:name"))
    require_video_reader(films, RunSpec(benchmark="films", model="replay:name"))
