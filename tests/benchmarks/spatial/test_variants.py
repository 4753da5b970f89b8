"""Variants of the payload's sets have names of their own: their tables, words, figures and keys are taken for no other's."""

from __future__ import annotations

import csv
import io
import zipfile
from functools import partial
from pathlib import Path

import pytest

from benchmarks.spatial import kit_drawn, more_drawn, official_drawn
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.prompts import import_vlmevalkit
from snellen.benchmarks.spatial.prompts.words import default_words, words_for
from snellen.benchmarks.spatial.scorers import corecognition
from snellen.benchmarks.spatial.tasks import EVERY
from snellen.benchmarks.table.declaration import declaration
from snellen.easi.names import chosen
from snellen.errors import DataError, SnellenError, UsageError
from snellen.scoring.scores import ScoreBuilder
from snellen.types import Text
from stopwatch import cpu_times


def figures(name: str, path: Path, replies: dict[str, str], profile: str = "easi") -> dict[str, float | None]:
    benchmark, builder = registry.find(name), ScoreBuilder()
    for sample in benchmark.samples(Data(path=path)):
        reply = replies.get(sample.id, str(sample.meta["gold"]))
        builder.add(sample, benchmark.score[profile](sample, reply))
    return {metric.name: metric.value for metric in benchmark.summarize(builder.build(), profile)}


def test_the_whole_mindcube_is_not_taken_for_the_tiny_one(tmp_path: Path) -> None:
    kit = more_drawn.draw("mindcube-full", tmp_path, kit=True).path / "MindCubeBench_raw_qa.tsv"
    with pytest.raises(DataError, match="holds the questions of mindcube-full; those of mindcube-tiny were expected"):
        list(registry.find("mindcube-tiny").samples(Data(path=kit)))
    official = official_drawn.draw("mindcube-tiny", tmp_path)
    for name, file, other in (
        ("mindcube-tiny", "MindCube_raw_qa.jsonl", "mindcube-full"),
        ("mindcube-full", "MindCube_tinybench_raw_qa.jsonl", "mindcube-tiny"),
    ):
        with pytest.raises(DataError, match=f"holds the questions of {other}; those of {name} were expected"):
            list(registry.find(name).samples(Data(path=official / file)))
    assert sum(1 for _ in registry.find("mindcube-full").samples(Data(path=official))) == 5
    assert sum(1 for _ in registry.find("mindcube-tiny").samples(Data(path=official))) == 4
    # Of three questions, one a kind, the one about a rotation is answered wrong.
    values = figures("mindcube-full", kit, {"2": "A"})
    assert values["overall"] == pytest.approx(2 / 3) and values["rotation_accuracy"] == 0.0


def test_rotations_count_as_one_question_that_is_right_where_all_of_them_are(tmp_path: Path) -> None:
    path = more_drawn.draw("blink-circular", tmp_path, kit=True).path
    right = figures("blink-circular", path, {})
    assert (right["overall"], right["Counting_accuracy"], right["Jigsaw_accuracy"]) == (1.0, 1.0, 1.0)
    # One of the four rotations of the second question is wrong, so that one of two questions is right.
    one = figures("blink-circular", path, {"2000001": "B"})
    assert (one["overall"], one["Counting_accuracy"], one["Jigsaw_accuracy"]) == (0.5, 1.0, 0.0)
    renamed = (path / "BLINK_circular.tsv").rename(path / "mine.tsv")
    assert figures("blink-circular", renamed, {"1": "B"})["overall"] == 0.5
    with pytest.raises(DataError, match="holds the questions of blink-circular; those of blink were expected"):
        list(registry.find("blink").samples(Data(path=renamed.rename(path / "BLINK_circular.tsv"))))


def test_figures_of_the_tiny_spar_bench_are_those_of_the_whole_one(tmp_path: Path) -> None:
    path = more_drawn.draw("spar-bench-tiny", tmp_path, kit=True).path
    values = figures("spar-bench-tiny", path, {"0": "9"})
    whole = kit_drawn.draw("spar-bench", tmp_path)
    assert set(values) == {
        name.removesuffix("_accuracy").removesuffix("_vci_metric") for name in figures("spar-bench", whole, {})
    }
    assert None not in values.values() and values["overall"] == pytest.approx(19 / 20)
    benchmark, builder = registry.find("spar-bench-tiny"), ScoreBuilder()
    for sample in benchmark.samples(Data(path=path)):
        builder.add(sample, benchmark.score["easi"](sample, str(sample.meta["gold"])))
    found = {metric.name: metric for metric in benchmark.summarize(builder.build(), "easi")}
    assert all(metric.n > 0 for metric in found.values()) and found["position_matching"].n == 1


