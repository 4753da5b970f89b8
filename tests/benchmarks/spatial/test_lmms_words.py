"""Words of lmms-eval read from a package that has its shape, drawn here with texts of our own; nothing of it is run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import prompts
from snellen.benchmarks.spatial.prompts import import_lmms_eval
from snellen.benchmarks.spatial.prompts import words as wordings
from snellen.benchmarks.spatial.question import SpatialQuestion
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.cli import main
from snellen.errors import DataError
from snellen.sources import BytesBlob
from snellen.types import Generation, Text

ODD = 'Say "it" \\ once.\t{question}\x7f é 字\n'
BASE = """
dataset_path: somebody/some-set
process_docs: !function utils.process_docs
generation_kwargs: {max_new_tokens: 77, temperature: 0.5, until: ["\\n\\n"]}
metric_list:
  - metric: overall
    aggregation: !function utils.aggregate
lmms_eval_specific_kwargs:
  default: {pre_prompt: "base pre", mca_post_prompt: "base mca", na_post_prompt: "base na"}
"""
FILES = {
    "vsibench/_default_template_yaml": BASE,
    "vsibench/many/frames.yaml": """# a comment
dataset_name: full
task: "vsibench_multiimage"
include: ../_default_template_yaml
doc_to_visual: !function utils.frames
lmms_eval_specific_kwargs:
  default: {pre_prompt: "These frames.", mca_post_prompt: "One letter.", na_post_prompt: "One phrase.", num_frames: 16}
  gpt4v: {pre_prompt: "", mca_post_prompt: "One letter!", na_post_prompt: "A number!"}
  neo_ov: {pre_prompt: "x", prompt_format: neo_ov}
""",
    "vsibench/plain.yaml": "task: vsibench\ninclude: _default_template_yaml\n",
    "mmsi/mmsi.yaml": 'task: mmsi_bench\nlmms_eval_specific_kwargs: {default: {pre_prompt: "", post_prompt: "\\nIn ``."}}\n',
    "blink/_t": 'generation_kwargs:\n  max_new_tokens: 9\nlmms_eval_specific_kwargs:\n  default:\n    pre_prompt: "Only {}.\\n"\n',
    "blink/counting.yaml": 'tag: "blink_groups"\ntask: "blink_counting"\ninclude: _t',
    "site/image.yaml": 'task: "site_bench_image"\nlmms_eval_specific_kwargs: {default: {post_prompt: "Letter:"}}\n',
    "site/video.yaml": 'task: site_bench_video_multiimage\nlmms_eval_specific_kwargs: {default: {post_prompt: "By film:"}}\n',
    "spar/spar.yaml": 'task: sparbench\nlmms_eval_specific_kwargs: {pre_prompt: "flat", na_post_prompt: "One."}\n',
    "view/view.yaml": "task: viewspatial\ngeneration_kwargs:\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of lmms-eval's shape, which says so if any of its code is run."""
    root = tmp_path / "site" / "lmms_eval"
    for name, text in FILES.items():
        path = root / "tasks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    trap = f"open({str(tmp_path / 'RUN')!r}, 'w').close()\n"
    for folder in (root, root / "tasks", root / "tasks" / "vsibench"):
        (folder / "__init__.py").write_text(trap)
        (folder / "utils.py").write_text(trap)
    info = root.parent / "lmms_eval-9.8.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lmms-eval\nVersion: 9.8.7\n")
    return root


def text_of(name: str, file: Path, kind: str = "choice") -> str:
    how = prompts.prompt_settings(Data(options={"prompts": str(file)}), TASKS[name])
    row = SpatialQuestion("q", "Where?", "A", kind, {"A": "left", "B": "right"} if kind == "choice" else {})
    made = prompts.compose(how, TASKS[name], row, prompts.ShownMedia((BytesBlob("p", b""),)))
    (text,) = [part.text for part in made.parts if isinstance(part, Text)]
    return text


