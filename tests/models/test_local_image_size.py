"""Sizes of images after a checkpoint's own processor, recorded by a run of acuity."""

import pytest
from tiny_vlm import build

from snellen.benchmarks.base import Data
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.models.base import ModelOptions
from snellen.runs.perform import perform
from snellen.runs.score_rows import detail_lines, details

transformers = pytest.importorskip("transformers")


def test_a_run_records_what_the_checkpoint_s_processor_makes_of_its_pictures(tmp_path):
    checkpoint = build(tmp_path / "tiny")
    spec = RunSpec(
        benchmark="acuity",
        model=f"local:{checkpoint}",
        data=Data(options={"attributes": "gap", "sides": "128", "most": "8"}),
        options=ModelOptions(device="cpu"),
    )
    run = perform(spec, RunFolder(tmp_path / "run"))
    assert run.meta.environment["executor"]["images"] == [
        {"sent_width": 128, "sent_height": 128, "width": 16, "height": 16, "patch": 8}
    ]
    (picture,) = details(run)["pictures"]
    assert (picture["side"], picture["after"], picture["patch"], picture["by"]) == (128, 16.0, 8, "processor")
    assert any("16 px after the processor, patches of 8 px (the model's own processor)" in x for x in detail_lines(run))
    again = perform(spec, RunFolder(tmp_path / "run"))  # nothing is left to ask, and what was recorded stays
    assert again.meta.environment["executor"] == run.meta.environment["executor"]


def test_patches_in_rows_tiles_and_padding_are_told_apart():
    from snellen.models.local.chat_template import processed_images

    qwen = transformers.Qwen2VLImageProcessor()
    (image,) = processed_images(qwen, None, [(512, 300)])
    assert (image.width, image.height, image.patch, image.tiles) == (504, 308, 28, 1)
    (cut,) = processed_images(transformers.LlavaNextImageProcessor(), None, [(512, 512)])
    assert (cut.width, cut.height) == (None, None)
    assert cut.tiles > 1
    (padded,) = processed_images(transformers.PixtralImageProcessor(), None, [(200, 1024)])
    assert (padded.width, padded.height, padded.patch) == (208, 1024, None)
    assert processed_images(qwen, None, [(9000, 9000)]) == []
