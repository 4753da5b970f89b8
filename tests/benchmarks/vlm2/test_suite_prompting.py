"""A prompting variant on VLM2-Bench as a whole: each subtask that has it is asked so, and the others as vanilla."""

from __future__ import annotations

import json
from pathlib import Path

import drawn
import pytest

from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2 import VLM2, prompts
from snellen.benchmarks.vlm2.layout import BY_NAME
from snellen.errors import UsageError
from snellen.runs.score import score

FULL = {"cot": "cot", "special": "cot-special", "vp-grid": "vp-grid", "grid": "vp-grid", "zoom": "vp-zoom"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return drawn.draw(tmp_path_factory.mktemp("vlm2") / "data", groups=1)


def boxes_of_all(folder: Path, out: Path) -> Path:
    names = []
    for cue in ("oc", "pc"):
        for file in (folder / "jsonl" / cue).glob("*/*.jsonl"):
            names += [name for line in file.read_text().splitlines() for name in json.loads(line).get("images", [])]
    out.write_text("".join(json.dumps({"image": name, "box": [4, 4, 30, 30]}) + "\n" for name in set(names)))
    return out


@pytest.mark.parametrize("name", FULL)
def test_a_variant_on_the_suite_is_used_where_it_is_known_and_vanilla_elsewhere(
    name: str, folder: Path, tmp_path: Path
) -> None:
    options = {"prompting": name}
    if FULL[name] == "vp-zoom":
        options["boxes"] = str(boxes_of_all(folder, tmp_path / "boxes.jsonl"))
    data = Data(folder, options=options)
    asked = {str(sample.meta["task"]): sample for sample in VLM2.samples(data)}
    known = prompts.wording(FULL[name]).subtasks
    assert asked.keys() == BY_NAME.keys()
    for task, sample in asked.items():
        assert sample.meta.get("prompting") == (FULL[name] if task in known else None)
        assert (prompts.MARKER in str(sample.prompt.parts[-1])) == (task in known)
    (line,) = [line for line in VLM2.notices(data) if line.startswith("prompting=")]
    assert line.startswith(f"prompting={FULL[name]} is for {', '.join(known)}; as vanilla: ")
    assert VLM2.digest(data)


def test_an_option_that_belongs_to_another_variant_is_refused_on_the_suite_too(folder: Path) -> None:
    with pytest.raises(UsageError, match="prompting=vp-grid"):
        list(VLM2.samples(Data(folder, options={"prompting": "special", "grid": "4x4"})))
    with pytest.raises(UsageError, match="prompting='maps' is not known"):
        list(VLM2.samples(Data(folder, options={"prompting": "maps"})))
    with pytest.raises(UsageError, match="-o boxes=FILE"):
        list(VLM2.samples(Data(folder, options={"prompting": "zoom"})))


def test_a_table_of_replies_to_a_variant_is_scored_after_the_marker_where_the_subtask_has_it(tmp_path: Path) -> None:
    path = tmp_path / "m_VLM2Bench.tsv"
    rows = [
        "gc-mat_1_p\tq\tT\tgc-mat\t['a','b']\tIt is new. MY_ANSWER: T",
        "gc-mat_1_n\tq\tF\tgc-mat\t['a','b']\tMY_ANSWER: F",
        "oc-grp_1\tq\tA) 1 and 2\toc-grp\t['a','b','c']\tMY_ANSWER: A) 1 and 2",
    ]
    path.write_text("index\tquestion\tanswer\tcategory\timage_path\tprediction\n" + "\n".join(rows) + "\n")
    summary, _ = score(path, "vlm2", profile="official", benchmark_options={"prompting": "special"})
    values = {metric.name: metric.value for metric in summary.metrics["official"]}
    assert values["gc-mat/pair_accuracy"] == 1.0
    assert values["oc-grp/grouping_accuracy"] == 0.0  # a reply of vanilla: it is scored as a whole