OMNI = {
    "omnispatial-direct": "{question}\n{options} The letter.",
    "omnispatial-default": "As it is.\n{question}\n{options}",
    "omnispatial-zeroshot-cot": "Think.\n{question}\n{options}",
}


def test_each_prompt_of_omnispatial_takes_its_own_words_and_never_the_manual_ones(tmp_path: Path) -> None:
    file = tmp_path / "words.toml"
    manual = '[omnispatial]\ntext = "Guided.\\n{question}\\n{options}"\n'
    file.write_text(f'prompting = "vlmevalkit"\n{manual}', encoding="utf-8")
    for name in OMNI:
        with pytest.raises(DataError, match=f"it has no words for {name}; it has omnispatial"):
            words_for(EVERY[name], None, file)
    tables = "".join(f"[{name}]\ntext = {text!r}\n".replace("'", '"') for name, text in OMNI.items())
    file.write_text(f'prompting = "vlmevalkit"\n{manual}{tables}', encoding="utf-8")
    for name, text in OMNI.items():
        assert words_for(EVERY[name], None, file)[1].text == text
        assert default_words("vlmevalkit", name).text != default_words("vlmevalkit", "omnispatial").text
        assert name in import_vlmevalkit.RECIPES and list(registry.find(name).score) == ["easi", "vlmevalkit", "strict"]
    assert words_for(EVERY["omnispatial"], None, file)[1].text == "Guided.\n{question}\n{options}"


def test_a_set_that_is_asked_in_the_words_of_another_takes_them_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "words.toml"
    file.write_text('prompting = "vlmevalkit"\n[mindcube-tiny]\ntext = "Go. {input_prompt}"\n', encoding="utf-8")
    assert words_for(EVERY["mindcube-full"], None, file)[1].text == "Go. {input_prompt}"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("SparBench_tiny", "spar-bench-tiny"),
        ("sparbench_tiny", "spar-bench-tiny"),
        ("MindCubeBench_raw_qa", "mindcube-full"),
        ("mindcube_full", "mindcube-full"),
        ("OmniSpatialBench", "omnispatial-direct"),
        ("OmniSpatialBench_default", "omnispatial-default"),
        ("OmniSpatialBench_zeroshot_cot", "omnispatial-zeroshot-cot"),
        ("OmniSpatialBench_manual_cot", "omnispatial"),
        ("BLINK_circular", "blink-circular"),
    ],
)
def test_the_names_that_the_harnesses_have_for_a_set_name_it(key: str, name: str) -> None:
    assert chosen(key) == (name,)


@pytest.mark.parametrize(
    "key", ["StareBench_CoT", "LEGO_circular", "CV-Bench-2D", "SiteBenchImage", "VsiSuperRecall_10mins"]
)
def test_a_harnesss_name_of_another_form_or_of_a_part_names_no_whole_set(key: str) -> None:
    with pytest.raises(UsageError, match=f"'{key}' is not known"):
        chosen(key)


def test_a_section_that_is_left_out_of_another_set_must_be_there() -> None:
    with pytest.raises(DataError, match="omit has 'fourm', and blink has no such section"):
        declaration({"name": "mine", "like": "blink", "omit": ["fourm"]}, "mine.toml")


@pytest.mark.parametrize(
    ("reply", "answer_type", "option"),
    [
        ("B", "MC", "B"),
        ("b. a dog", "MC", "B"),
        ("I think so.\n**B** it is", "MC", "B"),
        ("So D is the correct answer", "MC", "D"),
        ("The answer is: C", "MC", "C"),
        ("answer yes", "MC", None),
        ("No", "TF", "NO"),
        ("The answer is no.", "TF", "NO"),
        ("B it is", "TF", None),
        ("Thought.**\n\nA, since it stays", "MC", "A"),
        ("\\[ \\boxed{D} \\]", "MC", "D"),
        ("", "TF", None),
    ],
)
def test_corecognition_is_read_by_templates_of_an_answer(reply: str, answer_type: str, option: str | None) -> None:
    assert corecognition.letter(reply, "Q", answer_type) == option


