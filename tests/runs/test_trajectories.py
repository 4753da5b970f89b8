"""`snellen export RUN --format atif`: trajectories that fit ATIF 1.8, with tools, images, failures, and without gold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from PIL import Image as Pillow

from benchmarks.fika import made
from benchmarks.fika.made import answer
from runs.atif_schema import TRAJECTORY
from servers.scripted import Call, Say, ScriptedServer
from snellen import evaluate
from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.cli import main
from snellen.errors import AgentTimeoutError
from snellen.models import trace
from snellen.models.base import Model
from snellen.models.trace import Step
from snellen.runs.export import export
from snellen.scoring.metrics import breakdown
from snellen.sources import BytesBlob
from snellen.types import Image, Metric, Prompt, Response, Sample, Score, Text, Usage


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-key-of-the-model-0123456789")
    monkeypatch.delenv("SNELLEN_TOOLS", raising=False)
    monkeypatch.chdir(tmp_path)


def picture(colour: str, kind: str = "PNG") -> bytes:
    held = BytesIO()
    Pillow.new("RGB", (60, 40), colour).save(held, kind)
    return held.getvalue()


PICTURES = [picture("red"), picture("blue", "JPEG"), picture("green", "BMP"), b"no picture"]


def samples(data: Data) -> Iterator[Sample]:
    for i, content in enumerate(PICTURES):
        parts = (Image(BytesBlob(f"p{i}", content)), Text(f"What is on picture {i}?"))
        yield Sample(f"deep/p {i}", Prompt(parts, system="Be brief."), "Phascolarctos", "short")


def summarize(scores: Any, profile: str) -> list[Metric]:
    return breakdown(scores, ("kind",), "accuracy")


PICTURED = Benchmark(
    name="pictured",
    version="1",
    samples=samples,
    score={"strict": lambda sample, reply: Score(0.0, reply, "wrong")},
    summarize=summarize,
    profiles={"strict": "as it is"},
    size=lambda data: len(PICTURES),
)


def trajectories(folder: str) -> dict[str, dict[str, Any]]:
    """Every trajectory in a folder by the id of its sample, each checked against the facts of ATIF."""
    result = {}
    for path in sorted(Path(folder).glob("*.json")):
        content = json.loads(path.read_text("utf-8"))
        jsonschema.validate(content, TRAJECTORY)
        steps = content["steps"]
        assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
        for step in steps:
            calls = [call["tool_call_id"] for call in step.get("tool_calls", [])]
            results = [entry["source_call_id"] for entry in step.get("observation", {}).get("results", [])]
            assert calls == results and len(set(calls)) == len(calls)
            if step["source"] != "agent":
                assert not {"tool_calls", "metrics", "reasoning_content", "llm_call_count"} & set(step)
            for part in step["message"] if isinstance(step["message"], list) else []:
                if part["type"] == "image":
                    image = path.parent / part["source"]["path"]
                    assert hashlib.sha256(image.read_bytes()).hexdigest() == image.stem
        assert content["final_metrics"]["total_steps"] == len(steps)
        result[content["extra"]["sample_id"]] = content
    return result


def test_the_turns_tool_calls_and_images_of_our_own_loop_become_a_trajectory(monkeypatch):
    monkeypatch.setitem(registry.BUILT_IN, "pictured", f"{__name__}:PICTURED")
    script = [
        Call("crop_zoom", {"image": "image.png", "box": [0, 0, 0.5, 0.5]}),
        Call("nothing", {"x": 1}),
        Say("A koala"),
    ]
    with ScriptedServer({"mock": script}) as server:
        words = ["-m", "tools:mock", "--base-url", server.url, "--limit", "1", "--out", "run", "-q"]
        assert main(["run", "pictured", *words]) == 0
    assert main(["export", "run", "--format", "atif", "--out", "atif"]) == 0
    (content,) = trajectories("atif").values()
    assert content["agent"]["name"] == "snellen" and content["agent"]["model_name"] == "mock"
    sources = [step["source"] for step in content["steps"]]
    assert sources[:3] == ["system", "user", "agent"] and sources[-1] == "agent"
    question = content["steps"][1]["message"]
    assert {part["type"] for part in question} == {"text", "image"}
    first = next(step for step in content["steps"] if step["source"] == "agent")
    (call,) = first["tool_calls"]
    assert (call["function_name"], call["arguments"]) == ("crop_zoom", {"image": "image.png", "box": [0, 0, 0.5, 0.5]})
    (result,) = first["observation"]["results"]
    assert result["content"] and len(result["extra"]["images_sha256"][0]) == 64
    unknown = [entry for step in content["steps"] for entry in step.get("observation", {}).get("results", [])][1]
    assert unknown["extra"]["error"] is True and "there is no tool 'nothing'" in unknown["content"]
    assert content["steps"][-1]["message"] == "A koala"
    assert first["metrics"] == {"prompt_tokens": 120, "completion_tokens": 8}
    assert content["final_metrics"]["total_prompt_tokens"] == 360
    assert content["extra"]["status"] == "ok"


class Traced(Model):
    """A model with the trace of an agent: it fails at picture 1, and is told of its images by digest."""

    name = "traced"

    async def answer(self, prompt: Prompt) -> Response:
        text = next(part.text for part in prompt.parts if isinstance(part, Text))
        digest = hashlib.sha256(PICTURES[0]).hexdigest()
        steps = [
            Step(0, "user", f"seen by the agent: {text}", images=(digest,)),
            Step(1, "tool", tool="bash", arguments="{broken", error=True, seconds=0.5),
            Step(1, "user", "(the image)", images=(digest, "0" * 64)),
            Step(2, "assistant", "It is a koala, sk-key-of-the-model-0123456789", tokens_in=7, tokens_out=2),
        ]
        if "picture 1" in text:
            error = AgentTimeoutError("no answer within 3 s")
            error.trace = trace.plain(steps[:2])
            raise error
        return Response("A koala", Usage(7, 2, cost=0.25), reasoning="thoughts", trace=trace.plain(steps))


def test_broken_calls_failures_and_images_handed_over_have_their_place(monkeypatch):
    evaluate(PICTURED, Traced(), out="run", max_attempts=1)
    exported = export_of("run", PICTURED)
    known = trajectories("run/exports/atif")
    assert set(known) == {f"deep/p {i}" for i in range(4)}
    whole, failed = known["deep/p 0"], known["deep/p 1"]
    tool, handed = whole["steps"][2], whole["steps"][3]
    assert tool["tool_calls"][0]["arguments"] == {}
    assert tool["tool_calls"][0]["extra"] == {"unparsed_arguments": "{broken"}
    assert tool["observation"]["results"][0]["extra"] == {"error": True, "seconds": 0.5}
    assert [part["type"] for part in handed["message"]] == ["text", "image"] and handed["source"] == "user"
    assert whole["steps"][-1]["reasoning_content"] == "thoughts"
    assert whole["final_metrics"]["total_cost_usd"] == 0.25
    assert failed["extra"]["status"] == "timeout" and failed["extra"]["error"]["kind"] == "agent_timeout"
    assert [step["source"] for step in failed["steps"]] == ["system", "user", "agent"]
    images = sorted(path.suffix for path in Path("run/exports/atif/images").iterdir())
    assert images == [".jpg", ".png"]
    assert any("2 images or videos are not included" in note for note in exported.notes)


def export_of(run: str, benchmark: Benchmark) -> Any:
    from snellen import load_run

    return export(load_run(run, benchmark=benchmark), "atif")


def test_keys_and_gold_are_in_no_trajectory_and_the_same_run_gives_the_same_bytes(monkeypatch):
    from snellen import redaction

    redaction.register("sk-key-of-the-model-0123456789")
    evaluate(PICTURED, Traced(), out="run", max_attempts=1)
    export_of("run", PICTURED)
    files = {path: path.read_bytes() for path in Path("run/exports/atif").rglob("*") if path.is_file()}
    text = b"".join(content for path, content in files.items() if path.suffix == ".json")
    assert b"sk-key-of-the-model" not in text and b"Phascolarctos" not in text
    export_of("run", PICTURED)
    assert {path: path.read_bytes() for path in files} == files


def test_a_run_without_traces_has_question_and_reply_and_a_restricted_one_no_gold(tmp_path, capsys):
    data = made.whole(tmp_path / "fika.zip", 3)
    evaluate("fika", made.Scripted(lambda i: None if i == 2 else answer("right")), out="run", data=data, max_attempts=1)
    capsys.readouterr()
    assert main(["export", "run", "--format", "atif", "--out", "atif"]) == 0
    assert "whose licence restricts passing them on" in capsys.readouterr().err
    known = trajectories("atif")
    assert [step["source"] for step in known["s000"]["steps"]] == ["user", "agent"]
    assert [step["source"] for step in known["s002"]["steps"]] == ["user"]
    assert known["s000"]["steps"][1]["timestamp"].endswith("Z")
    written = b"".join(
        path.read_bytes().lower() + path.name.encode() for path in Path("atif").rglob("*") if path.is_file()
    )
    assert not [word for word in made.PLANTED if word in written]
