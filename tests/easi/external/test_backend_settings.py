"""Which benchmarks a harness is asked, by whatever names they are given."""

from __future__ import annotations

import pytest

from snellen.benchmarks.spatial.tasks import TASKS
from snellen.easi.external import BACKENDS, HarnessSettings, run_backend
from snellen.easi.external.settings import jobs
from snellen.errors import UsageError


def test_all_twelve_have_the_harnesses_names_of_the_submission():
    lmms = {job.name: [name for _, name in job.parts] for job in jobs(TASKS, "lmms-eval")}
    kit = {job.name: [name for _, name in job.parts] for job in jobs(TASKS, "vlmevalkit")}
    assert list(lmms) == list(TASKS)
    assert lmms["3dsrbench"] == ["3dsrbench_circular"]
    assert lmms["site"] == ["site_bench_image", "site_bench_video_multiimage"]
    assert kit["site"] == ["SiteBenchImage", "SiteBenchVideo_32frame"]
    assert kit["omnispatial"] == ["OmniSpatialBench_manual_cot"]


def test_easi_s_keys_and_ours_are_one_and_the_order_is_easi_s():
    given = ["blink", " vsi_bench", "omnispatial_(manual_cot)", "vsi-bench", "site_video"]
    assert [job.name for job in jobs(given, "lmms-eval")] == ["vsi-bench", "site/video", "blink", "omnispatial"]
    assert [job.parts for job in jobs(["site_video"], "vlmevalkit")] == [(("video", "SiteBenchVideo_32frame"),)]
    assert [job.name for job in jobs(["site_image", "site"], "lmms-eval")] == ["site"]


def test_what_is_none_of_them_is_refused_by_name():
    with pytest.raises(UsageError, match="'fgbmk'"):
        jobs(["fgbmk"], "lmms-eval")
    with pytest.raises(UsageError, match="unknown backend 'inspect'"):
        run_backend("inspect", HarnessSettings(model="x"), ["blink"])
    assert list(BACKENDS) == ["lmms-eval", "vlmevalkit"]
