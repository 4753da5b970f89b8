"""A run, its judge and what may be published of both: only `correct` counts, and gold is written nowhere."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fika import made
from benchmarks.fika.made import FikaJudge, Scripted, answer
from servers.scripted import Say, ScriptedServer
from snellen import evaluate, load_run
from snellen.cli import main
from snellen.errors import BadRequestError, JudgeError, UsageError
from snellen.models.base import Model
from snellen.runs.judge.ask import judge
from snellen.runs.redact import redact
from snellen.types import Prompt, Response, Text


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "JUDGE_BASE_URL", "JUDGE_MODEL", "DATA_ZIP", "LIMIT", "OUT_DIR", "MODEL_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JUDGE_API_KEY", "key-of-the-judge")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server() -> Iterator[FikaJudge]:
    with FikaJudge("key-of-the-judge") as running:
        yield running


def asked(server: FikaJudge, run: str = "run", **more: Any) -> Any:
    return judge(run, "api:stub-judge", base_url=server.url, **more)


def scripted(**said: range) -> Scripted:
    """The first so many questions get this answer, the next ones that: `right=range(0, 39)` and so on."""

    def say(number: int) -> str | None:
        for mark, numbers in said.items():
            if number in numbers:
                return None if mark == "failed" else "" if mark == "empty" else answer(mark)
        raise AssertionError(number)

    return Scripted(say)


def run_whole(model: Scripted) -> None:
    from snellen.benchmarks.base import Data
    from snellen.engine.run_folder import RunFolder, RunSpec
    from snellen.runs.perform import perform

    spec = RunSpec(benchmark="fika", model="scripted", data=Data(made.whole(Path("fika.zip"))), max_attempts=1)
    perform(spec, RunFolder("run"), model=model)


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def test_39_correct_of_311_prints_12_54_percent_and_errors_stay_in_the_denominator(server, capsys):
    model = scripted(
        right=range(39), failed=range(39, 49), empty=range(49, 54), abstained=range(54, 60), partly=range(60, 80),
        wrong=range(80, 311),
    )  # fmt: skip
    run_whole(model)
    before = load_run("run")
    assert before.metric("strict_accuracy").value is None and before.metric("invalid").value == 5 / 311
    judged = asked(server)
    assert len(server.asked) == 311 - 15
    assert main(["score", "run_judged"]) == 0
    said = capsys.readouterr().err
    assert "strict accuracy 12.54 % [9.3 – 16.7]: 39 of 311 correct" in said
    assert main(["score", "run"]) == 0
    assert "strict accuracy 12.54 % [9.3 – 16.7]: 39 of 311 correct" in capsys.readouterr().err
    for one in (judged, load_run("run")):
        assert one.metric("strict_accuracy").value == 39 / 311 and one.metric("strict_accuracy").coverage == 1.0
        assert one.metric("strict_accuracy_by_target").value == 39 / 311
        counts = {
            name: round(one.metric(name).value * 311)
            for name in ("correct", "incorrect", "partially_correct", "abstained", "invalid", "error", "unjudged")
        }
        assert counts == {
            "correct": 39, "incorrect": 231, "partially_correct": 20, "abstained": 6, "invalid": 5, "error": 10, "unjudged": 0,
        }  # fmt: skip
    saved = json.loads(Path("run_judged/summary.json").read_text())
    assert saved["strict_accuracy"] == 39 / 311 and saved["n_total"] == 311 and saved["n_correct"] == 39
    assert [round(end, 3) for end in saved["ci95"]] == [0.093, 0.167]
    assert saved["verdict_counts"]["error"] == 10 and set(saved["by_domain"]) == set(made.DOMAINS)
    verdicts = lines("run_judged/verdicts.jsonl")
    assert len(verdicts) == 311
    assert sum(row["judge_verdict"] == "correct" for row in verdicts) / len(verdicts) == saved["strict_accuracy"]
    assert Counter(row["judge_verdict"] for row in verdicts)["error"] == 10


def test_78_correct_of_311_prints_25_08_percent_and_a_judge_that_fails_lowers_the_coverage(server, capsys):
    run_whole(scripted(right=range(78), wrong=range(78, 311)))
    capsys.readouterr()
    assert main(["judge", "run", "-m", "stub-judge", "--base-url", server.url, "-q"]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1].removeprefix("SUMMARY_JSON "))
    assert summary["strict_accuracy"] == 78 / 311 and summary["labels"] == {"correct": 78, "incorrect": 233}
    assert main(["score", "run"]) == 0
    assert "strict accuracy 25.08 % [20.6 – 30.2]" in capsys.readouterr().err


def test_a_verdict_that_cannot_be_read_is_no_verdict_and_lowers_the_coverage(server, tmp_path):
    data = made.whole(tmp_path / "fika.zip", 4)
    evaluate("fika", scripted(right=range(1), prose=range(1, 2), wrong=range(2, 4)), out="run", data=data)
    judged = asked(server)
    metric = judged.metric("strict_accuracy")
    assert (metric.value, metric.n, metric.coverage) == (1 / 3, 3, 0.75)
    assert judged.metric("unjudged").value == 0.25
    (lost,) = [row for row in lines("run_judged/verdicts.jsonl") if row["judge_verdict"] == "judge_error"]
    assert lost["sample_id"] == "s001"


def test_clusters_of_a_target_widen_the_interval(server, tmp_path):
    rows = [made.row(i, fine_grained_label=f"Zyxlabel {i // 5}") for i in range(40)]
    data = made.zipped(tmp_path / "fika.zip", made.files(rows))
    evaluate("fika", scripted(right=range(20), wrong=range(20, 40)), out="run", data=data)
    judged = asked(server)
    alone, together = judged.metric("strict_accuracy").ci95, judged.metric("strict_accuracy_by_target").ci95
    assert together[0] < alone[0] < alone[1] < together[1]


def test_the_judge_sees_question_gold_aliases_and_the_answer_alone(server, tmp_path):
    data = made.whole(tmp_path / "fika.zip", 2)
    said = Scripted(
        lambda i: "Thinking about [[wrong]] petals.\n" + answer("right", reasoning="SECRET-REASON", evidence=[{"url": "http://u.example"}])
    )  # fmt: skip
    evaluate("fika", said, out="run", data=data)
    asked(server, concurrency=1)
    for number, text in enumerate(server.asked):
        question = f"What exactly is thing {number}?" if number % 3 else f"这是什么? 第 {number} 号"
        assert f"Question:\n{question}\n" in text
        assert f"Reference answer: Zyxgold {number} Mark II (also accepted: Qwvalias-{number}; 兹金{number}号)" in text
        assert re.search(r"<<<ANSWER \w{16}\nA thing \[\[right\]\]\nANSWER \w{16}>>>", text)
        for word in (
            "SECRET-REASON",
            "u.example",
            "petals",
            "scripted",
            "End with ONE JSON",
            "zyxevidence",
            "Zyxlabel",
        ):
            assert word not in text


def test_the_rule_is_off_unless_asked_for_and_marks_what_it_decided(server, tmp_path, capsys):
    data = made.whole(tmp_path / "fika.zip", 3)
    exact = {0: "zyxGOLD 0, mark-II", 1: "QWVALIAS 1", 2: "Zyxgold 2 [[wrong]]"}
    evaluate("fika", Scripted(lambda i: json.dumps({"answer": f"{exact[i]}"})), out="run", data=data)
    args = ["judge", "run", "-m", "stub-judge", "--base-url", server.url, "-q", "--rule"]
    assert main(args) == 0
    assert len(server.asked) == 1
    rows = {row["sample_id"]: (row["judge_verdict"], row["judge_source"]) for row in lines("run_judged/verdicts.jsonl")}
    assert rows == {"s000": ("correct", "rule"), "s001": ("correct", "rule"), "s002": ("incorrect", "judge")}
    assert load_run("run").metric("by_rule").value == pytest.approx(2 / 3)
    with pytest.raises(AssertionError):  # without the rule the judge is asked, and finds no mark in the answer
        server.say([{"role": "user", "content": server.asked[0].replace("[[wrong]]", "")}])
    evaluate("fika", Scripted(lambda i: answer("right")), out="other", data=data)
    asked(server, "other")
    assert {row["judge_source"] for row in lines("other_judged/verdicts.jsonl")} == {"judge"}
    with pytest.raises(UsageError, match="no rule"):
        evaluate("chart/digits", Scripted(lambda i: "7"), out="digits", limit=1)
        judge("digits", "api:stub-judge", base_url=server.url, rule=True)


def planted(*folders: str) -> list[str]:
    """The files under these folders that hold a planted word, also within pictures."""
    written = [path for folder in folders for path in Path(folder).rglob("*") if path.is_file()]
    assert written
    return [
        str(path)
        for path in written
        if any(word in path.read_bytes().lower() for word in (*made.PLANTED, "兹金".encode()))
    ]


def test_gold_is_in_no_file_of_a_run_its_verdicts_report_scores_and_redacted_folder(server, tmp_path, monkeypatch):
    """Through the real path: a model and a judge behind loopback endpoints, a judge that quotes the gold, bad images."""
    rows = [made.row(i) for i in range(8)]
    rows[2]["image"] = "missing/Zyxgold2.png"
    rows[3]["sample_id"] = "qwvalias-3"
    content = made.files(rows)
    content["data/images/Zyxgold4_Zyxlabel.png"] = b"no picture"
    data = made.zipped(tmp_path / "fika.zip", content)
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-judge")

    class Answering(FikaJudge):
        def say(self, messages: list[dict[str, Any]]) -> str:
            self.asked.append(json.dumps(messages, ensure_ascii=False))
            return answer("quoting" if "thing 1" in self.asked[-1] else "right")

    with Answering("key-of-the-judge") as model:
        run = ["run", "fika", "--data", str(data), "-m", "api:stub-judge", "--base-url", model.url, "-q", "-c", "4"]
        assert main([*run, "--out", "out/run", "--max-long-side", "32", "--report"]) == 9
        assert len(model.asked) == 6
        assert not [word for word in made.PLANTED if word in "".join(model.asked).lower().encode()]
    assert main(["judge", "out/run", "-m", "stub-judge", "--base-url", server.url, "-q"]) == 0
    assert any("Zyxgold 1" in text for text in server.asked)
    assert main(["report", "out/run"]) == main(["report", "out/run_judged"]) == 0
    assert main(["report", "out/run", "out/run_judged", "--out", "out/both.html"]) == 0
    for name in ("run", "run_judged"):
        assert main(["score", f"out/{name}", "--per-sample", f"out/{name}.jsonl"]) == 0
        assert main(["export", f"out/{name}", "--format", "jsonl"]) == 0
    assert main(["report", "out/run", "--redact", "out/redacted"]) == 0
    assert planted("out") == []
    assert b"zyxgold" in data.read_bytes().lower()  # the search would find it
    Path("shown").mkdir(exist_ok=True)
    assert main(["report", "out/run", "--show-gold", "--out", "shown/report.html"]) == 0
    assert planted("shown") == ["shown/report.html"]


@pytest.mark.parametrize("kind", [BadRequestError, ValueError])
def test_an_error_of_the_judges_server_that_quotes_the_question_is_written_without_the_gold(tmp_path, kind):
    class Quoting(Model):
        name = "quoting"

        def identity(self) -> dict[str, Any]:
            return {}

        async def preflight(self) -> None: ...

        async def answer(self, prompt: Prompt) -> Response:
            text = "".join(part.text for part in prompt.parts if isinstance(part, Text))
            assert "Zyxgold" in text
            error = kind(f"this is not accepted: {text}")
            error.trace = [{"role": "user", "text": text}]
            raise error

        async def close(self) -> None: ...

    data = made.whole(tmp_path / "fika.zip", 2)
    evaluate("fika", Scripted(lambda i: answer("right")), out="out/run", data=data)
    judge("out/run", Quoting())
    assert lines("out/run_judged/results.jsonl")[0]["error"]["message"].count("this is not accepted") == 1
    assert planted("out") == []


@pytest.mark.parametrize("name", ["tools:stub-judge", "agent:opencode"])
def test_the_gold_is_not_handed_to_a_judge_that_has_tools(server, tmp_path, name):
    evaluate("fika", Scripted(lambda i: answer("right")), out="run", data=made.whole(tmp_path / "fika.zip", 1))
    with pytest.raises(JudgeError, match="is no judge: it would see the gold answers"):
        judge("run", name, base_url=server.url, agent_model="here/stub-judge" if name.startswith("agent") else None)
    assert server.asked == [] and not Path("run_judged").exists()


def test_a_redacted_folder_withholds_answers_that_quote_gold_and_keeps_verdicts_and_metrics(server, tmp_path):
    said = {0: "zyxgold-0 MARK ii [[right]]", 1: "那是兹金1号吗 [[wrong]]", 2: "Another thing [[wrong]]", 3: None,
            4: "In other words [[right]]", 5: "Qwvalias 4 [[wrong]]"}  # fmt: skip
    more = {"reasoning": "zyxevidence", "evidence": [{"url": "https://example.org/zyxevidence/1"}]}
    model = Scripted(lambda i: None if said[i] is None else json.dumps({"answer": said[i], **more}))
    rows = [made.row(i) for i in range(6)]
    rows[5]["fine_grained_label"] = rows[4]["fine_grained_label"]  # the same target, and an alias of the other sample
    evaluate("fika", model, out="run", data=made.zipped(tmp_path / "fika.zip", made.files(rows)))
    asked(server)
    assert main(["report", "run", "--redact", "public"]) == 0
    assert {path.name for path in Path("public").rglob("*")} == {"results.jsonl", "summary.json", "run_meta.json"}
    assert planted("public") == []
    rows = {row["sample_id"]: row for row in lines("public/results.jsonl")}
    withheld = "[gold withheld]"
    predictions = [rows[f"s{i:03}"]["prediction"] for i in range(6)]
    assert predictions == [withheld, withheld, "Another thing [[wrong]]", None, withheld, withheld]
    verdicts = [rows[f"s{i:03}"].get("judge_verdict") for i in range(6)]
    assert verdicts == ["correct", "incorrect", "incorrect", None, "correct", "incorrect"]
    assert rows["s003"]["error"] == "bad_request" and rows["s002"]["meta"]["domain"] == "Transport"
    assert json.loads(Path("public/summary.json").read_text())["strict_accuracy"] == 2 / 6
    meta = Path("public/run_meta.json").read_text()
    assert str(tmp_path) not in meta and json.loads(meta)["judge"] == "api:stub-judge"
    assert len(redact(load_run("run"), "public")) == 3  # again, over itself
    Path("public/notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds notes\.txt"):
        redact(load_run("run"), "public")
    with pytest.raises(UsageError, match="a separate folder"):
        redact(load_run("run"), "run")
    with pytest.raises(UsageError, match="holds verdicts"):
        redact(load_run("run_judged"), "judged-public")


@pytest.mark.parametrize(
    ("model", "told"), [("here/org/Model-8B", "here/org/Model-8B"), ("here//home/me/Model-8B", "here/Model-8B")]
)
def test_a_redacted_run_of_an_agent_says_which_model_was_in_it_and_not_where_that_lies(tmp_path, model, told):
    from snellen.benchmarks.base import Data
    from snellen.engine.run_folder import RunFolder, RunSpec
    from snellen.models.base import ModelOptions
    from snellen.runs.perform import perform

    options = ModelOptions(agent_model=model, sandbox="bubblewrap")
    spec = RunSpec(
        benchmark="fika", model="agent:opencode", data=Data(made.whole(Path("fika.zip"), 2)), options=options
    )
    perform(spec, RunFolder("run"), model=scripted(wrong=range(2)))
    redact(load_run("run"), "public")
    meta = json.loads(Path("public/run_meta.json").read_text())
    assert (meta["model"], meta["agent_model"], meta["sandbox"]) == ("agent:opencode", told, "bubblewrap")


def test_tools_are_not_given_a_folder_in_which_the_answers_or_the_results_lie(tmp_path, capsys):
    pages = tmp_path / "pages"
    made.unpacked(pages, made.files([made.row(i) for i in range(2)]))
    (pages / "page.txt").write_text("A page.")
    (tmp_path / "elsewhere").mkdir()
    made.whole(tmp_path / "elsewhere" / "fika.zip", 2)
    Path("tools.json").write_text('{"pages": "pages"}')
    with ScriptedServer({"mock": [Say(answer("right"))]}) as server:
        common = ["-m", "tools:mock", "--tools", "tools.json", "--base-url", server.url, "--key-env", "JUDGE_API_KEY"]
        assert main(["run", "fika", "--data", "pages/data", *common, "--out", "run"]) == 4
        assert "pages/data lies in it, where its answers could be found" in capsys.readouterr().err
        (pages / "data").rename(tmp_path / "data")
        assert main(["run", "fika", "--data", "elsewhere/fika.zip", *common, "--out", "pages/run"]) == 4
        assert "pages/run lies in it" in capsys.readouterr().err
        assert server.asked == []
        assert main(["run", "fika", "--data", "elsewhere/fika.zip", *common, "--out", "run"]) == 0
        assert server.asked != []


def test_the_variables_of_the_server_script_stand_in_for_options_that_are_not_given(monkeypatch, capsys):
    from snellen.cli.serve import parse_vllm

    for name, value in {
        "GPU": "0,1,2",
        "PORT": "8010",
        "DATA_PARALLEL_SIZE": "3",
        "SIF": "c/vllm.sif",
        "VLLM_DOCKER_IMAGE": "i:latest",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HF_CACHE_DIR", "cache")
    monkeypatch.setenv("HF_HOME", "own")
    read = parse_vllm("vllm org/model")
    assert (read.gpus, read.port, read.data_parallel, read.sif, read.docker) == ("0,1,2", 8010, 3, "c/vllm.sif", "")
    assert "note: PORT=8010 is used, from the environment" in capsys.readouterr().err
    read = parse_vllm("vllm org/model --gpu 4 --port 8000 --data-parallel 1 --docker mine")
    assert (read.gpus, read.port, read.data_parallel, read.sif, read.docker) == ("4", 8000, 1, "", "mine")
    assert capsys.readouterr().err == ""
    monkeypatch.delenv("SIF")
    assert parse_vllm("vllm org/model").docker == "i:latest"
    monkeypatch.setenv("PORT", "http")
    with pytest.raises(UsageError, match="PORT=http"):
        parse_vllm("vllm org/model")


def test_the_image_of_the_agent_script_counts_where_apptainer_is_the_sandbox(monkeypatch, tmp_path):
    from snellen.cli.environment import sandbox_image

    monkeypatch.setenv("SIF", "c/agents.sif")
    assert sandbox_image(None, "apptainer", ["fika"]) == Path("c/agents.sif")
    assert sandbox_image(Path("own.sif"), "apptainer", ["fika"]) == Path("own.sif")
    assert sandbox_image(None, "bubblewrap", ["fika"]) is None and sandbox_image(None, "apptainer", ["chart"]) is None


def test_the_folders_of_the_scripts_hold_agents_and_what_a_search_needs(monkeypatch, tmp_path):
    from snellen.errors import MissingExtraError
    from snellen.models.agents import install
    from snellen.models.tools import reverse_image

    monkeypatch.setenv("OPENCLAW_RUNTIME_DIR", "runtime")
    assert install.root() == tmp_path / "runtime"
    monkeypatch.setattr(sys, "path", [one for one in sys.path if "site-packages" not in one])
    for name in [name for name in sys.modules if name.partition(".")[0] == "PicImageSearch"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtraError):
        reverse_image.require()
    (tmp_path / "deps" / "PicImageSearch").mkdir(parents=True)
    (tmp_path / "deps" / "PicImageSearch" / "__init__.py").write_text("MARK = 'of the folder'")
    monkeypatch.setenv("PICS_DEPS_DIR", str(tmp_path / "deps"))
    assert reverse_image.require().MARK == "of the folder"
    sys.modules.pop("PicImageSearch")


def test_the_variables_of_the_scripts_stand_in_for_options(tmp_path, monkeypatch, capsys):
    from snellen.cli.environment import RunVariables, with_variables

    made.whole(tmp_path / "fika.zip", 5)
    environment = {
        "DATA_ZIP": "fika.zip",
        "LIMIT": "0",
        "OUT_DIR": "results/x",
        "MODEL_PATH": "/models/qwen",
        "HF_CACHE_DIR": "/cache",
    }
    found = with_variables(RunVariables(), ["fika"], environment)
    assert found == RunVariables(Path("fika.zip"), None, Path("results/x"), ("local:/models/qwen",))
    assert environment["HF_HOME"] == "/cache"
    own = RunVariables(Path("own.zip"), 3, Path("own"), ("embedded",))
    assert with_variables(own, ["fika"], environment) == own
    assert with_variables(RunVariables(model=("embedded",)), ["chart"], environment) == RunVariables(
        model=("embedded",)
    )
    assert with_variables(RunVariables(model=("embedded",)), ["fika"], {"LIMIT": "2"}).limit == 2
    with pytest.raises(UsageError, match="LIMIT=all"):
        with_variables(RunVariables(), ["fika"], {"LIMIT": "all"})
    with pytest.raises(UsageError, match="no model is named"):
        with_variables(RunVariables(), ["fika"], {})
    monkeypatch.setenv("DATA_ZIP", "fika.zip")
    monkeypatch.setenv("LIMIT", "1")
    monkeypatch.setenv("OUT_DIR", "here")
    capsys.readouterr()
    embedded = ["--max-pixels", "802816", "--max-new-tokens", "64", "--stop-after-first-json", "-c", "4", "-q"]
    assert main(["run", "fika", "-m", "embedded", *embedded]) == 0
    (only,) = lines("here/results.jsonl")
    assert only["status"] == "ok" and load_run("here").meta.coverage.limit == 1
    assert "LIMIT=1 is used" in capsys.readouterr().err
    assert main(["run", "fika", "-m", "embedded", *embedded[:-1]]) == 0  # not quiet
    assert "note: 5 samples were read; the whole benchmark has 311" in capsys.readouterr().err
