"""FG-BMK's two ways of reading a reply, and what is made of the scores."""

from __future__ import annotations

import re

import pytest

from snellen.benchmarks import registry
from snellen.benchmarks.fgbmk import published_tables
from snellen.benchmarks.fgbmk.scorers import official, strict
from snellen.scoring.class_names import Names, aliases, tokens
from snellen.scoring.scores import ScoreBuilder, Scores
from snellen.types import Metric, Prompt, Sample, Text

ASKED = "Is the species of the aves laysan albatross? Answer with yes or no."
ALBATROSSES = ("baird sparrow", "sooty albatross", "laysan albatross", "black footed albatross")
LIST = ", ".join(f'"{one}"' for one in ALBATROSSES)
CHOOSE = f"Can you identify the species of this aves? Choose one answer from the following list: {LIST}."
NAME = "Can you identify the species of this aves from the image? Directly answer with species names."
CLASSES = (
    *ALBATROSSES, "american crow", "fish crow", "brewer blackbird", "chuck will widow", "artic tern", "herring gull",
    "frigatebird", "harris sparrow", "le conte sparrow", "forsters tern", "geococcyx", "gray catbird", "cardinal",
    "clay colored sparrow", "707-320", "737-800", "F-16A/B", "F/A-18", "Spitfire", "rose", "pink primrose",
)  # fmt: skip


def truth(gold: bool) -> Sample:
    return Sample("t", Prompt((Text(ASKED),)), gold, "truth", meta={"dataset": "cub"})


def choice(gold: str, options: tuple[str, ...] = ALBATROSSES, text: str = CHOOSE, **meta: object) -> Sample:
    lettered = dict(zip("ABCDEF", options, strict=False))
    return Sample("c", Prompt((Text(text),)), gold, "choice_text", lettered, meta={"dataset": "cub", **meta})


def short(gold: str) -> Sample:
    names = Names(CLASSES, aliases()["cub"] | aliases()["aircraft"])
    return Sample("s", Prompt((Text(NAME),)), gold, "short", meta={"dataset": "cub", "names": names})


@pytest.mark.parametrize(
    ("sample", "reply", "right"),
    [
        (truth(False), "I am not sure", True),
        (truth(False), "unknown", True),
        (truth(False), "cannot tell", True),
        (truth(False), "I do not know", True),
        (truth(False), "Yes, it is a Northern Fulmar", True),
        (truth(True), "No. The eyes are red", True),
        (truth(True), "not yes", True),
        (truth(True), "yes and no", True),
        (truth(False), "yes and no", True),
        (truth(True), "No", False),
        (choice("laysan albatross"), CHOOSE, True),
        (choice("laysan albatross"), "C", False),
        (choice("coat", ("coat", "peacoat")), "peacoat", True),
        (short("brewer blackbird"), "Brewer's Blackbird", False),
        (short("chuck will widow"), "Chuck-will's-widow", False),
        (short("artic tern"), "Arctic Tern", False),
        (short("707-320"), "Boeing 707 320", True),
        (short("707-320"), "Boeing 707_-,320", True),
        (short("707-320"), "707320", False),
        (short("707-320"), "707  320", False),
    ],
)
def test_the_official_rule_finds_the_truth_as_a_substring_faults_included(sample, reply, right):
    assert official(sample, reply).value == float(right)


