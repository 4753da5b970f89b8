"""`snellen subset`, and runs of a subset: from stored runs of simulated models to the estimated score."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import snellen
from engine.stubs import ARITHMETIC
from snellen import evaluate, load_run
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.cli import main
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.engine.subset import ESTIMATE, Subset, estimate, parse_adaptive, read_subset, with_subset
from snellen.errors import BadRequestError, DataError, FingerprintError, RunError, UsageError
from snellen.models.base import Model
from snellen.runs.subset import make_subset, write_subset
from snellen.scoring.rubric import load_rubric
from snellen.scoring.statistics.item_response import estimate_whole
from snellen.types import Prompt, Response, Sample, Score, Text, Usage

pytestmark = pytest.mark.usefixtures("printed_as_schema")

N, MODELS = 80, 12


def simulated(models: int = MODELS + 2, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ability = np.linspace(-1.5, 1.5, models)
    chance = 1.0 / (1.0 + np.exp(-(np.outer(ability, np.exp(rng.normal(0, 0.5, N))) + rng.normal(0, 1.2, N))))
    return (rng.random((models, N)) < chance).astype(np.float64)


ANSWERS = simulated()[np.random.default_rng(1).permutation(MODELS + 2)]


def write_replies(path: Path, right: np.ndarray, *, without: int = 0) -> str:
    rows = [{"id": f"q{i}", "reply": str(i % 7) if each else "?"} for i, each in enumerate(right)][without:]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"replay:{path}"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve runs over all 80 questions, in one folder."""
    folder = tmp_path_factory.mktemp("stored")
    for at in range(MODELS):
        model = write_replies(folder / f"m{at}.jsonl", ANSWERS[at])
        evaluate(ARITHMETIC, model, out=folder / "runs" / f"m{at}", benchmark_options={"n": str(N)})
    return folder / "runs"


@pytest.fixture(scope="module")
def made(stored: Path) -> Subset:
    return make_subset(ARITHMETIC, [stored], size=20)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", "engine.stubs:ARITHMETIC")
    monkeypatch.chdir(tmp_path)


def asked(subset: Subset, right: np.ndarray, out: str = "new", **settings: Any) -> snellen.Run:
    model = write_replies(Path(f"{out}.jsonl"), right, without=settings.pop("without", 0))
    return evaluate("arithmetic", model, out=out, subset=subset, benchmark_options={"n": str(N)}, **settings)


