"""Medical and remote-sensing sets: what each profile makes of a reply, open and closed figures, and own tables of DICOM files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from catalogue_drawn import draw
from hypothesis import given
from hypothesis import strategies as st
from medical_sets_drawn import LAND_USE

import snellen
from media.test_deep_images import dicom, tiff
from media.test_dicom_frames import stack
from servers.oracle import OracleServer, digest
from snellen.benchmarks import registry
from snellen.benchmarks.table.entries import entry
from snellen.cli import main
from snellen.media.dicom_frames import DicomFrame
from snellen.media.encode import encode
from snellen.scoring.rules.lmms_eval import slake_normalised
from snellen.scoring.rules.short_answers import token_recall
from snellen.sources import BytesBlob, FileBlob
from snellen.types import Image, MediaSettings, Sample, Text

# set, row, reply, value by profile (strict, authors, vlmevalkit, lmms-eval; None: it has no such profile)
REPLIES = [
    ("medxpertqa-mm", 0, "Here a fracture is seen, so the answer is B.", (1, 1, 1, 1)),
    ("medxpertqa-mm", 0, "From A through E it is B", (0, 1, 0, 1)),
    (
        "medxpertqa-mm",
        0,
        "Acute fracture: B",
        (1, 0, 1, 1),
    ),  # the authors' script takes the first letter, of a word too
    ("medxpertqa-mm", 3, "The answer is B, no, the answer is A.", (1, 1, 0, 1)),
    ("pmc-vqa", 1, "lefft lung", (0, 1, 0, 0)),  # the most similar option
    ("pmc-vqa", 1, "left lung", (1, 1, 1, 0)),  # lmms-eval reads letters, and no texts of options
    ("pmc-vqa", 1, "B", (1, 1, 1, 1)),
    ("slake", 0, "left lung", (1, None, 1, 1)),
    ("slake", 0, "Left lung.", (1, None, 0, 1)),  # the whole reply is compared but by lmms-eval
    ("slake", 0, "left lung (upper part)", (1, None, 0, 1)),  # what stands in brackets is dropped there
    ("slake", 1, "true", (0, None, 0, 1)),
    ("slake", 3, "没有。", (0, None, 0, 1)),  # words for no are one
    ("slake", 2, "肝脏", (1, None, 1, 1)),
    ("vqa-rad", 0, "Yes, there is one.", (1, None, 1, 0)),
    ("vqa-rad", 0, "Yes", (1, None, 1, 1)),
    ("vqa-rad", 1, "yes and no", (0, None, 0, 0)),
    ("path-vqa", 2, "Left lung", (1, None, 1, 1)),
    ("path-vqa", 2, "right lung", (0, None, 0, 0)),
    ("omnimedvqa", 1, "C. spleen", (1, None, 1, 1)),
    ("omnimedvqa", 1, "spleen", (1, None, 1, 0)),
    ("xlrs-bench-lite", 2, "A C", (1, None, 1, 1)),
    ("xlrs-bench-lite", 2, "(A) river and (C) field", (1, None, 1, 1)),
    ("xlrs-bench-lite", 2, "A", (0, None, 0, 0)),
    ("xlrs-bench-lite", 1, "B road", (1, None, 0, 0)),  # both harnesses read the a and d of the word as well
    ("xlrs-bench-lite", 3, "The answer is D", (1, None, 1, 1)),
]


def samples_of(name: str, folder: Path) -> list[Sample]:
    drawn = draw(entry(name), folder)
    return list(registry.find(name).samples(snellen.Data(path=drawn.path, images=drawn.images)))


@pytest.mark.parametrize(("name", "row", "reply", "values"), REPLIES)
def test_a_reply_has_the_value_that_each_profile_gives_it(
    name: str, row: int, reply: str, values: tuple[float | None, ...], tmp_path: Path
) -> None:
    benchmark, sample = registry.find(name), samples_of(name, tmp_path)[row]
    profiles = ("strict", "authors", "vlmevalkit", "lmms-eval")
    found = [
        benchmark.score[profile](sample, reply).value if profile in benchmark.score else None for profile in profiles
    ]
    assert found == list(values)


def text_of(sample: Sample) -> str:
    return "".join(part.text for part in sample.prompt.parts if isinstance(part, Text))


def test_prompts_are_those_of_the_sheet(tmp_path: Path) -> None:
    prompts = {}
    for name in ("medxpertqa-mm", "pmc-vqa", "slake", "vqa-rad", "xlrs-bench-lite"):
        (tmp_path / name).mkdir()
        prompts[name] = [text_of(sample) for sample in samples_of(name, tmp_path / name)]
    assert prompts["medxpertqa-mm"][0] == (
        "You are a helpful medical assistant."
        "Q: What is at 0?\nAnswer Choices: (A) aorta (B) left lung (C) spleen (D) liver (E) heart\nA: Let's think step by step."
    ).removeprefix("You are a helpful medical assistant.")
    assert prompts["pmc-vqa"][0] == (
        "Which part is 0?\nA. aorta\nB. left lung\nC. spleen\nD. liver\n"
        "Answer with the option's letter from the given choices directly."
    )
    assert prompts["slake"][0].endswith("What is 0?\nAnswer the question using a single word or phrase.")
    assert prompts["slake"][2] == "第2题？\n请用一个词或短语回答问题。"
    assert prompts["vqa-rad"][0] == "What is 0?\nPlease output 'yes' or 'no'(no extra output)."
    assert prompts["vqa-rad"][2] == "What is 2?\nPlease answer the question concisely."
    assert "(A) river\n(B) road" in prompts["xlrs-bench-lite"][0]
    assert prompts["xlrs-bench-lite"][0].endswith("(A, B, C, D).\nThe answer is:")
    assert prompts["xlrs-bench-lite"][2].endswith("separated by spaces.The answer(s) is(are):")


def figures(name: str, tmp_path: Path, replies: dict[int, str], profile: str) -> dict[str, float | None]:
    """Run a set whose rows in `replies` are answered so, and all others rightly; return its figures."""
    drawn = draw(entry(name), tmp_path)
    order = list(drawn.right)

    def reply(request: object) -> str:
        number = order.index(request.images[0])  # type: ignore[attr-defined]
        return replies.get(number) or drawn.right[request.images[0]](request)  # type: ignore[attr-defined]

    with OracleServer(reply) as server:
        run = snellen.evaluate(name, "api:oracle", base_url=server.url, data=drawn.path, out=tmp_path / "run")
    return {figure.name: figure.value for figure in run.figures(profile)[profile]}


def test_open_and_closed_questions_of_slake_are_reported_apart_with_recall(tmp_path: Path) -> None:
    """English: a half of `Left lung`, no for yes, `Spleen`. Chinese: one of the two signs of 肝脏, and the gold 不是."""
    found = figures("slake", tmp_path, {0: "the right lung", 1: "no", 2: "肝"}, "vlmevalkit")
    assert found["accuracy"] == pytest.approx(2 / 5)
    assert (found["open"], found["closed"]) == (pytest.approx(1 / 3), pytest.approx(1 / 2))
    assert found["open recall"] == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)
    assert (found["open/en"], found["open recall/en"]) == (pytest.approx(1 / 2), pytest.approx(3 / 4))
    assert (found["closed/zh"], found["open recall/zh"]) == (pytest.approx(1), pytest.approx(1 / 2))


def test_what_is_only_thought_counts_for_no_recall(tmp_path: Path) -> None:
    sample = samples_of("slake", tmp_path)[0]
    score = registry.find("slake").score["strict"]
    assert score(sample, "<think>left lung?</think>spleen").detail["word_recall"] == "0.0"
    assert score(sample, "It is the left lung, I think.").detail["word_recall"] == "1.0"


def test_closed_questions_are_those_whose_gold_answer_is_yes_or_no(tmp_path: Path) -> None:
    found = figures("vqa-rad", tmp_path, {0: "no", 3: "it is barium"}, "vlmevalkit")
    assert (found["accuracy"], found["closed"], found["open"]) == (1 / 2, 1 / 2, 1 / 2)
    assert found["open recall"] == 1


def test_open_answers_are_judged_in_a_profile_of_their_own_beside_exact_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    drawn = draw(entry("vqa-rad"), tmp_path)
    order, judged = list(drawn.right), []
    said = {0: "no", 3: "it is barium"}

    def reply(request: object) -> str:
        if "strict grader" in request.text:  # type: ignore[attr-defined]
            judged.append(request.text)  # type: ignore[attr-defined]
            return '{"verdict": "correct", "reason": "the same"}'
        number = order.index(request.images[0])  # type: ignore[attr-defined]
        return said.get(number) or drawn.right[request.images[0]](request)  # type: ignore[attr-defined]

    def shares(run: snellen.Run) -> dict[str, dict[str, tuple[float | None, float]]]:
        return {
            profile: {figure.name: (figure.value, figure.coverage) for figure in figures}
            for profile, figures in run.figures("all").items()
        }

    with OracleServer(reply) as server:
        run = snellen.evaluate("vqa-rad", "api:oracle", base_url=server.url, data=drawn.path, out=tmp_path / "run")
        before = shares(run)
        assert before["strict"]["open"] == before["vlmevalkit"]["open"] == (0.5, 1.0)
        assert before["judge"]["open"] == (1.0, 0.5), "the other one is left to the judge"
        assert before["judge"]["closed"] == before["strict"]["closed"] == (0.5, 1.0)
        assert "1 reply is not judged yet and has no score under the profile judge" in run.judged_by()
        snellen.judge(tmp_path / "run", "api:oracle", base_url=server.url)
    scored = snellen.load_run(tmp_path / "run")
    after = shares(scored)
    assert len(judged) == 1 and "it is barium" in judged[0]
    assert after["judge"]["open"] == (1.0, 1.0)
    assert {name: after[name] for name in before if name != "judge"} == {
        name: before[name] for name in before if name != "judge"
    }
    line = scored.judged_by()
    assert "1 of 1 replies" in line and "published figures are judged by gpt-4.1-2025-04-14" in line


def test_imported_answers_to_a_part_of_a_declared_set_are_recorded_as_such(tmp_path: Path) -> None:
    drawn = draw(entry("vqa-rad"), tmp_path)
    (tmp_path / "said.jsonl").write_text('{"id": "0", "reply": "Yes"}\n{"id": "1", "reply": "no"}\n')
    run = snellen.import_run(tmp_path / "said.jsonl", "vqa-rad", data=drawn.path, out=tmp_path / "run")
    assert run.meta.truncated == (4, 451)


def test_the_mean_of_modalities_is_not_the_share_of_rows(tmp_path: Path) -> None:
    found = figures("omnimedvqa", tmp_path, {0: "B"}, "strict")
    assert (found["accuracy"], found["mean of modalities"]) == (pytest.approx(2 / 3), pytest.approx((1 / 2 + 1) / 2))
    assert found["accuracy/Chest CT"] == 1


def test_sub_tasks_of_xlrs_count_alike_in_the_mean(tmp_path: Path) -> None:
    found = figures("xlrs-bench-lite", tmp_path, {2: "A", 3: "B"}, "lmms-eval")
    assert (found["accuracy"], found["mean of sub-tasks"]) == (1 / 2, 1 / 2)
    assert found[f"accuracy/{LAND_USE}"] == 0


def test_questions_about_one_image_form_a_cluster(tmp_path: Path) -> None:
    """Two rows of SLAKE name the same source; their intervals are those of one image."""
    drawn = draw(entry("slake"), tmp_path)
    text = (drawn.path / "test.json").read_text(encoding="utf-8")
    (drawn.path / "test.json").write_text(text.replace("xmlab1/", "xmlab0/"), encoding="utf-8")
    samples = list(registry.find("slake").samples(snellen.Data(path=drawn.path)))
    assert samples[0].group == samples[1].group != samples[2].group


@given(st.lists(st.sampled_from(["lung", "left", "liver", "肝", "the"]), max_size=6))
def test_recall_is_the_share_of_gold_words_and_1_for_the_gold_answer(words: list[str]) -> None:
    gold = " ".join(words)
    kept = [word for word in words if word != "the"]
    assert token_recall(f"It shows {gold}.", [gold]) == (1 if kept else 0)
    share = token_recall("liver", [gold])
    assert share == (pytest.approx(kept.count("liver") / len(kept)) if kept else 0)


@pytest.mark.parametrize(
    ("reply", "normalised"),
    [
        ("X-Ray", "xray"),
        (" Yes! ", "yes"),
        ("不正常", "no"),
        ("Left-lung (both)", "left lung"),
        ("肺（左）", "肺"),
        ("Yes.no", "yes no"),
    ],
)
def test_short_answers_are_normalised_as_the_slake_task_does(reply: str, normalised: str) -> None:
    assert slake_normalised(reply) == normalised


def own_table(folder: Path) -> tuple[Path, list[bytes]]:
    """Write a table with a computed tomography, a radiograph without a window, and five bands of a satellite."""
    values = np.arange(64 * 64, dtype=np.int16).reshape(64, 64)
    files = {
        "ct.dcm": dicom(values - 1024, WindowWidth=400, WindowCenter=40),
        "xray.dcm": dicom(values, PhotometricInterpretation="MONOCHROME1"),
        "bands.tif": tiff(np.stack([values] * 5, axis=-1).astype(np.uint16)),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    with (folder / "scans.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "question", "A", "B", "answer"])
        rows.writerows([name, f"What is number {at}?", "lung", "field", "A"] for at, name in enumerate(files))
    return folder / "scans.csv", list(files.values())


def test_an_own_table_of_dicom_and_satellite_images_is_checked_and_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, files = own_table(tmp_path)
    assert main(["check", str(table), "--all"]) == 0
    printed = capsys.readouterr().out
    assert "window 400/40 of the file" in printed
    assert "shown from its lowest to its highest value" in printed
    settings = MediaSettings(window="100/2000", bands="5,4,3")
    with OracleServer(lambda request: "A") as server:
        run = snellen.evaluate(str(table), "api:oracle", base_url=server.url, media=settings, out=tmp_path / "run")
        sent = {digest_ for request in server.requests for digest_ in request.images}
    assert run.meta.totals.ok == 3
    assert sent == {digest(encode(BytesBlob("scan", data), settings).data) for data in files}
    recorded = (tmp_path / "run" / "run_meta.json").read_text()
    assert "100/2000" in recorded
    assert "5,4,3" in recorded


def stacks(folder: Path, *rows: str, head: str = "image,question,answer,slice") -> str:
    """Write a file of twelve frames, one of which is shown brightest, another without an ending, and a table about them."""
    frames = np.zeros((12, 8, 8), np.uint8)
    frames[7] = 200
    for name, more in (("ct.dcm", {}), ("1.2.840.77", {"FrameTime": "500"})):
        (folder / name).write_bytes(stack(frames, WindowWidth=256, WindowCenter=128, **more))
    (folder / "scans.csv").write_text("\n".join([head, *rows]) + "\n")
    return str(folder / "scans.csv")


def shown_of(table: str, folder: Path, **settings: object) -> list[list[str]]:
    """Return the digests of the images that each question sends."""
    with OracleServer(lambda request: "yes") as server:
        run = snellen.evaluate(table, "api:oracle", base_url=server.url, out=folder / "run", **settings)
    assert run.meta.totals.ok == run.meta.totals.done == len(server.requests)
    return [list(request.images) for request in server.requests]


def frame_of(path: Path, number: int) -> str:
    blob = DicomFrame(FileBlob(path), number)
    return digest(encode(blob, MediaSettings()).data)


def test_a_cell_names_the_frames_of_a_stack_that_are_shown(tmp_path: Path) -> None:
    table = stacks(tmp_path, "ct.dcm,Is it bright?,yes,8", "ct.dcm,Are these bright?,no,1-3")
    found = shown_of(table, tmp_path, benchmark_options={"map": "frame=slice"}, concurrency=1)
    assert found == [
        [frame_of(tmp_path / "ct.dcm", 8)],
        [frame_of(tmp_path / "ct.dcm", number) for number in (1, 2, 3)],
    ]
    assert frame_of(tmp_path / "ct.dcm", 8) != frame_of(tmp_path / "ct.dcm", 1)


def test_a_stack_without_a_named_frame_is_a_clip_of_its_frames(tmp_path: Path) -> None:
    table = stacks(tmp_path, "ct.dcm,Is one of them bright?,yes,")
    (found,) = shown_of(table, tmp_path, media=MediaSettings(frames=4))
    assert found == [frame_of(tmp_path / "ct.dcm", number) for number in (1, 4, 8, 12)]
    timed = stacks(tmp_path, "1.2.840.77,Is one of them bright?,yes,")
    (found,) = shown_of(timed, tmp_path / "timed", media=MediaSettings(fps=1.0, timestamps=True))
    assert len(found) == 6, "twelve frames of half a second"


def test_a_stack_that_claims_frames_and_seconds_of_one_without_a_rate_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = stacks(
        tmp_path,
        "cut.dcm,Is it bright?,yes,,",
        "ct.dcm,Is a part of it bright?,yes,1,2",
        "1.2.840.77,Is a part of it bright?,no,1,2",
        head="image,question,answer,start,end",
    )
    (tmp_path / "cut.dcm").write_bytes(dicom(np.zeros((8, 8), np.uint8), NumberOfFrames=5000))
    main(["check", table, "--map", "video_start=start,video_end=end"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "cut.dcm: a DICOM that claims 5,000 frames" in printed
    assert "its part of the video: its file says no frame rate" in printed
    assert "2 rows left out" in printed


def test_a_frame_that_a_stack_lacks_is_named_by_the_check_and_so_is_other_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = stacks(tmp_path, "ct.dcm,Is it bright?,yes,13", "ct.dcm,And this?,yes,8")
    main(["check", table, "--map", "frame=slice"])
    assert "its frames are '13', and the file has 12" in " ".join(capsys.readouterr().out.split())
    digests = set()
    for name, frames in (("a", None), ("b", None), ("c", np.ones((12, 8, 8), np.uint8))):
        (tmp_path / name).mkdir()
        clip = stacks(tmp_path / name, "ct.dcm,Is one bright?,yes,")
        if frames is not None:
            (tmp_path / name / "ct.dcm").write_bytes(stack(frames))
        digests.add(registry.find(clip).digest(snellen.Data()))
    assert len(digests) == 2


def test_a_damaged_scan_is_named_by_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, _ = own_table(tmp_path)
    (tmp_path / "ct.dcm").write_bytes((tmp_path / "ct.dcm").read_bytes()[:140])
    main(["check", str(table)])
    assert (
        "ct.dcm is no JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC, AVIF, JPEG XL or DICOM, or is cut off"
        in capsys.readouterr().out
    )


def test_a_scan_that_was_cut_in_its_pixels_is_named_by_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, _ = own_table(tmp_path)
    (tmp_path / "xray.dcm").write_bytes((tmp_path / "xray.dcm").read_bytes()[:-20])
    main(["check", str(table)])
    assert "number of bytes of pixel data is less than expected" in " ".join(capsys.readouterr().out.split())


def test_an_image_is_an_image_wherever_it_is_shown(tmp_path: Path) -> None:
    from snellen.reports.thumbnails import draw_thumbnail

    _, files = own_table(tmp_path)
    for data in files:
        assert draw_thumbnail(Image(BytesBlob("scan", data)), 32)[1] in ("image/png", "image/jpeg")
