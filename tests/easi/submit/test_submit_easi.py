"""`snellen submit easi`: from runs to the request that the leaderboard gets, and everything that keeps it from being sent."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spatial import official_drawn as drawn
from easi.submit.conftest import ABOUT, TOKEN
from servers.leaderboard import Answer, leaderboard
from snellen.benchmarks.spatial.tasks import EIGHT, TASKS
from snellen.easi.submit import client, masked, package

pytestmark = pytest.mark.usefixtures("printed_as_schema")


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_whole_results_are_sent_as_the_leaderboard_documents_it(runs: Path, whole: None, snellen: Any) -> None:
    with leaderboard() as stub:
        said = snellen("submit", "easi", runs, *ABOUT, "--weight-type", "Original", "--yes", "--endpoint", stub.url)
    assert said.status == 0, said.err
    assert "hf_A****StUv" in said.out and "accepted" in said.out
    (got,) = stub.got
    assert got.headers["Authorization"] == f"Bearer {TOKEN}"
    sent = got.payload()
    assert sent["modelName"] == "org/parrot-2B" and sent["weightType"] == "Original" and sent["backend"] == "others"
    assert list(sent["scores"]) == sorted(task.id for task in TASKS.values())
    assert all(isinstance(value, float) for value in sent["scores"].values())
    assert set(sent["subScores"]) == set(sent["scores"])
    assert len(got.body) < 4_500_000
    (folder,) = Path("results/submissions").iterdir()
    assert folder.name.startswith("org--parrot-2B__")
    assert json.loads((folder / "easi_results.json").read_bytes()) == sent
    assert (folder / "easi_results.zip").read_bytes() == got.archive()
    inside = members(got.archive())
    assert all(name.startswith("parrot-2B/") and name.count("/") == 1 for name in inside)
    assert {Path(name).suffix for name in inside} == {".json", ".jsonl"}
    for task in TASKS.values():
        stem = f"parrot-2B/parrot-2B_{task.id.replace('(', '').replace(')', '')}"
        rows = [json.loads(line) for line in inside[f"{stem}_samples.jsonl"].splitlines()]
        assert len(rows) == drawn.count(task.name) == len({row["id"] for row in rows})
        assert all({"id", "reply", "extracted", "hit"} <= row.keys() for row in rows)
        assert not {"prompt", "target", "gold", "answer", "question"} & {key for row in rows for key in row}
    assert TOKEN.encode() not in everything(folder)
    assert json.loads((folder / "sent.jsonl").read_text())["taken"] is True


def test_scores_are_those_of_the_runs_in_points(runs: Path, whole: None, snellen: Any) -> None:
    said = snellen("submit", "easi", runs, *ABOUT, "--dry-run", "--json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    for name, task in TASKS.items():
        rows = json.loads(snellen("score", runs / name, "--profile", "easi", "--json").out)["profiles"][0]["metrics"]
        metrics = {one["name"]: one["value"] for one in rows}
        assert found["payload"]["scores"][task.id] == round(metrics["overall"] * 100, 4)
        for key, value in found["payload"]["subScores"][task.id].items():
            assert value == (None if metrics.get(key) is None else round(metrics[key] * 100, 4)), (name, key)
    eight = [found["payload"]["scores"][TASKS[name].id] for name in EIGHT]
    assert found["average"]["evaluated"] == 8
    assert found["average"]["value"] == pytest.approx(sum(eight) / 8)
    assert "average" not in json.dumps(found["payload"])


def test_a_dry_run_shows_all_of_it_and_sends_nothing(runs: Path, whole: None, snellen: Any) -> None:
    with leaderboard() as stub:
        said = snellen("submit", "easi", runs, *ABOUT, "--dry-run", "--endpoint", stub.url)
    assert said.status == 0, said.err
    assert stub.got == []
    for task in TASKS.values():
        assert task.id in said.out
    assert "mean over 8 of the 8" in said.out and "hf_A****StUv" in said.out and "nothing was sent" in said.out


def test_the_same_results_give_the_same_folder_and_bytes_and_others_another(runs, whole, snellen):
    first = json.loads(snellen("submit", "easi", runs, *ABOUT, "--dry-run", "--json").out)
    before = everything(Path(first["folder"]))
    again = json.loads(
        snellen("submit", "easi", *sorted(runs.iterdir(), reverse=True), *ABOUT, "--dry-run", "--json").out
    )
    assert again["folder"] == first["folder"] and everything(Path(first["folder"])) == before
    other = json.loads(snellen("submit", "easi", runs, *ABOUT, "--revision", "v2", "--dry-run", "--json").out)
    model = json.loads(snellen("submit", "easi", runs, *ABOUT, "--model-name", "b/x", "--dry-run", "--json").out)
    assert len({first["folder"], other["folder"], model["folder"]}) == 3
    assert everything(Path(first["folder"])) == before
    assert len(list(Path("results/submissions").iterdir())) == 3


def test_without_a_token_nothing_is_scored_and_a_dry_run_says_so(runs, whole, snellen, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    missing = snellen("submit", "easi", "nowhere", "--yes")
    assert missing.status == 2 and "nowhere does not exist" in missing.err and "HF_TOKEN" not in missing.err
    said = snellen("submit", "easi", runs, *ABOUT, "--yes")
    assert (
        said.status == 4
        and not Path("results/submissions").exists()
        and "HF_TOKEN is not set" in said.err
        and "huggingface.co" in said.err
    )
    dry = snellen("submit", "easi", runs, *ABOUT, "--dry-run")
    assert dry.status == 0 and "HF_TOKEN is not set" in dry.err and "token none" in dry.out


def test_the_token_may_stand_in_a_file_of_the_working_folder(runs, whole, snellen, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    Path(".env").write_text(f'# mine\nHF_TOKEN=old\nexport HF_TOKEN="{TOKEN}" # new\n')
    with leaderboard() as stub:
        assert snellen("submit", "easi", runs, *ABOUT, "--yes", "--endpoint", stub.url).status == 0
    assert stub.got[0].headers["Authorization"] == f"Bearer {TOKEN}"


def test_what_is_said_about_the_model_is_checked_before_anything_is_scored(runs: Path, snellen: Any) -> None:
    said = snellen("submit", "easi", runs, "--model-type", "chat", "--weight-type", "Adapter", "--yes")
    assert said.status == 2
    for words in ("'chat'", "precision is missing", "baseModel is missing"):
        assert words in said.err
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("status", "tries", "words"), [(400, 1, "licence"), (401, 1, "HF_TOKEN"), (429, 5, "two hours"), (500, 5, "later")]
)
def test_a_refusal_fails_the_command_with_the_servers_words_and_what_to_do(
    runs, whole, snellen, monkeypatch, status, tries, words
):
    monkeypatch.setattr(client.asyncio, "sleep", _at_once)
    with leaderboard(Answer(status, {"success": False, "error": f"because of {status}"})) as stub:
        said = snellen("submit", "easi", runs, *ABOUT, "--yes", "--endpoint", stub.url)
    assert said.status == 10 and f"because of {status}" in said.err and words in said.err
    assert len(stub.got) == tries
    (folder,) = Path("results/submissions").iterdir()
    logged = json.loads((folder / "sent.jsonl").read_text())
    assert logged["taken"] is False and f"HTTP {status}" in logged["why"]


async def _at_once(_: float) -> None: ...


def test_the_remarks_say_how_figures_were_made_only_where_that_is_asked_for(runs, whole, snellen):
    plain = json.loads(snellen("submit", "easi", runs, *ABOUT, "--remarks", "mine", "--dry-run", "--json").out)
    said = json.loads(
        snellen("submit", "easi", runs, *ABOUT, "--remarks", "mine", "--mention", "--dry-run", "--json").out
    )
    assert plain["payload"]["remarks"] == "mine"
    assert (
        said["payload"]["remarks"].startswith("mine [Scored by Snellen")
        and "profile easi" in said["payload"]["remarks"]
    )
    made = json.loads((Path(said["folder"]) / "easi_provenance.json").read_text())["benchmarks"]
    assert set(made) == {task.id for task in TASKS.values()}
    assert made["vsi_bench"]["sources"][0]["fingerprint"] in said["payload"]["remarks"]
    assert made["vsi_bench"]["sources"][0]["frames"] == 32 and made["blink"]["sources"][0]["frames"] is None
    assert made["blink"]["coverage"] == 1.0 and made["blink"]["sources"][0]["prompting"] == "vlmevalkit"
    assert str(runs.parent) not in json.dumps(made)


def test_files_that_were_taken_before_are_said_to_be_before_they_are_sent_again(runs, whole, snellen):
    with leaderboard() as stub:
        first = snellen("submit", "easi", runs, *ABOUT, "--yes", "--endpoint", stub.url)
        (folder,) = Path("results/submissions").iterdir()
        with (folder / "sent.jsonl").open("ab") as file:
            file.write(b'{"time": "20')
        again = snellen("submit", "easi", runs, *ABOUT, "--yes", "--endpoint", stub.url)
    assert first.status == again.status == 0
    assert "same files" not in first.err and "accepted the same files" in again.err
    assert len(stub.got) == 2 and stub.got[0].body == stub.got[1].body


ONE_REQUEST = (*ABOUT, "--upload", "request")


def test_payload_and_zip_together_stay_below_what_the_platform_takes(runs, whole, snellen, monkeypatch):
    full = json.loads(snellen("submit", "easi", runs, *ONE_REQUEST, "--dry-run", "--json").out)
    assert full["reply_characters"] is None
    for limit in (full["request_bytes"] + package.ENVELOPE, full["request_bytes"] - 200):
        monkeypatch.setattr(package, "LARGEST_REQUEST", limit)
        remarks = "x" * 2_000 if limit < full["request_bytes"] else ""
        said = snellen("submit", "easi", runs, *ONE_REQUEST, "--remarks", remarks, "--dry-run", "--json")
        if said.status == 0:
            assert json.loads(said.out)["request_bytes"] <= limit
        else:
            assert said.status == 10 and "by hand" in said.err
    monkeypatch.setattr(package, "LARGEST_REQUEST", 9_000)
    said = snellen("submit", "easi", runs, *ONE_REQUEST, "--dry-run")
    assert said.status == 10 and "even without the replies" in said.err and "by hand" in said.err
    assert not [path for path in Path("results/submissions").iterdir() if path.name.startswith(".part")]


def test_on_a_terminal_it_is_asked_before_it_is_sent(runs, whole, snellen, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with leaderboard() as stub:
        for answer, sent in (("n\n", 0), ("y\n", 1)):
            monkeypatch.setattr("sys.stdin", Terminal(answer))
            said = snellen("submit", "easi", runs, *ABOUT, "--endpoint", stub.url)
            assert len(stub.got) == sent and (said.status == 0) == bool(sent)


def test_a_short_token_shows_nothing_of_itself() -> None:
    assert masked("hf_12345") == "****" and masked("hf_123456") == "hf_1****3456"