def test_the_command_writes_the_same_bytes_twice_and_prints_the_error_beside_random_subsets(
    stored: Path, made: Subset, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one.json", "two.json"):
        assert main(["subset", "arithmetic", "--from", str(stored), "--size", "20", "--out", name]) == 0
    printed = capsys.readouterr()
    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()
    assert read_subset("one.json") == made and len(made.items) == 20 and made.total == N
    assert f"{100 * made.error.mean_absolute:.2f} points" in printed.out and "random items" in printed.out
    assert f"{made.error.covered} of 12 models" in printed.out and "standard error of 6 points" in printed.err
    assert main(["subset", "arithmetic", "--from", str(stored), "--size", "20", "--out", "three.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"] == list(made.models)


def test_nine_models_are_refused_with_their_number_however_many_runs(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [word for at in range(9) for word in ("--from", str(stored / f"m{at}"))]
    assert main(["subset", "arithmetic", *named, *named[:2], "--size", "20", "--out", "s.json"]) == 2
    assert "9 models; at least 10" in capsys.readouterr().err and not Path("s.json").exists()


def test_ten_copies_of_one_model_under_other_names_are_one_model(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for at in range(10):
        model = write_replies(Path(f"copy{at}.jsonl"), ANSWERS[0])
        evaluate(ARITHMETIC, model, out=f"copies/m{at}", benchmark_options={"n": str(N)})
    assert main(["subset", "arithmetic", "--from", "copies", "--size", "20", "--out", "s.json"]) == 2
    refused = " ".join(capsys.readouterr().err.split())
    assert "of 1 models, where those whose scores hardly differ count as one; at least 10" in refused
    added = make_subset(ARITHMETIC, [stored, "copies"], size=20)
    assert len(added.models) == MODELS and added.error == make_subset(ARITHMETIC, [stored], size=20).error


def test_a_model_that_differs_from_another_on_a_few_questions_counts_as_one_with_it_and_that_is_said(
    stored: Path, made: Subset, capsys: pytest.CaptureFixture[str]
) -> None:
    near = ANSWERS[4].copy()
    near[[3, 50]] = 1.0 - near[[3, 50]]
    evaluate(ARITHMETIC, write_replies(Path("near.jsonl"), near), out="near", benchmark_options={"n": str(N)})
    words = ("subset", "arithmetic", "--from", str(stored), "--from", "near", "--size", "20", "--out", "s.json")
    assert main(list(words)) == 0
    printed = capsys.readouterr()
    (copy,) = read_subset("s.json").copies.items()
    assert {Path(name.partition(":")[2]).name for name in copy} == {"near.jsonl", "m4.jsonl"}
    assert "counts as one model with" in printed.err and len(read_subset("s.json").models) == MODELS


def test_a_file_of_earlier_versions_has_its_digest(made: Subset) -> None:
    content = msgspec.to_builtins(made)
    del content["copies"], content["outside"]
    expected = blake2b(msgspec.json.encode(content, order="deterministic"), digest_size=8).hexdigest()
    assert msgspec.convert(content, Subset).digest == expected != made.digest


def test_adapters_over_one_base_are_models_of_their_own(stored: Path) -> None:
    for folder in sorted(stored.iterdir()):
        shutil.copytree(folder, Path("adapted", folder.name))
        path = Path("adapted", folder.name, "run_meta.json")
        content = json.loads(path.read_text())
        content["spec"]["model"] = "local:base"
        content["spec"]["options"]["adapter"] = f"adapters/{folder.name}"
        path.write_text(json.dumps(content))
    assert len(make_subset(ARITHMETIC, ["adapted"], size=20).models) == MODELS


def test_a_run_of_a_subset_asks_its_items_alone_and_estimates_the_score_on_all(
    made: Subset, capsys: pytest.CaptureFixture[str]
) -> None:
    run = asked(made, ANSWERS[MODELS])
    assert {record["sample_id"] for record in run.records().to_pylist()} == {item.id for item in made.items}
    assert run.meta.totals.done == 20 and run.state == "complete"
    names = [metric.name for metric in run.figures()["strict"]]
    assert names[:2] == [ESTIMATE, "subset/accuracy"] and "accuracy" not in names
    metric = run.metric(ESTIMATE)
    places = [int(item.id[1:]) for item in made.items]
    by_hand = estimate_whole(
        *(np.array([getattr(item, name) for item in made.items]) for name in "ad"),
        np.array(made.rest),
        N,
        ANSWERS[MODELS, places],
        np.array(made.outside),
    )
    assert by_hand is not None and metric.value == pytest.approx(by_hand.value) and metric.n == 20
    assert metric.ci95 is not None and metric.ci95[0] <= ANSWERS[MODELS].mean() <= metric.ci95[1]
    assert metric.ci95[1] - metric.ci95[0] == pytest.approx(2 * made.factor * by_hand.error)
    for words in (["score", "new"], ["report", "new", "--out", "page.html"]):
        assert main(words) == 0
    assert ESTIMATE in capsys.readouterr().out and ESTIMATE in Path("page.html").read_text()
    assert any("only 20 chosen ones of 80 samples" in line for line in load_run("new").notes())


def test_the_file_may_go_and_the_run_goes_on_and_is_scored(made: Subset) -> None:
    write_subset(made, Path("s.json"))
    model = write_replies(Path("r.jsonl"), ANSWERS[MODELS])
    command = ["run", "arithmetic", "-m", model, "--subset-file", "s.json", "-o", f"n={N}", "--out", "r"]
    assert main([*command, "--limit", "12"]) == 0
    assert load_run("r").metric(ESTIMATE).coverage == 0.6
    assert main(command) == 0
    Path("s.json").unlink()
    assert main(["rerun", "r"]) == 0
    run = load_run("r")
    assert run.meta.totals.done == 20 and run.metric(ESTIMATE).coverage == 1.0


def test_a_run_with_and_one_without_a_subset_are_never_mixed_and_other_fingerprints_are_as_before(
    made: Subset, stored: Path
) -> None:
    asked(made, ANSWERS[MODELS])
    with pytest.raises(FingerprintError, match="subset"):
        evaluate("arithmetic", "replay:new.jsonl", out="new", benchmark_options={"n": str(N)})
    assert "subset" not in load_run(stored / "m0").meta.identity
    assert load_run("new").meta.identity["subset"] == made.digest


def test_other_data_another_benchmark_and_unknown_items_are_refused(made: Subset) -> None:
    model = write_replies(Path("m.jsonl"), ANSWERS[MODELS])
    with pytest.raises(DataError, match=r"data .*\n.*options"):
        evaluate("arithmetic", model, out="a", subset=made, benchmark_options={"n": "79"})
    with pytest.raises(UsageError, match="of arithmetic, and chart"):
        evaluate("chart", "embedded", out="b", subset=made)
    strange = (*made.items[1:], msgspec.structs.replace(made.items[0], id="q999"))
    other = msgspec.structs.replace(made, items=strange)
    with pytest.raises(DataError, match=r"1 of 20 items .* q999"):
        evaluate("arithmetic", model, out="c", subset=other, benchmark_options={"n": str(N)})
    assert main(["run", "chart", "-m", "embedded", "--subset-file", "gone.json", "--dry-run"]) == 3
    growing = replace(
        ARITHMETIC, grow=lambda data, answers: [], sample=lambda data, name: next(ARITHMETIC.samples(data))
    )
    with pytest.raises(UsageError, match="chooses each question"):
        with_subset(growing, RunSpec(benchmark="arithmetic", model="m", subset=made))


def test_models_that_are_always_right_or_wrong_get_an_interval(made: Subset) -> None:
    best, worst = (asked(made, np.full(N, end), name).metric(ESTIMATE) for end, name in ((1.0, "best"), (0.0, "worst")))
    assert best.value is not None and worst.value is not None and worst.value < 0.25 < 0.75 < best.value <= 1.0
    assert best.ci95 is not None and worst.ci95 is not None and best.ci95[1] <= 1.0 and worst.ci95[0] >= 0.0
    assert best.ci95[0] < best.value and worst.value < worst.ci95[1]


def test_an_unread_reply_is_wrong_and_a_failed_request_is_left_out(made: Subset) -> None:
    whole = asked(made, ANSWERS[MODELS], "whole").metric(ESTIMATE)
    some = asked(made, ANSWERS[MODELS], "some", without=40)
    failed = some.meta.totals.error
    assert failed == sum(int(item.id[1:]) < 40 for item in made.items) and 0 < failed < 20
    metric = some.metric(ESTIMATE)
    assert metric.n == 20 - failed and metric.coverage == pytest.approx(1 - failed / 20)
    assert metric.ci95 is not None and whole.ci95 is not None
    assert metric.ci95[1] - metric.ci95[0] > whole.ci95[1] - whole.ci95[0], "fewer answers say less"

    def unread(sample: Sample, reply: str) -> Score:
        return Score(1.0, reply, "correct") if reply != "?" else Score(None, None, "invalid", "no number")

    by_value = replace(ARITHMETIC, score={"strict": unread})
    run = evaluate(by_value, "replay:whole.jsonl", out="unread", subset=made, benchmark_options={"n": str(N)})
    assert run.metric(ESTIMATE).value == pytest.approx(whole.value)


def test_partial_credit_is_fitted_and_scores_beyond_one_are_refused(stored: Path) -> None:
    half = replace(ARITHMETIC, score={"strict": lambda sample, reply: _partial(0.5, reply)})
    subset = make_subset(half, [stored], size=20)
    assert 0.0 < max(subset.rest) < 0.8, "no item gives more than half"
    twice = replace(ARITHMETIC, score={"strict": lambda sample, reply: _partial(2.0, reply)})
    with pytest.raises(DataError, match="outside of 0 to 1"):
        make_subset(twice, [stored], size=20)


def _partial(most: float, reply: str) -> Score:
    return Score(0.0, reply, "wrong") if reply == "?" else Score(most, reply, "partial")


def test_runs_of_a_part_of_other_data_or_of_a_subset_are_refused(stored: Path, made: Subset) -> None:
    model = write_replies(Path("m.jsonl"), ANSWERS[MODELS])
    evaluate(ARITHMETIC, model, out="part", benchmark_options={"n": str(N)}, limit=70)
    with pytest.raises(UsageError, match="70 of 80 items; 95 %"):
        make_subset(ARITHMETIC, [stored, "part"], size=20)
    evaluate(ARITHMETIC, model, out="other", benchmark_options={"n": "79"})
    with pytest.raises(DataError, match="other data"):
        make_subset(ARITHMETIC, [stored, "other"], size=20)
    asked(made, ANSWERS[MODELS])
    with pytest.raises(UsageError, match="a subset alone"):
        make_subset(ARITHMETIC, [stored, "new"], size=20)
    for size in (1, N):
        with pytest.raises(UsageError, match="from 2 to 79"):
            make_subset(ARITHMETIC, [stored], size=size)
    with pytest.raises(RunError):
        make_subset(ARITHMETIC, ["nowhere"], size=20)


def test_several_runs_of_one_model_are_averaged(stored: Path, made: Subset) -> None:
    model = f"replay:{stored.parent / 'm0.jsonl'}"
    evaluate(ARITHMETIC, model, out="again", benchmark_options={"n": str(N)})
    assert make_subset(ARITHMETIC, [stored, "again"], size=20) == made, "the same answers twice change nothing"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"items": []}, "no items"),
        ({"rest": [0.5]}, "curve of 1 points"),
        ({"rest": [2.0] * 101}, "curve"),
        ({"factor": -1.0}, "standard errors"),
        ({"factor": "wide"}, "Expected `float`"),
        ({"total": 20}, "20 items of 20"),
        ({"format": 2}, "format 2"),
        ({"surprise": 1}, "unknown field"),
        ({"items": [{"id": "q1", "a": -1.0, "d": 0.0}]}, "discrimination"),
        ({"items": [{"id": "q1", "a": 1.0, "d": 0.0}] * 2}, "one id twice"),
    ],
)
def test_damaged_files_are_refused_with_what_is_wrong(made: Subset, change: dict[str, Any], said: str) -> None:
    Path("s.json").write_text(json.dumps({**msgspec.to_builtins(made), **change}))
    with pytest.raises(DataError, match=said):
        read_subset("s.json")


