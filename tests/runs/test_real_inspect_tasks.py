"""Tasks of an eval.yaml beside the real inspect_ai: the same prompts and scores, and it runs what is exported.

inspect_ai, datasets and mlcroissant are in an environment of their own: `make test-external PROGRAMS=readers`.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.table.hub_sets_drawn import SETS
from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.registry import find
from snellen.benchmarks.table.hub_tasks import names_of
from snellen.runs.interchange.hub_tasks import export_tasks
from snellen.scoring.rules.inspect_scorers import rule_of
from snellen.types import Image, Prompt, Text

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("SNELLEN_TEST_READERS_PYTHON") or str(ROOT / ".external" / "readers" / "bin" / "python")
REPLIES = (
    *(
        "ANSWER: A",
        "answer: b.",
        "ANSWER: **C**",
        "ANSWER: A, C",
        "ANSWER: A and C",
        "ANSWER: (B)",
        "ANSWER: $D$",
        "B",
        "",
    ),
    *("The owl.\nANSWER: owl", "wren", "It is a wren.", "ANSWER: yes", "ANSWER: no", "no", "**Owl**", "an owl, heron"),
    *("ANSWER: A\nANSWER: B", "ANSWER: AC", "1,234.50", "$42", "The total is 42.", "(42)", "42%", "-3.0", "3/4 of it"),
)
RUN = """
import json, sys
from pathlib import Path
import huggingface_hub
place, name, replies = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
huggingface_hub.hf_hub_download = lambda repo_id, filename, **_: str(Path(repo_id) / filename)
import datasets
real = datasets.load_dataset
datasets.load_dataset = lambda path, revision=None, **more: real(path, **more)
from inspect_ai import eval as run
from inspect_ai._eval.task.hf import task_create_from_hf
from inspect_ai.model import ModelOutput, ModelUsage, get_model
(task,) = task_create_from_hf(f"hf/{name}")
outputs = [ModelOutput.from_content("mockllm/model", reply) for reply in replies * 40]
for output in outputs:
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
(log,) = run(task, model=get_model("mockllm/model", custom_outputs=outputs), display="none", log_dir="logs", max_samples=1)
assert log.status == "success", log.error.message
def part(one):
    return one.text if one.type == "text" else [one.image]
from inspect_ai.log import resolve_sample_attachments
from inspect_ai.model._model import collapse_consecutive_user_messages
found = []
for sample in log.samples:
    sample = resolve_sample_attachments(sample, "full")
    asked = collapse_consecutive_user_messages([one for one in sample.messages if one.role != "assistant"])
    found.append({
        "epoch": sample.epoch,
        "asked": [[one.role, one.content if isinstance(one.content, str) else [part(each) for each in one.content]] for one in asked],
        "reply": sample.output.completion,
        "target": sample.target,
        "scores": {name: score.value for name, score in sample.scores.items()},
    })
print(json.dumps({"samples": found, "metrics": {s.name: {k: v.value for k, v in s.metrics.items()} for s in log.results.scores}}))
"""
SCORE = """
import asyncio, json, sys
from types import SimpleNamespace
from inspect_ai.scorer import Target, exact, f1, includes, match, pattern, answer, value_to_float
made = {"exact": exact, "f1": f1, "includes": includes, "match": match, "pattern": pattern, "answer": answer}
to_float, found = value_to_float(), []
for name, args, reply, golds in json.load(sys.stdin):
    state = SimpleNamespace(output=SimpleNamespace(completion=reply))
    found.append(to_float(asyncio.run(made[name](**args)(state, Target(golds))).value))