@pytest.mark.parametrize(
    ("gold", "reply", "verdict"),
    [
        (True, "Yes", "correct"),
        (True, "yes.", "correct"),
        (False, "No, it has no dark back.", "correct"),
        (True, "<think>no ... no</think>Yes", "correct"),
        (True, ASKED + " Yes", "correct"),
        (False, "Yes, it is a Northern Fulmar", "wrong"),
        (True, "No. The eyes are red", "wrong"),
        (True, "yes and no", "invalid"),
        (False, "yes and no", "invalid"),
        (False, "I am not sure", "invalid"),
        (False, "unknown", "invalid"),
        (False, "cannot tell", "invalid"),
        (False, "I do not know", "invalid"),
        (True, "not yes", "invalid"),
        (True, ASKED, "invalid"),
        (False, ASKED.replace(" ", "\n"), "invalid"),
        (True, "Answer with yes or no.", "invalid"),
        (False, "", "invalid"),
    ],
)
def test_strict_takes_one_whole_word_yes_or_no(gold, reply, verdict):
    score = strict(truth(gold), reply)
    assert score.verdict == verdict
    assert score.value == float(verdict == "correct")


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("laysan albatross", "correct"),
        ("The bird is a Laysan  Albatross.", "correct"),
        (CHOOSE + " laysan albatross", "correct"),
        ("C. laysan albatross", "correct"),
        ("Not a sooty albatross: it is a Laysan albatross.", "correct"),
        ("Baird's Sparrow", "wrong"),
        (CHOOSE, "invalid"),
        (LIST, "invalid"),
        ("C", "invalid"),
        ("(C)", "invalid"),
        ("the third option", "invalid"),
        ("either laysan albatross or sooty albatross", "invalid"),
        ("albatross", "invalid"),
        ("crow", "invalid"),
    ],
)
def test_strict_takes_one_option_by_its_text_and_no_letter(reply, verdict):
    assert strict(choice("laysan albatross"), reply).verdict == verdict


def test_letters_count_where_the_question_shows_them():
    lettered = Sample("c", Prompt((Text("Which? A. coat B. peacoat"),)), "B", "choice", {"A": "coat", "B": "peacoat"})
    assert strict(lettered, "B").verdict == "correct"
    assert strict(lettered, "A").verdict == "wrong"


@pytest.mark.parametrize(
    ("options", "gold", "reply", "answer"),
    [
        (("coat", "peacoat"), "coat", "peacoat", "peacoat"),
        (("rose", "pink primrose"), "rose", "It is a pink primrose.", "pink primrose"),
        (("mallow", "tree mallow"), "mallow", "It is a tree mallow.", "tree mallow"),
        (("B-2", "B-29"), "B-2", "B-29", "B-29"),
        (("B-2", "A-10"), "A-10", "The aircraft is an A-10 Thunderbolt", "A-10"),
        (("B-2", "A-10"), "B-2", "A", None),
        (("B-2", "B-29"), "B-2", "B", None),
        (("aves", "insecta"), "aves", "This is a bird.", "aves"),
        (("none", "animalia"), "animalia", "none", "none"),
    ],
)
def test_the_longest_option_is_the_one_that_is_named(options, gold, reply, answer):
    score = strict(choice(gold, options, "Which of these?"), reply)
    assert score.extracted == answer
    assert score.value == float(answer == gold)


AIRCRAFT = ("T-6", "B-52", "C-135", "F-15")


@pytest.mark.parametrize("gold", AIRCRAFT)
@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("The answer is {gold}.", "correct"),
        ("d) {gold}", "correct"),
        ("<think>{other}?</think> {gold}", "correct"),
        ("It is not {other}, it is {gold}.", "correct"),
        ("It's a {gold}, not a {other}.", "correct"),
        ("Two {gold}s", "correct"),
        ("\\boxed{{{gold}}}", "correct"),
        ("It is not {gold}, it is {other}.", "wrong"),
        ("The answer is {other}.", "wrong"),
        ("Both {gold} and {other}", "invalid"),
        ("{other} or {gold}", "invalid"),
        ("It is not a {gold}.", "invalid"),
        ("The answer is A-10.", "invalid"),
    ],
)
def test_a_name_that_looks_like_an_options_letter_is_read_as_a_name(gold, reply, verdict):
    for other in set(AIRCRAFT) - {gold}:
        score = strict(choice(gold, AIRCRAFT, "Which of these?"), reply.format(gold=gold, other=other))
        assert score.verdict == verdict, (other, score)


def test_a_short_answer_that_lists_several_classes_gives_none():
    question = Prompt((Text("What is the species of the bird?"),))
    names = Names(["rook", "fish crow", "common raven"], {"raven": "common raven"})
    sample = Sample("s", question, "rook", "short", meta={"names": names})
    for reply in ("rook, fish crow", "Rook; raven", "rooks\nfish crows", "Either rook or raven."):
        assert strict(sample, reply).verdict == "invalid", reply
    for reply in ("rook, not fish crow", "rook, a corvid", "rook, rook"):
        assert strict(sample, reply).verdict == "correct", reply


