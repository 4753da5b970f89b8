"""What the command says of a plug-in's mistakes: which sample, whether records are kept, and the words to type."""

from __future__ import annotations

import sys

import pytest

from snellen.cli import main

SHAPES = """
from snellen import Benchmark, Image, Prompt, Sample, Text
from snellen.scoring import accuracy, choice
from snellen.sources import open_tree

META = {"category": "round"}


def samples(data):
    for i in range(3):
        BEFORE
        yield Sample(f"s{i}", Prompt((Text("Round? A. yes B. no"),)), "A", "choice", {"A": "yes", "B": "no"}, meta=dict(META))


SHAPES = Benchmark(
    name="shapes", version="1", samples=samples, score={"strict": SCORER}, summarize=accuracy("category"),
    profiles={"strict": "x"},
)
"""


@pytest.fixture
def shapes(tmp_path, monkeypatch, capsys):
    """Write shapes.py with some words replaced, run the command, and return its status and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def call(*words, **changes):
        text = SHAPES
        for name, value in {"BEFORE": "pass", "SCORER": "choice", **changes}.items():
            text = text.replace(name, value) if name != "META" else text.replace('{"category": "round"}', value)
        (tmp_path / "shapes.py").write_text(text)
        sys.modules.pop("shapes", None)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        status = main([*(words or ("run", "shapes:SHAPES", "-m", "embedded", "--out", "run"))])
        return status, capsys.readouterr().err

    yield call
    sys.modules.pop("shapes", None)


@pytest.mark.parametrize(
    "raised", ["{}['x']", "assert i < COUNT", "raise ValueError('no')", "open('missing.png').read()"]
)
@pytest.mark.parametrize(("count", "place"), [(0, "before the first sample"), (2, "after sample 's1'")])
def test_an_exception_of_samples_is_placed_behind_the_sample_before_it(shapes, raised, count, place):
    before = raised.replace("COUNT", str(count))
    if "assert" not in raised:
        before = f"if i == {count}: {before}"
    status, err = shapes(BEFORE=before)
    assert status == 3 and place in err and "shapes.py:" in err
    assert "Fix it and run the same command again." in err and "records are kept" not in err


def test_a_missing_picture_is_placed_behind_the_sample_before_it(shapes, tmp_path):
    (tmp_path / "photos").mkdir()
    status, err = shapes(
        "run", "shapes:SHAPES", "-m", "embedded", "--images", "photos", "--out", "run",
        BEFORE="if i == 2: Image(open_tree(data.images).blob('wren.png'))",
    )  # fmt: skip
    assert status == 3 and "wren.png" in err and "shapes, after sample 's1'" in err


def test_records_are_promised_only_where_there_are_some_and_the_sample_of_a_scorers_exception_is_named(shapes):
    status, err = shapes(SCORER="lambda sample, reply: {}[sample.id]")
    assert status == 3 and "at the reply to sample 's" in err
    assert "run the same command again: all records are kept" in err
    status, err = shapes(BEFORE="if i == 1: {}['x']")
    assert status == 3 and "all records are kept" in err and "after sample 's0'" in err


def test_the_progress_line_of_a_scorers_mistake_is_one_line(shapes):
    status, err = shapes(SCORER="lambda sample, reply: 1.0")
    line = next(line for line in err.splitlines() if "cannot be scored" in line)
    assert status == 3 and "\\n" not in line and "returned 1.0" in line and line.count("PluginError") == 0


@pytest.mark.parametrize(
    ("meta", "texts"),
    [
        ("{}", ("no sample has 'category'", "Slice by one of these: kind.")),
        ("{'categry': 'x'}", ("no sample has 'category'", "categry, kind")),
        ("{'category': None}", ("no sample has 'category'",)),
        ("{'category': ['x']}", ("cannot slice by it", "sample 's0'", "a list", "one value per sample")),
    ],
)
@pytest.mark.parametrize("scorer", ["choice", "lambda sample, reply: choice(sample, reply)"])
def test_a_slice_without_a_field_is_refused_before_the_first_request(shapes, tmp_path, meta, texts, scorer):
    status, err = shapes(META=meta, SCORER=scorer)
    assert status == 3 and all(text in err for text in texts), err
    assert "No request was sent" in err and not (tmp_path / "run").exists()


def test_a_slice_by_a_field_that_comes_late_or_out_of_a_score_is_accepted(shapes):
    late = "META.clear(); META.update({'category': 'x'} if i == 2 else {})"
    assert shapes(BEFORE=late)[0] == 0
    words = ("run", "shapes:SHAPES", "-m", "embedded", "--out")
    detailed = "lambda sample, reply: __import__('snellen').Score(0.0, None, 'wrong', detail={'category': 'x'})"
    assert shapes(*words, "other", META="{}", SCORER=detailed)[0] == 0
    status, err = shapes(*words, "third", "--limit", "2", BEFORE=late)
    assert status == 3 and "none of the first 2 samples has 'category'" in err


def test_a_run_whose_gold_was_corrected_is_told_of_score_and_score_works(shapes):
    assert shapes()[0] == 0
    status, err = shapes(META="{'category': 'square'}")
    assert status == 5 and "snellen score run --trust" in err and "put it back" not in err and "--out run-2" in err
    assert shapes("score", "run", "--trust", META="{'category': 'square'}")[0] == 0
    status, err = shapes(META="{'category': 'square'}", BEFORE="data.options; i")
    assert "snellen score run --trust" in err


def test_a_run_whose_questions_changed_is_not_told_of_score(shapes, tmp_path):
    assert shapes()[0] == 0
    text = SHAPES.replace("Round?", "Is it round?").replace("BEFORE", "pass").replace("SCORER", "choice")
    (tmp_path / "shapes.py").write_text(text)
    status, err = shapes(**{"Round?": "Is it round?"})
    assert status == 5 and "snellen score" not in err


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("shapes:SHAPE", ("has no attribute 'SHAPE'", "shapes:SHAPES")),
        ("shapes:nothing_like_it", ("Benchmarks in it: shapes:SHAPES",)),
        ("shapes.py:SHAPES", ("is a file; the name of a module was expected", "snellen ... shapes:SHAPES")),
        ("no_such_module_at_all:X", ("Write it as package.module:ATTRIBUTE",)),
    ],
)
def test_a_name_near_a_benchmark_of_ones_own_is_answered_with_the_right_one(shapes, name, texts):
    status, err = shapes("run", name, "-m", "embedded", "--out", "run")
    assert status == 2 and all(text in err for text in texts), err


@pytest.mark.parametrize("name", ["shapes_here:SHAPES", "shapes_here.py:SHAPES"])
def test_a_module_in_the_current_folder_is_answered_with_pythonpath(tmp_path, monkeypatch, capsys, name):
    (tmp_path / "shapes_here.py").write_text("SHAPES = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", ".", str(tmp_path))])
    assert main(["run", name, "-m", "embedded"]) == 2
    assert "PYTHONPATH=. snellen ... shapes_here:SHAPES" in capsys.readouterr().err


def test_a_plug_in_of_a_wrong_type_does_not_end_the_other_runs(shapes, capsys):
    status, err = shapes(
        "run", "shapes:SHAPES", "chart/digits", "-m", "embedded", "--limit", "2", "-q", BEFORE="yield i"
    )
    assert status == 3 and "samples yielded 0" in err and "before the first sample" in err
    assert "chart-digits" in err or "Traceback" not in err


def test_runs_without_a_differing_score_are_said_to_have_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "220")
    for out in ("a", "b"):
        assert main(["run", "chart/digits", "-m", "embedded", "--limit", "3", "-q", "--out", out]) == 0
    capsys.readouterr()
    assert main(["compare", "a", "b", "--flips"]) == 0
    printed = capsys.readouterr()
    row = next(line for line in printed.out.splitlines() if " all " in line)
    assert "No sample differs in its score." in printed.out and "nothing" not in printed.out and " – " in row
    assert "no smallest detectable difference for all" in printed.err and "no score differs" in printed.err


def test_the_help_of_corruptions_names_the_units(capsys):
    assert main(["run", "--help", "media"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "salt-pepper:P (P per cent of the pixels)" in text