print(json.dumps(found))
"""
CROISSANT = """
import json, sys
import mlcroissant
data = mlcroissant.Dataset("croissant.json")
print(json.dumps({one.id: len(list(data.records(one.id))) for one in data.metadata.record_sets}))
"""
pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(
        not Path(PYTHON).exists(), reason="the readers are not installed: make test-external PROGRAMS=readers"
    ),
]


def execute(code: str, *arguments: str, folder: Path, sent: str = "") -> Any:
    """Run code in the readers' interpreter, without a network, and return what it prints last."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "home")}
    done = subprocess.run(
        [PYTHON, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        check=False,
        input=sent,
        env={**os.environ, **offline},
    )
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip(f"a reader is not installed: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def as_inspect_has_it(prompt: Prompt) -> list[Any]:
    """Return a prompt as the messages of Inspect's log: texts, and images as data URIs."""
    parts: list[Any] = [
        part.text
        if isinstance(part, Text)
        else [f"data:image/png;base64,{base64.b64encode(part.blob.read()).decode()}"]
        for part in prompt.parts
        if isinstance(part, (Text, Image))
    ]
    user = parts[0] if len(parts) == 1 else parts
    return [*([["system", prompt.system]] if prompt.system else []), ["user", user]]


def compare(benchmark: Benchmark, name: str, folder: Path) -> None:
    """Run a task with Inspect, and compare prompts, gold answers and the score of each reply."""
    theirs = execute(RUN, str(folder), name, json.dumps([*REPLIES]), folder=folder)
    ours = list(benchmark.samples(Data()))
    epochs = len(theirs["samples"]) // len(ours)
    for sample, found in zip(
        [sample for sample in ours for _ in range(epochs)], sorted_by(theirs["samples"], epochs), strict=True
    ):
        assert as_inspect_has_it(sample.prompt) == found["asked"]
        golds = list(sample.target) if isinstance(sample.target, tuple) else [str(sample.target)]
        assert ",".join(golds) == found["target"]
        for profile in benchmark.score:
            if profile.startswith("inspect-"):
                value = found["scores"][profile.removeprefix("inspect-")]
                value = {"C": 1.0, "I": 0.0, "N": 0.0}.get(value, value)
                assert benchmark.score[profile](sample, found["reply"]).value == value, (profile, found["reply"], golds)


def sorted_by(samples: list[Any], epochs: int) -> list[Any]:
    """Return samples with the epochs of each together, as Inspect logs them by epoch."""
    size = len(samples) // epochs
    by_epoch = sorted(samples, key=lambda sample: sample["epoch"])
    return [by_epoch[epoch * size + place] for place in range(size) for epoch in range(epochs)]


@pytest.mark.parametrize("name", SETS)
def test_prompts_gold_answers_and_scores_are_those_of_inspect(name: str, tmp_path: Path):
    draw, tasks = SETS[name]
    folder = draw(tmp_path / "org" / name)
    for task in tasks:
        spelled = f"org/{name}/{task}" if task else f"org/{name}"
        compare(find(str(folder / task) if task else str(folder)), spelled, tmp_path)


@pytest.mark.parametrize("name", SETS)
def test_inspect_runs_what_is_exported_with_the_same_prompts(name: str, tmp_path: Path):
    draw, _ = SETS[name]
    for place in names_of(str(draw(tmp_path / "drawn"))):
        out = tmp_path / "org" / "again"
        export_tasks(find(place), Data(), out)
        compare(find(str(out)), "org/again", tmp_path)
        records = execute(CROISSANT, folder=out)
        assert list(records.values()) == [len(list(find(place).samples(Data())))]
        for file in sorted(out.rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()


def test_scores_of_texts_are_those_of_inspect(tmp_path: Path):
    golds = (
        ["owl"],
        ["an owl"],
        ["42"],
        ["1234.5"],
        ["-3"],
        ["A"],
        ["no", "yes"],
        ["The heron"],
        ["$42"],
        ["3/4"],
        ["the"],
    )
    rules: list[tuple[str, dict[str, Any]]] = [
        *(
            ("match", {"location": where, "numeric": numeric})
            for where in ("begin", "end", "any", "exact")
            for numeric in (False, True)
        ),
        *(("answer", {"pattern": kind}) for kind in ("letter", "word", "line")),
        *(("includes", {"ignore_case": folded}) for folded in (True, False)),
        *(("exact", {}), ("f1", {}), ("f1", {"stop_words": ["heron"]})),
        *(("pattern", {"pattern": r"(\w+)[.,]? (\w+)", "match_all": every}) for every in (True, False)),
    ]
    cases = [(name, args, reply, gold) for name, args in rules for reply in REPLIES for gold in golds]
    theirs = execute(SCORE, folder=tmp_path, sent=json.dumps(cases))
    ours = [rule_of(name, args)(reply, gold, {})[0] for name, args, reply, gold in cases]
    different = [(case, mine, other) for case, mine, other in zip(cases, ours, theirs, strict=True) if mine != other]
    assert not different, different[:10]
