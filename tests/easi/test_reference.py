"""Results beside what EASI published: which rows they are held against, what is said of parts, and what faults would change."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from easi_stubs import Speaker
from msgspec import structs

from benchmarks.spatial import more_drawn
from benchmarks.spatial import official_drawn as drawn
from snellen import evaluate
from snellen.benchmarks import registry
from snellen.benchmarks.spatial.reference.verification import checks, verification_rows
from snellen.benchmarks.spatial.tasks import EIGHT, TASKS
from snellen.cli import main
from snellen.easi.reference import compare_with_easi
from snellen.easi.result import locate_results
from snellen.errors import UsageError
from snellen.reports import runs as reporting
from snellen.runs.run import load_run

pytestmark = pytest.mark.usefixtures("printed_as_schema")

NAMED = "local:Qwen/Qwen3-VL-8B-Instruct"


def always(name: str = NAMED) -> Speaker:
    return Speaker(lambda question: "A", name=name)


def ran(root: Path, *names: str, model: str = NAMED, **settings: object) -> list[Path]:
    """Runs of small drawings of the benchmarks."""
    folders = []
    for name in names:
        data = drawn.draw(name, root / "data")
        folders.append(root / "runs" / name.replace("/", "-"))
        evaluate(name, always(model), data=data, out=folders[-1], **settings)
    return folders


def test_a_run_is_held_against_the_row_of_its_data_and_model(tmp_path):
    (one,) = compare_with_easi(ran(tmp_path, "blink"))
    (result,) = one.results
    (row,) = result.rows
    assert (one.model, row.data, row.model, row.target, row.target_from) == (
        NAMED,
        "BLINK",
        "Qwen3-VL-8B-Instruct",
        69.1,
        "paper",
    )
    assert row.same_model
    assert (row.theirs["vlmevalkit"].delta, row.theirs["vlmevalkit"].status) == (-2.4, "strong")
    assert (row.theirs["lmms-eval"].delta, row.theirs["lmms-eval"].status) == (-4.2, "acceptable")
    ours, figure = row.ours["easi"], result.figures["easi"]
    assert ours.value == figure.value and figure.n == 14 and figure.ci95 is not None
    assert ours.delta == round(figure.value - 69.1, 6) and ours.status == "beyond"


def test_a_part_of_the_questions_is_never_taken_for_the_whole(tmp_path, monkeypatch):
    folders = ran(tmp_path, "blink")
    (small,) = compare_with_easi(folders)[0].results
    assert not small.whole and small.coverage < 0.01
    assert any("14 of the 1,901 questions" in line for line in small.remarks)
    monkeypatch.setitem(TASKS, "blink", structs.replace(TASKS["blink"], rows=(14,)))
    (whole,) = compare_with_easi(folders)[0].results
    assert whole.whole and whole.coverage == 1.0 and all("gold answers" in line for line in whole.remarks)
    assert compare_with_easi(folders)[0].lines[0].comparable
    (limited,) = compare_with_easi(ran(tmp_path / "few", "blink", limit=5))[0].results
    assert not limited.whole and any("--limit" in line for line in limited.remarks)


def test_another_models_row_has_a_difference_and_no_status(tmp_path):
    (one,) = compare_with_easi(ran(tmp_path, "blink", model="api:my-own-model"))
    rows = one.results[0].rows
    assert len(rows) == 4 and not any(row.same_model for row in rows)
    assert all(held.delta is not None and held.status is None for row in rows for held in row.ours.values())
    assert all(held.status for row in rows for held in row.theirs.values())


def test_a_user_may_say_which_model_answered(tmp_path):
    folders = ran(tmp_path, "blink", model="api:my-own-name")
    (one,) = compare_with_easi(folders, model="InternVL3_5-2B")
    (row,) = one.results[0].rows
    assert (one.model, row.model, row.same_model) == ("api:my-own-name", "InternVL3_5-2B", True)
    with pytest.raises(UsageError, match="no model 'InternVL-2B'") as said:
        compare_with_easi(folders, model="InternVL-2B")
    assert "InternVL3_5-2B" in said.value.hint


def test_3dsrbench_is_held_against_the_circular_figure_where_the_row_is_about_that(tmp_path):
    data = drawn.draw("3dsrbench", tmp_path / "data")
    (path,) = (data / "3dsr_circular").glob("*.parquet")
    table = pq.read_table(path)
    rotated = pc.replace_substring(
        table["qid"], pattern="-flip", replacement="-1"
    )  # the same question, answers changed about
    pq.write_table(table.set_column(table.schema.get_field_index("qid"), "qid", rotated), path)
    evaluate("3dsrbench", always("local:Qwen/Qwen2.5-VL-7B-Instruct"), data=data, out=tmp_path / "run")
    (result,) = compare_with_easi([tmp_path / "run"])[0].results
    (row,) = result.rows
    assert row.metric == "circ_eval_overall"
    assert (row.ours["easi"].value, result.figures["easi"].value) == (0.0, 50.0)


def test_frames_decide_which_rows_are_of_the_same_data(tmp_path):
    name = "local:Qwen/Qwen2.5-VL-3B-Instruct"
    (plain,) = compare_with_easi(ran(tmp_path, "vsi-bench", model=name))
    assert {row.data for row in plain.results[0].rows} == {"VSI-Bench_32frame"}
    assert not any(row.same_model for row in plain.results[0].rows)
    more = ran(tmp_path / "more", "vsi-bench", model=name, benchmark_options={"sample-frames": "128"})
    (result,) = compare_with_easi(more)[0].results
    assert [(row.data, row.same_model) for row in result.rows] == [("VSI-Bench_128frame", True)]
    assert "sample-frames = 128" in result.remarks


def test_means_are_over_the_benchmarks_that_were_run_and_say_which_are_missing(tmp_path):
    (one,) = compare_with_easi(ran(tmp_path, "blink", "embspatial", "omnispatial"))
    assert set(one.missing) == set(EIGHT) - {"blink", "embspatial"}
    ours, *theirs = one.lines
    assert ours.measured and ours.coverage == "2 of 8" and not ours.comparable  # a few of each one's questions
    assert {name for name, value in ours.values.items() if value is not None} == {"blink", "embspatial"}
    assert ours.average == pytest.approx(
        sum(value for value in ours.values.values() if value is not None) / 2, abs=1e-3
    )
    by_name = {line.name: line for line in theirs}
    assert len(by_name) == 19
    assert by_name["GPT-5-2025-08-07"].average == pytest.approx((68.0 + 81.6) / 2)
    assert by_name["GPT-5-2025-08-07"].coverage == "2 of 2" and by_name["GPT-5-2025-08-07"].comparable
    partial = by_name["SenseNova-SI-1.1-InternVL3-8B"]
    assert (partial.average, partial.coverage, partial.comparable) == (None, "0 of 2", False)


def test_the_four_others_stand_beside_no_published_row(tmp_path):
    (one,) = compare_with_easi(ran(tmp_path, "omnispatial", model="api:InternVL3-8B"))
    assert one.lines == () and one.missing == EIGHT
    assert one.results[0].rows[0].data == "OmniSpatialBench_manual_cot"


def test_half_of_site_is_no_site_but_with_the_fault_that_takes_it_for_one(tmp_path):
    folders = ran(tmp_path, "site/image")
    (one,) = compare_with_easi(folders)
    (result,) = one.results
    assert (result.id, result.rows, one.lines, one.printed) == ("site/image", (), (), ())
    (faulty,) = compare_with_easi(folders, fault_names=["site-half"])
    scores = {(line.harness, line.id): (line.ours, line.easi) for line in faulty.printed if line.key == "score"}
    own = result.figures["easi"].value
    assert scores["vlmevalkit", "site"] == (None, own) and scores["vlmevalkit", "site/image"] == (own, None)


def test_two_halves_of_site_are_one_result(tmp_path):
    (one,) = compare_with_easi(ran(tmp_path, "site/image", "site/video"))
    (result,) = one.results
    assert result.benchmark == "site" and result.figures["easi"].n == 12
    assert one.lines[0].values["site"] == result.figures["easi"].value


def test_faults_change_what_is_said_of_easi_and_nothing_of_ours(tmp_path):
    folders = ran(tmp_path, "mmsi-video-bench", "spar-bench")
    names = ["mmsi-video-times-100", "spar-subscores-nan"]
    (plain,), (faulty,) = compare_with_easi(folders), compare_with_easi(folders, fault_names=names)
    assert plain.results == faulty.results and plain.printed == ()
    printed = {(line.harness, line.id, line.key): (line.ours, line.easi) for line in faulty.printed}
    ours, easi = printed["lmms-eval", "mmsi_video_bench", "score"]
    assert easi == pytest.approx(100 * ours) and easi > 100
    assert printed["vlmevalkit", "spar_bench", "position_matching_accuracy"][1] == "NaN"
    with pytest.raises(UsageError, match="single answers") as said:
        compare_with_easi(folders, fault_names=["site-random-letter"])
    assert "--profile lmms-eval" in said.value.hint


def test_two_models_are_apart_and_two_results_of_one_benchmark_are_refused(tmp_path):
    first, second = ran(tmp_path, "blink"), ran(tmp_path / "2", "blink", model="api:other")
    assert [one.model for one in compare_with_easi([*first, *second])] == [NAMED, "api:other"]
    with pytest.raises(UsageError, match="2 results of blink"):
        compare_with_easi([*first, *ran(tmp_path / "3", "blink")])


def test_the_command_prints_tables_or_one_json_object(tmp_path, capsys):
    folders = [str(one) for one in ran(tmp_path, "blink", "embspatial")]
    assert main(["report", *folders, "--reference", "easi"]) == 0
    shown = capsys.readouterr()
    assert "69.10" in shown.out and "(beyond)" in shown.out and "Gemini-2.5-pro" in shown.out
    assert (
        "means over 2 of 8 benchmarks" in shown.out
        and "(in part)" in shown.out
        and "14 of the 1,901 questions" in shown.err
    )
    assert main(["report", *folders, "--reference", "easi", "--json", "--faults", "3dsr-subscores-null"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rule"] == {"strong": 2.5, "acceptable": 5.0}
    (model,) = found["models"]
    assert model["results"][0]["rows"][0]["ours"]["easi"]["status"] == "beyond"
    assert len(model["lines"]) == 20 and model["printed"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--reference", "openvlm"], "is unknown"),
        (["--reference", "easi", "--show-gold"], "excludes --out"),
        (["--faults", "vsi-null"], "require --reference"),
        (["--reference", "easi", "--faults", "no-such"], "no fault 'no-such'"),
    ],
)
def test_options_that_say_nothing_together_are_refused(tmp_path, capsys, words, said):
    assert main(["report", str(tmp_path), *words]) != 0
    assert said in capsys.readouterr().err


def test_runs_of_one_model_by_several_benchmarks_stand_in_one_line_above_the_whole_table(tmp_path):
    runs = [load_run(path) for path in ran(tmp_path, "blink", "embspatial", "omnispatial")]
    page = reporting.report(runs, tmp_path / "report.html").read_text("utf-8")
    assert page.count("Published by README of SenseNova-SI") == 1
    assert page.count('title="vsi-bench/overall"') == 1 and "<bdi>blink, embspatial</bdi>" in page
    assert "<bdi>blink: only 14 of the 1,901 samples of the full set</bdi>" in page
    alone = reporting.report(runs[:1], tmp_path / "alone.html").read_text("utf-8")
    assert "<bdi>only 14 of the 1,901 samples of the full set</bdi>" in alone
    assert alone.count("Published by README of SenseNova-SI") == 1 and 'title="vsi-bench/overall"' not in alone


def test_runs_of_two_models_stay_beside_their_own_columns_and_a_second_run_has_a_second_line(tmp_path):
    runs = [load_run(path) for path in ran(tmp_path, "blink", "embspatial")]
    others = [load_run(path) for path in ran(tmp_path / "2", "blink", model="api:other")]
    again = [load_run(path) for path in ran(tmp_path / "3", "blink")]
    page = reporting.report([*runs, *others, *again], tmp_path / "report.html").read_text("utf-8")
    whole, own = page.split('title="vsi-bench/overall"')[1].split("Published by")[:2]
    assert whole.count(f"<bdi>{NAMED}</bdi>") == 2 and "api:other" not in whole
    assert "<bdi>api:other</bdi>" in own


def test_answers_of_another_harness_are_held_against_the_row_that_the_user_names(tmp_path):
    lines = ["index\tquestion\tA\tB\tanswer\tcategory\tprediction"]
    lines += [f"{at}\tWhich?\tleft\tright\t{'AB'[at % 2]}\tCounting\tA" for at in range(6)]
    (tmp_path / "mine_BLINK.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    (one,) = compare_with_easi([tmp_path], model="Qwen3-VL-2B-Instruct")
    (result,) = one.results
    assert result.figures["easi"].value == 50.0 and not result.whole
    assert any("1,901" in line for line in result.remarks) and "asked by VLMEvalKit" in result.remarks
    (row,) = result.rows
    assert (row.target, row.ours["easi"].delta, row.ours["easi"].status) == (53.8, -3.8, "acceptable")


def test_a_run_of_a_set_without_a_place_in_the_payload_is_held_against_its_own_row(tmp_path, capsys):
    data = more_drawn.draw("erqa", tmp_path / "data", kit=False)
    evaluate("erqa", always(), data=data.path, out=tmp_path / "runs" / "erqa")
    ran(tmp_path, "blink")
    (one,) = compare_with_easi([tmp_path / "runs"])
    assert [result.benchmark for result in one.results] == ["blink", "erqa"]
    (row,) = one.results[1].rows
    assert (row.data, row.model, row.target) == ("ERQA", "Qwen3-VL-8B-Instruct", 45.8)
    assert row.ours["easi"].value is not None and set(one.entry.scores) == {"blink"}
    assert main(["report", str(tmp_path / "runs"), "--reference", "easi"]) == 0
    assert "ERQA" in capsys.readouterr().out
    with pytest.raises(UsageError, match="not an EASI benchmark"):
        locate_results([tmp_path / "runs" / "erqa"])


def test_runs_of_one_further_set_in_several_forms_stand_beside_each_other(tmp_path, capsys):
    data = more_drawn.draw("spatialviz", tmp_path / "data", kit=False).path
    for form in ("vlmevalkit", "cot"):
        options = {"prompting": form}
        evaluate("spatialviz", always(), data=data, out=tmp_path / "runs" / form, benchmark_options=options)
    (one,) = compare_with_easi([tmp_path / "runs"])
    assert {result.run: {row.data for row in result.rows} for result in one.results} == {
        "cot": {"SpatialVizBench_CoT"},
        "vlmevalkit": {"SpatialVizBench"},
    }
    assert main(["report", str(tmp_path / "runs"), "--reference", "easi"]) == 0
    shown = capsys.readouterr().out
    assert "spatialviz (cot)" in shown and "SpatialVizBench_CoT" in shown and "31.86" in shown


def test_every_row_of_the_verification_table_is_met_by_a_run_of_some_options():
    for row in checks():
        assert row in verification_rows(row.benchmark, row.frames, row.options)
        assert set(row.options) <= set(registry.find(row.benchmark).options), row.data
