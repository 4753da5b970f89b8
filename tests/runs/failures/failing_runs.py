"""A FIKA-shaped set with planted gold, a model with tools that fails in known ways, its judge, and a judge of labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.fika import made
from servers.scripted import Action, Call, Refuse, Say, ScriptedServer
from snellen.cli import main

HOSTILE = "<script>window.owned=1;document.title='owned'</script><img src=x onerror='window.owned=1'> \x1b[31mred\x1b[0m \x00 \u202e {{7*7}} ]]>"
KEY = "sk-abcdefghijklmnopqrstuvwx0123"
"""Of the shape of a key, as a page may quote one."""


def said(answer: str, url: str = "") -> Say:
    evidence = [{"url": url, "note": f"says {answer}"}] if url else []
    return Say(json.dumps({"answer": answer, "evidence": evidence, "reasoning": "by its shape"}))


def page(number: int) -> Call:
    return Call("fetch_url", {"url": f"https://example.org/{number}"})


def find(words: str) -> Call:
    return Call("web_search", {"query": words})


PAGES = {
    0: "The Falcon Nine is a thing of that shape.",
    2: "Everybody knows it: this is the Zyxgold 2 Mark II.",
    5: f"Zyxgold 5 Mark II stands beside the Condor Seven. {HOSTILE} {KEY}",
}
SCRIPTS: dict[str, list[Action]] = {
    "q0": [find("falcon"), page(0), said("Falcon Nine", "https://example.org/0")],
    "q1": [said("Heron One", "https://example.org/never")],
    "q2": [find("everybody"), page(2), said("Ibis Two")],
    "q3": [Say("{}")],
    "q4": [find("falcon"), said("Zyxgold 4 Mark II")],
    "q5": [find("condor"), page(5), said("Condor Seven", "https://example.org/5")],
}
OTHER: dict[str, list[Action]] = {name: [said("Heron One")] for name in SCRIPTS} | {"q4": [said("Zyxgold")]}
RULES = {
    "s000": "wrong_entity_retrieved",
    "s001": "no_search",
    "s002": "evidence_ignored",
    "s003": "format",
    "s005": "unknown",
}
JUDGE = {
    "q0": "wrong_entity_retrieved", "q1": "poor_visual_judgement", "q2": "evidence_ignored", "q3": "format",
    "q4": "too_coarse", "q5": "poor_visual_judgement",
}  # fmt: skip


def labels(refused: frozenset[str] = frozenset()) -> dict[str, list[Action]]:
    """What the judge of labels says; it quotes the gold in its reasons. To these questions the server says 500."""
    found: dict[str, list[Action]] = {"labeller": [Refuse(400)]}
    for name, label in JUDGE.items():
        reply = json.dumps({"label": label, "reason": f"it is the Zyxgold {name[1]} Mark II, seen as another"})
        found[name] = [Refuse(500) if name in refused else Say(reply)]
    return found


def verdicts(right: tuple[str, ...] = ("q4",)) -> dict[str, list[Action]]:
    found: dict[str, list[Action]] = {"judge": [Refuse(400)]}
    for name in SCRIPTS:
        verdict = "correct" if name in right else "incorrect"
        found[name] = [Say(json.dumps({"verdict": verdict, "reason": f"the reference is Zyxgold {name[1]} Mark II"}))]
    return found


def settle(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in ("OPENAI_API_KEY", "JUDGE_BASE_URL", "JUDGE_MODEL", "DATA_ZIP", "LIMIT", "OUT_DIR", "MODEL_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JUDGE_API_KEY", "key-of-the-judge")
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-model")
    monkeypatch.setenv("SNELLEN_CACHE", str(folder / "cache"))
    monkeypatch.chdir(folder)


def run(
    out: str,
    scripts: dict[str, list[Action]] = SCRIPTS,
    model: str = "mock",
    right: tuple[str, ...] = ("q4",),
    judged: bool = True,
) -> None:
    """A run with tools, judged, in `out` and `out`_judged; the data lie in fika.zip, the collection in pages/."""
    if not Path("fika.zip").exists():
        rows = [made.row(i, question=f"What is this? <q{i}>") for i in range(6)]
        made.zipped(Path("fika.zip"), made.files(rows))
        Path("pages").mkdir()
        lines = [{"url": f"https://example.org/{i}", "title": f"Page {i}", "text": text} for i, text in PAGES.items()]
        Path("pages/all.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        Path("tools.json").write_text(json.dumps({"pages": "pages"}))
    with ScriptedServer({model: [Refuse(400)], **scripts}, seconds=120) as server:
        asked = [
            "run",
            "fika",
            "--data",
            "fika.zip",
            "-m",
            f"tools:{model}",
            "--tools",
            "tools.json",
            "--out",
            out,
            "-q",
        ]
        assert main([*asked, "--base-url", server.url]) == 0
    if not judged:
        return
    with ScriptedServer(verdicts(right), seconds=120) as server:
        assert main(["judge", out, "-m", "api:judge", "--base-url", server.url, "-q"]) == 0


def label(*more: str, run: str = "run", server: ScriptedServer | None = None) -> tuple[int, ScriptedServer]:
    """`snellen failures` with the judge of labels: its exit status, and the server with what it was asked."""
    if server is None:
        with ScriptedServer(labels(), seconds=120) as own:
            return label(*more, run=run, server=own)
    return main(["failures", run, "--judge", "api:labeller", "--base-url", server.url, "-q", *more]), server


def text_of(folder: str | Path) -> bytes:
    """Everything in a folder, in lower case."""
    return b"\n".join(path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()).lower()