@pytest.mark.parametrize(
    ("gold", "reply", "verdict"),
    [
        ("brewer blackbird", "Brewer's Blackbird", "correct"),
        ("chuck will widow", "Chuck-will's-widow", "correct"),
        ("artic tern", "The species is Arctic Tern (Sterna paradisaea).", "correct"),
        ("herring gull", "European Herring Gull", "correct"),
        ("cardinal", "Northern Cardinals", "correct"),
        ("frigatebird", "Magnificent Frigate Bird", "correct"),
        ("harris sparrow", "Harris's Sparrow", "correct"),
        ("le conte sparrow", "LeConte's Sparrow", "correct"),
        ("forsters tern", "Forster\u2019s Tern", "correct"),
        ("geococcyx", "Greater Roadrunner", "correct"),
        ("gray catbird", "Grey Catbirds", "correct"),
        ("clay colored sparrow", "Clay-coloured Sparrow", "correct"),
        ("american crow", "It is an American Crow, not a fish crow.", "correct"),
        ("707-320", "707320", "correct"),
        ("737-800", "Boeing 737-800", "correct"),
        ("F-16A/B", "F-16", "correct"),
        ("F/A-18", "F/A-18 Hornet", "correct"),
        ("737-800", "737", "wrong"),
        ("american crow", "crow", "wrong"),
        ("rose", "pink primrose", "wrong"),
        ("american crow", "American crow or fish crow", "invalid"),
        ("american crow", "I don't know", "invalid"),
        ("american crow", NAME, "invalid"),
    ],
)
def test_strict_reads_short_answers_by_whole_words_and_aliases(gold, reply, verdict):
    assert strict(short(gold), reply).verdict == verdict


def test_aliases_of_a_sample_are_accepted_too():
    one = Sample("s", Prompt((Text(NAME),)), "aves", "short", meta={"aliases": ("bird",)})
    assert strict(one, "A bird.").verdict == "correct"


def test_names_are_compared_without_signs_plural_and_spelling():
    assert tokens("Chuck-will\u2019s-widows") == ("chuck", "will", "widow")
    assert tokens("F/A-18") == ("f", "a", "18")
    names = Names(["gull", "herring gull", "none"], {"sea gull": "gull", "seal": "mammal"})
    assert names.named("a herring gull beside a seagull, and a seal") == ["herring gull", "gull"]


@pytest.mark.parametrize("score", [official, strict])
def test_a_wrong_answer_is_told_with_its_kinship(score):
    paths = {name: f"aves > {name.split()[-1]} > {name}" for name in ALBATROSSES}
    one = choice("laysan albatross", path=paths["laysan albatross"], paths=paths)
    assert score(one, "sooty albatross").detail == {"answer": "sooty albatross", "kinship": "sibling"}
    assert score(one, "Baird sparrow").detail == {"answer": "baird sparrow", "kinship": "cousin"}
    assert score(one, "laysan albatross").detail == {"answer": "laysan albatross"}


def bias(replies: tuple[str, str], profile: str = "official", images: int = 6) -> dict[str, Metric]:
    """Knowledge-bias questions, all answered alike by their gold answer: (reply to yes, reply to no)."""
    benchmark = registry.find("fgbmk/aircraft/bias")
    return {one.name: one for one in benchmark.summarize(table(replies, profile, images), profile)}


def table(replies: tuple[str, str], profile: str, images: int) -> Scores:
    benchmark = registry.find("fgbmk/aircraft/bias")
    builder = ScoreBuilder()
    for image in range(images):
        for gold, reply in zip((True, False), replies, strict=True):
            meta = {
                "task": "aircraft/bias", "dataset": "aircraft", "level": "species", "depth": "0", "ask": "bias",
                "stem": "1", "chance": 0.5, "target": "yes" if gold else "no", "label": f"c{image % 3}", "asked": "c0",
            }  # fmt: skip
            text = "Is the fine-grained category of the aircraft A380? Answer with yes or no."
            one = Sample(f"{image}/{gold}", Prompt((Text(text),)), gold, "truth", group=f"a/{image}", meta=meta)
            builder.add(one, benchmark.score[profile](one, reply))
    return builder.build()


