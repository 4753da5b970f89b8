"""Words read from Python files of VLMEvalKit's shape, drawn here with texts and code of our own; nothing of it is run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.prompts import import_vlmevalkit, words
from snellen.benchmarks.spatial.prompts.import_vlmevalkit import RECIPES, Recipe, layout, read, templates
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.cli import main
from snellen.errors import DataError

CODE = '''
open({trap!r}, "w").close()
END = {end!r}

class Lamps:
    """A set."""
    PRE = {pre!r}

    def build_prompt(self, line):
        """Docs."""
        ask = {ask!r}
        if line["kind"] == "number":
            ask = {number!r}
        prompt = ""
        prompt += "Q: "
        prompt += {added!r}
        return [self.PRE, line["question"], ask, END, prompt]
'''
TEXTS = {"trap": "RUN", "end": "The end.", "pre": "Look.", "ask": "Say it.", "number": "One number.", "added": "Now!"}
RECIPE = Recipe(
    "lamps.py",
    "Lamps",
    {"text": "<PRE>\n{question}\n<ask>\n<END>", "number": "{question}\n<ask#2>[[{hint}<prompt+#2>]]"},
    (),
)


def written(folder: Path, **texts: str) -> Path:
    file = folder / "lamps.py"
    file.write_text(CODE.format(**{**TEXTS, "trap": str(folder / "RUN"), **texts}), encoding="utf-8")
    return file


def known(file: Path) -> Recipe:
    """The recipe with the layout of this file: the digest that the refusal names."""
    with pytest.raises(DataError) as refused:
        templates(file, RECIPE)
    return structs.replace(RECIPE, layouts=(refused.value.message.rpartition("(")[2].rstrip(")"),))


def test_texts_are_taken_from_the_function_the_class_and_the_file_and_nothing_runs(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert templates(file, known(file)) == {
        "text": "Look.\n{question}\nSay it.\nThe end.",
        "number": "{question}\nOne number.[[{hint}Now!]]",
    }
    assert not (tmp_path / "RUN").exists()


@given(st.sampled_from(["ask", "number", "pre", "end", "added"]), st.text(st.characters(exclude_categories=["Cs"])))
def test_other_words_are_imported_and_never_change_the_layout(tmp_path_factory, slot: str, text: str) -> None:
    folder = tmp_path_factory.mktemp("kit")
    recipe = known(written(folder))
    file = written(folder, **{slot: text})
    if any(mark in text for mark in ("[[", "{", "}")):
        return
    assert any(text in template for template in templates(file, recipe).values())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"Q: "', '"Question: "'),
        ('return [self.PRE, line["question"]', 'return [line["question"], self.PRE'),
        ('== "number"', '!= "number"'),
        ("def build_prompt(self, line)", "def build_prompt(self, line, more)"),
        ("ask = {number!r}", "ask = {number!r}\n            line = line"),
    ],
)
def test_a_prompt_that_is_put_together_in_another_way_is_refused(tmp_path: Path, old: str, new: str) -> None:
    file = written(tmp_path)
    recipe = known(file)
    assert old in CODE
    file.write_text(CODE.replace(old, new).format(**TEXTS), encoding="utf-8")
    with pytest.raises(DataError, match="laid out in a way that is not known"):
        templates(file, recipe)


@pytest.mark.parametrize("text", ["Give {letter}.", "[[maybe]]"])
def test_a_text_with_marks_of_our_templates_is_refused(tmp_path: Path, text: str) -> None:
    recipe = known(written(tmp_path))
    with pytest.raises(DataError, match="marks of our templates"):
        templates(written(tmp_path, ask=text), recipe)


@pytest.mark.parametrize(
    "code", ["class Lamps: pass", "def f(:", "\0", "class Lamps:\n    def build_prompt(self): pass"]
)
def test_files_without_the_prompt_are_said_to_lack_it(tmp_path: Path, code: str) -> None:
    (tmp_path / "lamps.py").write_text(code)
    with pytest.raises(DataError, match=r"lamps\.py"):
        templates(tmp_path / "lamps.py", RECIPE)


def test_comments_and_docstrings_are_no_layout() -> None:
    one, two = (
        ast.parse(f"def f(self):\n    {doc}\n    return 1  # {doc}\n").body[0] for doc in ('"""A."""', '"""Another."""')
    )
    assert isinstance(one, ast.FunctionDef) and isinstance(two, ast.FunctionDef)
    assert layout(one, set()) == layout(two, set())


def test_the_command_writes_a_file_that_asks_in_the_kits_words_and_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kit = tmp_path / "EASI" / "VLMEvalKit" / "vlmeval"
    (kit / "dataset").mkdir(parents=True)
    (kit / "__init__.py").write_text("__version__ = '9.8'\n")
    (kit / "dataset" / "image_mcq.py").write_text("")
    file = written(kit / "dataset", ask='Say\tit ``A``, "so".')
    monkeypatch.setattr(
        import_vlmevalkit, "RECIPES", {"embspatial": known(file), "blink": structs.replace(RECIPE, file="gone.py")}
    )
    out = tmp_path / "words.toml"
    command = ["prompts", "import", "--from", "vlmevalkit", "--out", str(out)]
    assert main([*command, "--path", str(tmp_path / "EASI")]) == 0
    said = capsys.readouterr()
    assert "prompts of VLMEvalKit 9.8 for embspatial, mmsi-video-bench" in said.out and "blink: gone.py" in said.err
    form, asked = words.words_for(TASKS["embspatial"], None, out)
    assert (form, asked.text) == ("vlmevalkit", 'Look.\n{question}\nSay\tit ``A``, "so".\nThe end.')
    assert words.whose_words(Data(options={"prompts": str(out)})) == "VLMEvalKit 9.8"
    assert words.whose_words(Data()) == "Snellen"
    assert main([*command, "--force"]) == 2 and "--path" in capsys.readouterr().err
    assert main([*command, "--force", "--path", str(tmp_path)]) == 3


def test_each_set_of_the_payload_has_a_recipe_for_each_of_its_templates() -> None:
    for name in TASKS:
        ours = words.default_words("vlmevalkit", name)
        recipes = [recipe for place, recipe in RECIPES.items() if place.partition(",")[0] == name]
        templates_of = {kind for recipe in recipes for kind in recipe.templates}
        needed = {kind for kind in words.TEMPLATES if getattr(ours, kind)}
        taken = name == "vsi-debiased" or name in import_vlmevalkit.IN_ROWS  # VSI-Bench's words, and those of its rows
        assert needed <= templates_of or taken, name


def test_a_folder_without_the_kit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="vlmeval/dataset"):
        read(tmp_path)
