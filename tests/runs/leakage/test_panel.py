"""The leakage panel on drawn sets: each planted leak is found with an interval, and clean sets are clean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from drawn_sets import WORDS, Observer, draw_set, drawn, measured, runs_of
from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.errors import DifferentSamplesError, UsageError
from snellen.reports.leakage_page import write_leakage_page
from snellen.runs.leakage.panel import FULL, LeakTest, Panel, chance_of, chosen_conditions, panel, static_tests
from snellen.runs.leakage.tables import lines
from snellen.runs.run import load_run
from snellen.sources.blobs import BytesBlob
from snellen.types import Image, IntervalMethod, Prompt, Sample, Text


def test_of(found: Panel, name: str) -> LeakTest:
    return next(test for test in found.tests if test.name == name)


test_of.__test__ = False  # type: ignore[attr-defined]


def first_line(text: str) -> str:
    return text.partition("\n")[0]


def found_with_interval(test: LeakTest) -> bool:
    """It was found, and chance lies below its interval."""
    assert test.share.ci95 is not None and test.share.chance is not None
    return test.found and test.share.ci95[0] > test.share.chance


def test_twenty_clean_sets_give_at_most_one_false_alarm(tmp_path):
    alarms = [seed for seed in range(20) if measured(draw_set(seed, questions=60), tmp_path / str(seed)).found]
    assert len(alarms) <= 1, alarms


def test_a_picture_that_a_third_of_the_questions_do_not_need_is_measured(tmp_path):
    benchmark = draw_set(3, questions=200)
    gold = {first_line(s.prompt.parts[1].text): s.options[s.target] for s in benchmark.samples(Data())}

    def remembered(text, words):
        return gold.get(first_line(text)) if drawn(first_line(text)) < 0.3 else None

    share = sum(drawn(question) < 0.3 for question in gold) / len(gold)
    found = measured(benchmark, tmp_path, lambda options: Observer(options, remembered))
    rows = {row.condition: row for row in found.rows}
    assert {test.name for test in found.found} == {"blind: text", "blind: grey", "blind: other"}
    assert found_with_interval(test_of(found, "blind: text"))
    explained = rows["text"].explained
    assert explained.ci95[0] <= share <= explained.ci95[1] and explained.ci95[0] > 0
    assert rows[FULL].score.value == 1.0 and rows["text"].paired.ci95[1] < 0
    assert rows["patches"].explained is None and rows["shuffle-1"].explained is None
    assert rows["options"].explained.ci95[0] <= 0.0 <= rows["options"].explained.ci95[1]  # the question was needed
    blind = {each.sample_id for each in found.blind}
    assert {s.id for s in benchmark.samples(Data()) if drawn(first_line(s.prompt.parts[1].text)) < 0.3} <= blind


def test_an_answer_in_the_file_name_is_a_leak_only_where_the_name_is_sent(tmp_path):
    def by_name(text, words):
        return next((word for word in words if f"_{word}." in text), None)

    name = "answer in the image's name"
    sent = measured(draw_set(5, "sent-name"), tmp_path / "sent", lambda options: Observer(options, by_name))
    assert found_with_interval(test_of(sent, name)) and found_with_interval(test_of(sent, "blind: text"))
    kept = measured(draw_set(5, "name"), tmp_path / "kept")
    assert not kept.found and not test_of(kept, name).reaches
    assert test_of(kept, name).p_adjusted < 0.001 and test_of(kept, name).note == "no prompt holds these names"
    assert name not in {test.name for test in static_tests(draw_set(5).samples(Data()))}


@pytest.mark.parametrize(
    ("name", "shown", "reaches"),
    [
        ("set/{word}/{at:03}.png", "Picture {at:03}.", False),  # the folder has the answer, and the prompt the number
        ("set/{word}.png", "Which?", False),  # the option has the name's very words
        ("set/{word}.png", "Picture {word}.png.", True),
        ("set/{at:03}_{word}.png", "Picture {at:03}_{word}.", True),
        ("set/{at:03}_{word}.png", "Picture {at:03}.", False),
        ("set/{word}/{at:03}.png", "Picture {word}/{at:03}.png.", True),  # with the folder that has the answer
        ("set/{word}/{at:03}.png", r"Picture C:\set\{word}\{at:03}.png.", True),
        ("set/{at:03} {word}.png", "Picture SET/{at:03}%20{word}.PNG.", True),
        ("set/{word}{at:03}.png", "Picture {word}{at:03}.png.", True),  # without a border between word and number
        ("set/My{title}.png", "Picture My{title}.png.", True),
        ("set/{at:03}_{letter}.png", "Picture {at:03}_{letter}.png.", True),  # the letter of the gold option
        ("set/{at:03}_{letter}.png", "Which?", False),
        ("/", "/", None),
    ],
)
def test_a_name_reaches_the_model_where_the_prompt_holds_the_part_that_gives_the_answer(name, shown, reaches):
    options = {"A": "cat", "B": "dog", "C": "owl", "D": "bee"}

    def sample(at):
        letter = "ABCD"[at % 4]
        words = {"word": options[letter], "title": options[letter].title(), "letter": letter, "at": at}
        listed = "\n".join(f"{mark}. {text}" for mark, text in options.items())
        parts = (Image(BytesBlob(name.format(**words), b"")), Text(f"{shown.format(**words)}\n{listed}"))
        return Sample(str(at), Prompt(parts), letter, "choice", options)

    made = [test for test in static_tests(map(sample, range(24))) if test.name == "answer in the image's name"]
    assert [test.reaches for test in made] == ([] if reaches is None else [reaches])
    assert all(test.share.value == 1.0 and test.p_value < 1e-9 for test in made)


def test_an_answer_in_an_id_is_found_and_ids_are_never_sent():
    samples = list(draw_set(6).samples(Data()))
    named = [
        Sample(f"{number}-{sample.options[sample.target]}", sample.prompt, sample.target, "choice", sample.options)
        for number, sample in enumerate(samples)
    ]
    test = next(test for test in static_tests(named) if test.name == "answer in the id")
    assert test.share.value == 1.0 and test.share.chance == pytest.approx(0.25) and not test.reaches


def test_names_of_open_questions_are_compared_with_other_gold_answers():
    prompt = Prompt((Text("What is it?"),))
    open_ones = [Sample(f"{at}-{WORDS[at % 8]}", prompt, WORDS[at % 8], "short") for at in range(24)]
    test = next(test for test in static_tests(open_ones) if test.name == "answer in the id")
    assert test.share.value == 1.0 and test.share.chance == pytest.approx(1 / 8)
    turned = [Sample(f"{at}-{WORDS[(at + 1) % 8]}", prompt, WORDS[at % 8], "short") for at in range(24)]
    test = next(test for test in static_tests(turned) if test.name == "answer in the id")
    assert test.share.value == 0.0 and test.p_value == pytest.approx(1.0)


def test_options_in_quotation_marks_and_several_accepted_letters_are_taken():
    options = {"A": "a 'red' car", "B": "the car of '68", "C": "'", "D": "two cars"}
    prompt = Prompt((Image(BytesBlob("cars", b"")), Text("Which?")))
    samples = [Sample(f"q{at}", prompt, ("A", "C"), "choice", options) for at in range(12)]
    assert not static_tests(samples)
    assert chance_of(samples[0]) == 0.5, "either letter is right"
    assert chance_of(Sample("q", prompt, "A", "choice", options)) == 0.25


def test_the_longest_option_and_the_gold_position_are_found_without_a_model():
    longest = panel(draw_set(7, "longest"), Data(), {})
    assert [test.name for test in longest.found] == ["longest option"]
    assert found_with_interval(longest.found[0]) and longest.found[0].note.startswith("gold by rank of length: 1. ")
    positions = panel(draw_set(7, "position"), Data(), {})
    assert [test.name for test in positions.found] == ["gold position"]
    assert found_with_interval(positions.found[0])


def test_yes_and_no_count_as_positions_and_one_question_of_a_cluster_counts():
    def truths(group):
        return [Sample(f"{at}", Prompt((Text("Is it?"),)), at % 5 > 0, "truth", group=group(at)) for at in range(100)]

    alone = next(test for test in static_tests(truths(lambda at: "")) if test.name == "gold position")
    assert alone.share.value == 0.8 and alone.share.chance == 0.5 and alone.p_value < 1e-8
    assert alone.note == "no 20%, yes 80%"
    assert not [test for test in static_tests(truths(lambda at: str(at // 20))) if test.name == "gold position"]


def test_a_model_that_prefers_a_position_is_found_and_its_recall_shows_it(tmp_path):
    found = measured(draw_set(8), tmp_path, lambda options: Observer(options, first=0.3))
    bias = test_of(found, "position bias")
    assert [test.name for test in found.found] == ["position bias"] and bias.about == "model"
    assert found_with_interval(bias) and bias.what == "replies that pick position A, over shuffled orders"
    first, *others = found.positions
    assert first.recall.value == 1.0 and all(row.recall.value < 0.9 for row in others)
    assert sum(row.chosen.value for row in found.positions) == pytest.approx(1.0)
    assert found.consistency.value < 0.5
    assert measured(draw_set(8), tmp_path / "sees").consistency.value == 1.0


def test_a_stopped_panel_goes_on_and_its_runs_are_ordinary_ones(tmp_path):
    asked = []

    class Stopping(Observer):
        async def answer(self, prompt):
            asked.append(prompt)
            if len(asked) == 30:
                raise SystemExit
            return await super().answer(prompt)

    benchmark = draw_set(9, questions=20)
    with pytest.raises(SystemExit):
        measured(benchmark, tmp_path, Stopping)
    found = measured(benchmark, tmp_path, Stopping)
    assert len(asked) <= 20 * 9 + 20 and len(found.rows) == 9  # none twice, but for those in flight at the stop
    shuffled = load_run(tmp_path / "shuffle-2", benchmark=benchmark)
    assert shuffled.meta.spec.control == "shuffle-2" and shuffled.meta.identity["control"] == "shuffle-2"
    assert [row.score.value for row in found.rows if row.condition == "shuffle-2"] == [
        shuffled.figures(None)["strict"][0].value
    ]


def test_questions_that_most_models_answer_blind_stand_first(tmp_path):
    benchmark = draw_set(10)
    hard = [s.id for s in benchmark.samples(Data())][:40]
    gold = {first_line(s.prompt.parts[1].text): s.options[s.target] for s in benchmark.samples(Data()) if s.id in hard}

    def remembered(text, words):
        return gold.get(first_line(text))

    for name in ("a", "b"):
        measured(benchmark, tmp_path / name, lambda options: Observer(options, remembered), conditions="text")
    others = [tmp_path / "a", tmp_path / "b" / "text"]
    found = measured(benchmark, tmp_path / "own", conditions="text", others=others)
    assert found.agreement.models == 3 and found.agreement.of == 80
    assert found.agreement.questions >= 40 > 2 * found.agreement.by_guessing
    counts = [each.models for each in found.blind]
    assert counts == sorted(counts, reverse=True)
    assert set(hard) <= {each.sample_id for each in found.blind if each.models >= 2}
    assert panel(benchmark, Data(), {}, others=others).agreement.models == 2
    # Two or three of three right, each with 1 in 4: 3/16 * 3/4 + 1/64.
    assert found.agreement.by_guessing == pytest.approx(80 * (3 * (1 / 16) * (3 / 4) + 1 / 64))


def test_other_runs_must_be_blind_and_about_the_same_questions(tmp_path):
    benchmark, other = draw_set(10, questions=20), draw_set(11, questions=20)
    measured(benchmark, tmp_path / "own", conditions="text")
    with pytest.raises(UsageError, match="was asked with its pictures"):
        panel(benchmark, Data(), {}, others=[tmp_path / "own" / "full"])
    measured(other, tmp_path / "other", conditions="text")
    with pytest.raises(DifferentSamplesError):
        measured(benchmark, tmp_path / "own", conditions="text", others=[tmp_path / "other"])


def test_the_page_shows_each_condition_as_it_was_sent_and_escapes_what_it_shows(tmp_path):
    benchmark = draw_set(12, questions=12)

    def hostile(data):
        for sample in benchmark.samples(data):
            prompt = Prompt((sample.prompt.parts[0], Text("<script>alert(1)</script> " + sample.prompt.parts[1].text)))
            yield Sample(sample.id, prompt, sample.target, sample.kind, sample.options)

    subject = replace(benchmark, samples=hostile)
    runs = runs_of(subject, tmp_path)
    page = write_leakage_page(panel(subject, Data(), runs), runs, tmp_path / "leakage.html").read_text()
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert page.count("picture as sent") >= 4 * 7 and "picture grey" in page and "options alone" in page
    assert page.count('data-label="accuracy"') == 9, "narrow screens show no headings, and each cell has its own"
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_benchmark_without_known_chance_says_so_and_tests_nothing_blind(tmp_path):
    samples = [Sample(f"{at}", Prompt((Text("What?"),)), f"answer {at}", "short") for at in range(12)]
    assert chance_of(samples[0]) is None and not static_tests(samples)
    multiple = Sample("m", Prompt((Text("Which?"),)), ("A",), "multi-choice", {"A": "x", "B": "y"})
    assert chance_of(multiple) == pytest.approx(1 / 3)
    for stated in (0.1, "0.1"):
        assert chance_of(Sample("s", Prompt((Text("What?"),)), "x", "short", meta={"chance": stated})) == 0.1


def test_no_leak_is_claimed_absent_where_no_test_was_made():
    open_ones = [Sample(f"{at}", Prompt((Text("What?"),)), f"answer {at}", "short") for at in range(12)]
    benchmark = replace(draw_set(1), samples=lambda data: iter(open_ones))
    (line,) = lines(panel(benchmark, Data(), {}))
    assert line.startswith("No test for leaks could be made")
    assert lines(panel(draw_set(1), Data(), {})) == ["No leak was found."]


@pytest.mark.parametrize(("named", "shuffles"), [("texts", 3), (None, 17), (None, -1)])
def test_an_unknown_condition_or_number_of_orders_is_refused(named, shuffles):
    with pytest.raises(UsageError):
        chosen_conditions(named, shuffles)


def test_the_full_condition_always_comes_first():
    assert chosen_conditions("grey, text", 3) == ["full", "text", "grey"]
    assert chosen_conditions("shuffle", 2) == ["full", "shuffle-1", "shuffle-2"]


def test_a_limit_bounds_the_questions_of_every_condition(tmp_path: Path):
    found = measured(draw_set(13), tmp_path, limit=15)
    assert {row.score.n for row in found.rows} == {15}


def test_tables_say_why_an_interval_is_absent_and_how_many_replies_a_share_is_of(tmp_path):
    from snellen.runs.leakage.tables import tables

    found = measured(draw_set(8), tmp_path)
    shown = tables(found, 10)
    positions = shown["Positions of the options, over shuffled orders"]
    assert f"chosen: of {found.positions[0].chosen.n:,} replies that name an option" in positions.notes
    assert found.consistency is not None and found.consistency.ci95 is not None
    bare = structs.replace(found, consistency=structs.replace(found.consistency, ci95=None))
    few = IntervalMethod("no interval: too few clusters")
    first = found.rows[0]
    bare = structs.replace(
        bare, rows=[structs.replace(first, score=structs.replace(first.score, ci95=None, interval=few))]
    )
    shown = tables(bare, 10)
    assert not any("[]" in note for each in shown.values() for note in each.notes)
    assert "no interval: too few clusters" in shown["Conditions"].notes