def test_a_constant_answer_gets_half_of_the_questions_and_no_image():
    found = bias(("no", "no"))
    assert (found["accuracy"].value, found["accuracy"].n) == (0.5, 12)
    assert (found["image_accuracy"].value, found["image_accuracy"].n) == (0.0, 6)
    assert (found["accuracy"].chance, found["image_accuracy"].chance) == (0.5, 0.25)
    assert found["balanced_accuracy"].value == pytest.approx(0.5)
    assert found["majority"].value == 0.5
    assert found["class_worst/bias/species/truth"].value == 0.5
    assert found["invalid"].value == 0.0


def test_yes_and_no_is_right_everywhere_officially_and_nowhere_strictly():
    loose, careful = bias(("yes and no",) * 2), bias(("yes and no",) * 2, "strict")
    assert loose["image_accuracy"].value == 1.0
    assert (careful["accuracy"].value, careful["invalid"].value) == (0.0, 1.0)


def test_the_authors_figure_stands_first_officially_and_accuracy_strictly():
    assert next(iter(bias(("yes", "no")))) == "image_accuracy"
    assert next(iter(bias(("yes", "no"), "strict"))) == "accuracy"


def test_published_figures_are_set_beside_the_metrics_that_they_are_comparable_with():
    whole = registry.find("fgbmk").published
    assert next(table.title for table in whole) == "FG-BMK, finest level"
    assert all(table.notes for table in whole)
    species = registry.find("fgbmk/cub/species/choice").published
    assert species[0].metrics == ("image_accuracy",)
    assert {row.name: row.values for row in species[0].rows}["InternVL3-7B"] == (0.6118,)
    assert any("60.15" in note for note in species[0].notes)
    assert not any("Dogs" in note for note in species[0].notes)
    (bias_table,) = registry.find("fgbmk/aircraft/bias").published
    worst_to_perfect = tuple(f"class_{name}/bias/species/truth" for name in ("worst", "best", "gap", "std", "perfect"))
    assert bias_table.metrics[:6] == ("accuracy", *worst_to_perfect)
    assert bias_table.numbers == bias_table.metrics[3:]
    (tailored,) = registry.find("fgbmk/stanfordcar/species/short").published
    assert tailored.title == "FG-BMK, short answers of a fine-tuned model, and tailored methods"
    assert registry.find("fgbmk/stanfordcar/species/truth").published == ()


def test_every_published_column_is_of_a_member_that_exists():
    known = [name.removeprefix("fgbmk/") for name in registry.names() if name.startswith("fgbmk/")]
    for one in registry.find("fgbmk").published:
        for metric in one.metrics:
            own = re.sub(r"/(class_\w+)/bias/", r"/bias/\1/", metric)
            assert sum(own.startswith(f"{name}/") for name in known) == 1, metric


@pytest.mark.parametrize(("edges", "fits"), [((0, 60, 70, 80, 90, 100), True), ((0, 20, 40, 60, 80, 100), False)])
def test_the_pages_histograms_fit_its_own_worst_classes_and_means_with_these_bins_alone(edges, fits):
    tables = [table for table in published_tables() if "knowledge bias" in table.title and "classes" in table.columns]
    rows = [(row, dict(zip(table.columns, row.values, strict=True))) for table in tables for row in table.rows]
    assert len(rows) == 18
    fitting = 0
    for row, by_name in rows:
        shares = [by_name[f"histogram {number}"] / by_name["classes"] for number in range(1, 6)]
        assert sum(shares) == pytest.approx(1), row.name
        lowest = next(place for place, share in enumerate(shares) if share)
        least = max(edges[lowest], 100 * by_name["worst class"])
        low = sum(share * max(least, edge) for share, edge in zip(shares, edges, strict=False))
        high = sum(share * edge for share, edge in zip(shares, edges[1:], strict=True))
        worst_fits = edges[lowest] <= 100 * by_name["worst class"] < edges[lowest + 1]
        fitting += worst_fits and low - 1 <= 100 * by_name["overall"] <= high + 1
    assert fitting == (18 if fits else 0)