def test_texts_and_limits_of_task_files_take_the_place_of_ours(package: Path, tmp_path: Path) -> None:
    found = import_lmms_eval.read(package)
    file = tmp_path / "words.toml"
    file.write_text(import_lmms_eval.toml(found), encoding="utf-8")
    assert text_of("vsi-bench", file) == "These frames.\nWhere?\nOptions:\nA. left\nB. right\nOne letter."
    assert text_of("vsi-bench", file, "number") == "These frames.\nWhere?\nOne phrase."
    assert text_of("blink", file) == "Only A, B.\nWhere?\n(A) left\n(B) right"
    assert text_of("mmsi-bench", file) == "Where?\nOptions: A: left, B: right\nIn ``."
    assert text_of("site", file).endswith("\nLetter:")
    assert text_of("spar-bench", file, "number") == "flat\nWhere?\nOne."
    assert found.words["site"].post_video == "By film:"
    assert found.source == "lmms-eval 9.8.7"
    how = prompts.prompt_settings(Data(options={"prompts": str(file)}), TASKS["vsi-bench"])
    made = prompts.compose(how, TASKS["vsi-bench"], SpatialQuestion("q", "x", "A", "choice"), prompts.ShownMedia())
    assert made.generation == Generation(max_tokens=77, temperature=0.5)


def test_what_is_not_in_the_files_stays_ours_and_is_named(package: Path) -> None:
    found = import_lmms_eval.read(package)
    assert found.words["viewspatial"] == wordings.default_words("lmms-eval", "viewspatial")
    said = "\n".join(found.remarks)
    assert "viewspatial: our words remain for all of it" in said
    assert "no task omnispatial_test here; the file has no words for it" in said
    assert "it shows 16 frames; add --sample-frames 16" in said
    assert set(found.missing) == TASKS.keys() - found.words.keys()


def test_nothing_of_the_package_is_run(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(package.parent))
    found = import_lmms_eval.read()
    assert found.source == "lmms-eval 9.8.7"
    assert found.words == import_lmms_eval.read(package).words
    assert "lmms_eval" not in sys.modules
    assert not (tmp_path / "RUN").exists()


def test_the_folder_may_be_that_of_the_package_of_its_tasks_or_around_it(package: Path) -> None:
    for path in (package, package / "tasks", package.parent):
        assert import_lmms_eval.read(path).words["mmsi-bench"].post == "\nIn ``."


def test_a_models_own_settings_are_taken_where_a_task_has_them(package: Path) -> None:
    found = import_lmms_eval.read(package, "gpt4v")
    assert found.words["vsi-bench"].post_number == "A number!"
    assert found.words["vsi-bench"].pre == wordings.default_words("lmms-eval", "vsi-bench").pre
    assert found.words["site"].post == "Letter:"
    with pytest.raises(DataError, match="no task has settings for 'gtp4v'"):
        import_lmms_eval.read(package, "gtp4v")


def test_the_labelled_form_is_imported_with_its_own_texts_and_another_layout_is_refused(
    package: Path, tmp_path: Path
) -> None:
    imported = import_lmms_eval.read(package, "neo_ov")
    assert imported.form == "neo_ov" and imported.words["vsi-bench"].pre == "x"
    written = tmp_path / "words.toml"
    written.write_text(import_lmms_eval.toml(imported))
    form, words = wordings.words_for(TASKS["vsi-bench"], None, written)
    assert (form, words.pre) == ("neo_ov", "x")
    frames = package / "tasks" / "vsibench" / "many" / "frames.yaml"
    frames.write_text(frames.read_text().replace("prompt_format: neo_ov", "prompt_format: circles"))
    with pytest.raises(DataError, match="laid out in another way"):
        import_lmms_eval.read(package, "neo_ov")


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("mmsi/mmsi.yaml", "task: mmsi_bench\ninclude: ../../../secret\n", "outside"),
        ("mmsi/mmsi.yaml", "task: mmsi_bench\ninclude: /etc/hostname\n", "outside"),
        ("mmsi/mmsi.yaml", "task: mmsi_bench\ninclude: nowhere\n", "not there"),
        ("mmsi/mmsi.yaml", "task: mmsi_bench\ninclude: mmsi.yaml\n", "include each other"),
        ("mmsi/mmsi.yaml", "task: mmsi_bench\nx: [\n", "cannot be read as YAML"),
        ("mmsi/mmsi.yaml", "task: mmsi_bench\nx: &a {y: 1}\nz: {<<: [*a, *a]}\n", "merges mappings"),
        ("mmsi/mmsi.yaml", "task: mmsi_bench\nx: " + "[" * 5000 + "]" * 5000, "cannot be read as YAML"),
        ("mmsi/mmsi.yaml", "- a\n-\n  z: |\n\ntask: mmsi_bench\n", "cannot be read as YAML"),
        ("mmsi/mmsi.yaml", "task: mmsi_bench\nlmms_eval_specific_kwargs: [1]\n", "no settings by name"),
        (
            "mmsi/mmsi.yaml",
            "task: mmsi_bench\nlmms_eval_specific_kwargs: {default: {post_prompt: [1]}}\n",
            "its post_prompt is no text",
        ),
        (
            "mmsi/mmsi.yaml",
            'task: mmsi_bench\nlmms_eval_specific_kwargs: {default: {post_prompt: "\\ud83d"}}\n',
            "its post_prompt is no text",
        ),
        ("mmsi/mmsi.yaml", "task: mmsi_bench\nlmms_eval_specific_kwargs: 5\n", "no settings by name"),
        ("other/again.yaml", "task: mmsi_bench\n", "both say that they are the task mmsi_bench"),
    ],
)
def test_a_task_file_that_cannot_be_trusted_is_refused_with_its_name(
    name: str, text: str, fault: str, package: Path
) -> None:
    path = package / "tasks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    with pytest.raises(DataError, match=fault):
        import_lmms_eval.read(package)