@given(data=st.data())
def test_a_file_cut_or_changed_anywhere_is_read_or_refused(data: st.DataObject, tmp_path_factory: Any) -> None:
    content = bytearray(json.dumps(msgspec.to_builtins(SMALL)).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "cut.json"
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    try:
        assert read_subset(path).fault() == ""
    except DataError as error:
        assert str(path) in error.message


SMALL = msgspec.convert(
    {
        **{"benchmark": "b", "version": "1", "data": "", "profile": "strict", "total": 3, "factor": 2.3},
        **{"items": [{"id": "q1", "a": 1.0, "d": 0.0}], "rest": [0.5] * 101, "models": ["m"]},
        "error": {"mean_absolute": 0.1, "random": 0.1, "covered": 1},
    },
    Subset,
)


def test_a_run_folder_with_a_damaged_subset_is_refused(made: Subset) -> None:
    asked(made, ANSWERS[MODELS])
    path = Path("new/run_meta.json")
    meta = json.loads(path.read_text())
    meta["spec"]["subset"]["rest"] = [7.0] * 101
    path.write_text(json.dumps(meta))
    with pytest.raises(RunError, match=r"spec.subset is out of range"):
        RunFolder("new").meta()


def test_a_plan_names_a_subset_beside_it(made: Subset, capsys: pytest.CaptureFixture[str]) -> None:
    write_subset(made, Path("place/s.json"))
    model = write_replies(Path("m.jsonl"), ANSWERS[MODELS])
    Path("place/plan.toml").write_text(
        f'models = ["{model}"]\n[[benchmarks]]\nname = "arithmetic"\nsubset = "s.json"\noptions = {{n = "{N}"}}\n'
    )
    assert main(["run", "place/plan.toml", "--out", "planned"]) == 0
    (folder,) = (path.parent for path in Path("planned").rglob("run_meta.json"))
    assert load_run(folder).metric(ESTIMATE).n == 20
    assert RunSpec(benchmark="b", model="m").subset is None and ESTIMATE in capsys.readouterr().out


def test_the_estimate_of_no_answer_has_no_value(made: Subset) -> None:
    from snellen.scoring.scores import ScoreBuilder

    metric = estimate(made, ScoreBuilder().build(20))
    assert (metric.value, metric.n, metric.coverage) == (None, 0, 0.0)


class Solver(Model):
    """Answers ARITHMETIC as a row of ANSWERS says; counts what it is asked, and fails some questions once."""

    name = "solver"

    def __init__(self, right: np.ndarray, failing: tuple[int, ...] = ()) -> None:
        self.right, self.failing, self.order = right, set(failing), list[int]()

    def identity(self) -> dict[str, Any]:
        return {"name": self.name}

    async def preflight(self) -> None: ...

    async def close(self) -> None: ...

    async def answer(self, prompt: Prompt) -> Response:
        (number,) = [int(part.text.split()[2]) for part in prompt.parts if isinstance(part, Text)]
        if number in self.failing:
            self.failing.discard(number)
            raise BadRequestError("no")
        self.order.append(number)
        return Response(str(number % 7) if self.right[number] else "?", usage=Usage(1, 1))


def test_an_adaptive_run_asks_as_many_items_by_the_answers_before_whatever_the_concurrency(made: Subset) -> None:
    settings: Any = {"subset": made, "adaptive": 10, "benchmark_options": {"n": str(N)}}
    sets = []
    for concurrency in (1, 8):
        model = Solver(ANSWERS[MODELS])
        run = evaluate("arithmetic", model, out=f"at{concurrency}", concurrency=concurrency, **settings)
        sets.append(set(model.order))
        assert len(model.order) == 10 and run.state == "complete"
        metric = run.metric(ESTIMATE)
        assert (metric.n, metric.coverage) == (10, 1.0) and metric.ci95 is not None
        assert metric.ci95[0] <= ANSWERS[MODELS].mean() <= metric.ci95[1]
    best, worst = Solver(np.ones(N)), Solver(np.zeros(N))
    for model, out in ((best, "best"), (worst, "worst")):
        evaluate("arithmetic", model, out=out, **settings)
    assert sets[0] == sets[1] <= {int(item.id[1:]) for item in made.items}
    difficulty = {int(item.id[1:]): -item.d / item.a for item in made.items}
    hard, easy = (np.mean([difficulty[number] for number in model.order]) for model in (best, worst))
    assert hard > easy, "a model that is right is asked harder items than one that is wrong"
    assert load_run("at1").figures()["strict"][0].name == ESTIMATE and main(["score", "at1"]) == 0


def test_an_adaptive_run_goes_on_where_it_stopped_and_a_failed_question_counts_as_asked(made: Subset) -> None:
    settings: Any = {"subset": made, "adaptive": 10, "benchmark_options": {"n": str(N)}}
    whole = Solver(ANSWERS[MODELS])
    evaluate("arithmetic", whole, out="whole", **settings)
    parted = Solver(ANSWERS[MODELS])
    assert evaluate("arithmetic", parted, out="parted", limit=6, **settings).state != "complete"
    assert evaluate("arithmetic", parted, out="parted", **settings).state == "complete"
    assert set(parted.order) == set(whole.order) and len(parted.order) == 10
    failing = Solver(ANSWERS[MODELS], (whole.order[0],))
    run = evaluate("arithmetic", failing, out="failing", max_attempts=1, **settings)
    assert run.meta.totals.recorded == 10 and run.metric(ESTIMATE).n == 9


def test_an_adaptive_run_stops_once_its_interval_is_as_narrow_as_asked_for_and_says_so(
    made: Subset, capsys: pytest.CaptureFixture[str]
) -> None:
    low, high = asked(made, ANSWERS[MODELS], out="all").metric(ESTIMATE).ci95 or (0.0, 0.0)
    width = 1.15 * (high - low) / 2
    options: Any = {"subset": made, "benchmark_options": {"n": str(N)}}
    sets = []
    for concurrency in (1, 8):
        model = Solver(ANSWERS[MODELS])
        run = evaluate(
            "arithmetic", model, out=f"at{concurrency}", concurrency=concurrency, adaptive=f"20:{width:.4f}", **options
        )
        sets.append(set(model.order))
        metric = run.metric(ESTIMATE)
        assert run.state == "complete" and 4 <= len(model.order) < 20 and len(model.order) % 4 == 0
        assert metric.coverage == 1.0 and metric.ci95 is not None and metric.ci95[1] - metric.ci95[0] <= 2 * width
    assert sets[0] == sets[1]
    whole = evaluate("arithmetic", Solver(ANSWERS[MODELS]), out="whole", adaptive=len(sets[0]) - 4, **options)
    low, high = whole.metric(ESTIMATE).ci95 or (0, 0)
    assert high - low > 2 * width, "four items fewer were not enough"
    capsys.readouterr()
    assert main(["score", "at1"]) == 0
    printed = capsys.readouterr()
    said = " ".join((printed.out + printed.err).split())
    assert (
        f"only {len(sets[0])} chosen ones of 80 samples were run (stopped before the 20 that --adaptive allows" in said
    )
    run = evaluate("arithmetic", Solver(ANSWERS[MODELS]), out="never", adaptive="12:0.001", **options)
    assert run.meta.totals.recorded == 12 and run.state == "complete" and run.metric(ESTIMATE).coverage == 1.0
    assert main(["score", "never"]) == 0
    printed = capsys.readouterr()
    assert "(stopped at the 12 that --adaptive allows" in " ".join((printed.out + printed.err).split())


@given(st.one_of(st.integers(), st.text(max_size=12), st.from_regex(r"[0-9]{1,3}(:[0-9.e-]{1,6})?", fullmatch=True)))
def test_a_rule_of_adaptive_is_read_or_refused(value: int | str) -> None:
    try:
        rule = parse_adaptive(value)
    except UsageError:
        return
    assert rule.most >= 2 and (rule.width is None or 0.0 < rule.width < 0.5)
    assert parse_adaptive(str(rule)).most == rule.most


def test_adaptive_needs_a_subset_with_as_many_items_and_scores_by_rules(made: Subset) -> None:
    def of(**fields: Any) -> RunSpec:
        return RunSpec(benchmark="arithmetic", model="m", **fields)

    for fields, said in (({"adaptive": 5}, "--subset-file"), ({"adaptive": 21, "subset": made}, "has 20 items")):
        with pytest.raises(UsageError, match=said):
            with_subset(ARITHMETIC, of(**fields))
    data = Data(options={"n": str(N)})
    for judged in (True, False):  # a table has a rubric whether or not it has rows for a judge
        rubric: Any = load_rubric("match") if judged else None
        grown = with_subset(replace(ARITHMETIC, rubric=lambda sample, it=rubric: it), of(adaptive=5, subset=made))
        assert grown.grow is not None
        with pytest.raises(UsageError, match="judge") if judged else nullcontext():
            assert len(grown.grow(data, {})) == 4
    adaptive = with_subset(ARITHMETIC, of(adaptive=5, subset=made))
    assert adaptive.study == {"subset": made.digest, "adaptive": 5}


def test_the_parts_of_a_divided_run_are_merged_to_one_with_the_same_estimate(made: Subset) -> None:
    whole = asked(made, ANSWERS[MODELS])
    for part in ("1/2", "2/2"):
        evaluate(
            "arithmetic", "replay:new.jsonl", out="parts", subset=made, shard=part, benchmark_options={"n": str(N)}
        )
    assert main(["merge", "merged", "parts/shard-1-of-2", "parts/shard-2-of-2"]) == 0
    merged = load_run("merged")
    assert merged.meta.totals.done == 20 and merged.metric(ESTIMATE) == whole.metric(ESTIMATE)


def test_a_subset_of_a_profile_that_is_not_there_is_refused(made: Subset) -> None:
    with pytest.raises(UsageError, match="fitted on the profile 'nope'"):
        asked(msgspec.structs.replace(made, profile="nope"), ANSWERS[MODELS])