def test_figures_of_corecognition_by_concept_and_stage(tmp_path: Path) -> None:
    path = more_drawn.draw("corecognition", tmp_path, kit=False).path
    values = figures("corecognition", path, {"a1": "Yes, it is.", "a3": "It is no use"}, "lmms-eval")
    # Of four the second is wrong, and the fourth names nothing.
    assert (values["overall"], values["Permanence_accuracy"], values["Tool Use_accuracy"]) == (0.5, 0.5, 1.0)
    assert values["Stage Sensorimotor_accuracy"] == 0.5 and values["Boundary_accuracy"] == 0.0
    asked = Data(path=path, options={"subset": "stage formal operational"})
    assert [sample.id for sample in registry.find("corecognition").samples(asked)] == ["a2"]


def test_the_name_of_an_image_that_does_not_end_takes_time_in_proportion_to_its_length(tmp_path: Path) -> None:
    def read(blanks: int) -> None:
        question = f"<image-placeholder: {' ' * blanks}"
        folder = tmp_path / str(blanks)
        folder.mkdir(exist_ok=True)
        with (folder / "CoreCognition.csv").open("w", newline="") as file:
            csv.writer(file).writerows(
                [
                    ("id", "type", "question", "images", "videos", "answer", "choices"),
                    ("a", "TF", question, "", "", "YES", ""),
                ]
            )
        list(registry.find("corecognition").samples(Data(path=folder)))

    assert min(cpu_times(partial(read, 16_000))) < 30 * max(cpu_times(partial(read, 1_600)))


def test_corecognition_is_read_from_the_authors_archive_with_its_clips_at_their_places(tmp_path: Path) -> None:
    rows = [
        (
            "a1",
            "MC",
            "<image-placeholder: p1.png>\nWhich is it?",
            "p1.png",
            "",
            "B",
            "{'A': 'a cup', 'B': '3', 'C': nan}",
        ),
        ("a2", "TF", "<image-placeholder: p2.png> then <video-placeholder: c1.mp4>: still there?", "", "", "NO", ""),
        ("a3", "MC", "Which of A. a cup B. a dog?", "p1.png; p2.png", "", "A", "{'A': 'a cup', 'B': 'a dog'}"),
        ("a4", "TF", "<video-placeholder: c1.mp4>Is it there?", "", "c1.mp4", "YES", "{'A': nan}"),
        ("a5", "MC", "Which?", "gone.png", "", "A", "{'A': 'x', 'B': 'y'}"),
    ]
    table = io.StringIO()
    csv.writer(table).writerows([("id", "type", "question", "images", "videos", "answer", "choices"), *rows])
    folder = "CoreCognition_20250622"
    media = {f"{folder}/media/p{at}.png": official_drawn.picture(at) for at in (1, 2)}
    official_drawn.packed(
        path := tmp_path / f"{folder}.zip",
        {f"{folder}/CoreCognition.csv": table.getvalue().encode(), f"{folder}/media/c1.mp4": b"a clip", **media},
    )
    samples = {one.id: one for one in registry.find("corecognition").samples(Data(path=path))}
    shown = {
        name: [part.text if isinstance(part, Text) else type(part).__name__ for part in one.prompt.parts]
        for name, one in samples.items()
    }
    assert shown == {
        "a1": ["Image", "Which is it?\nA. a cup\nB. 3"],
        "a2": ["Image", "then", "Video", ": still there?"],
        "a3": ["Image", "Image", "Which of A. a cup B. a dog?"],
        "a4": ["Video", "Is it there?"],
        "a5": ["Image", "Which?\nA. x\nB. y"],
    }
    assert (samples["a1"].target, samples["a2"].target, samples["a4"].target) == ("B", False, True)
    assert samples["a1"].options == {"A": "a cup", "B": "3"}
    with pytest.raises(DataError, match=r"gone\.png"):
        samples["a5"].prompt.parts[0].blob.read()
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    again = registry.find("corecognition").samples(Data(path=tmp_path / "unpacked"))
    assert [one.id for one in again] == list(samples)


def test_a_set_that_vlmevalkit_has_no_table_of_names_none_in_its_messages(tmp_path: Path) -> None:
    wrong = tmp_path / "answers.docx"
    wrong.write_text("")
    for path in (None, wrong, tmp_path):
        with pytest.raises(SnellenError) as raised:
            next(iter(registry.find("corecognition").samples(Data(path=path))))
        text = f"{raised.value.message} {raised.value.hint}"
        assert "table of ." not in text and ", .tsv was" not in text and "VLMEvalKit's table" not in text