def test_tags_are_not_obeyed(package: Path, tmp_path: Path) -> None:
    mark = tmp_path / "OBEYED"
    path = package / "tasks" / "mmsi" / "mmsi.yaml"
    path.write_text(
        f"{FILES['mmsi/mmsi.yaml']}x: !!python/object/apply:os.mkdir [{str(mark)!r}]\ny: !function os.getcwd\n"
    )
    assert import_lmms_eval.read(package).words["mmsi-bench"].post == "\nIn ``."
    assert not mark.exists()


def test_links_in_place_of_files_are_read_as_installers_put_them(package: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    for at, path in enumerate(sorted(one for one in (package / "tasks").rglob("*") if one.is_file())):
        path.rename(store / str(at))
        path.symlink_to(store / str(at))
    assert import_lmms_eval.read(package).words["vsi-bench"].pre == "These frames."


def test_a_folder_of_any_name_leaves_a_file_that_can_be_read(package: Path) -> None:
    odd = package.rename(package.parent.parent / "a\nb = 1\x7f")
    text = import_lmms_eval.toml(import_lmms_eval.read(odd))
    assert wordings.read(text, "x").words == import_lmms_eval.read(odd).words


def test_a_folder_without_these_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder of lmms-eval's tasks"):
        import_lmms_eval.read(tmp_path)
    (tmp_path / "tasks").mkdir()
    with pytest.raises(DataError, match="none of the tasks"):
        import_lmms_eval.read(tmp_path)


def test_without_lmms_eval_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_lmms_eval, "find_spec", lambda name: None)
    with pytest.raises(DataError) as caught:
        import_lmms_eval.read()
    assert "pip install lmms-eval" in caught.value.hint
    assert "--path DIR" in caught.value.hint


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_comes_back_from_the_file_as_it_went_in(text: str) -> None:
    for post in (text, ODD + text):
        words = {"blink": structs.replace(wordings.default_words("lmms-eval", "blink"), pre=post)}
        written = import_lmms_eval.toml(import_lmms_eval.Imported(words, (), (), "drawn"))
        assert wordings.read(written, "x").words == words


def test_the_command_writes_a_file_once_and_says_what_stays_ours(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "words.toml"
    asked = ["prompts", "import", "--from", "lmms-eval", "--path", str(package), "--out", str(out)]
    assert main(asked) == 0
    said = capsys.readouterr()
    assert "prompts of lmms-eval 9.8.7 for vsi-bench, mmsi-bench, viewspatial, site, blink, spar-bench" in said.out
    assert "our words remain for all of it" in said.err
    assert wordings.read(out.read_text(), "x").words == import_lmms_eval.read(package).words
    assert main(asked) == 2
    assert "already exists" in capsys.readouterr().err
    assert main([*asked, "--force"]) == 0
