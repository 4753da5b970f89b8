"""VLMEvalKit's table of VLM2-Bench: odd cells, wrong headers, localised images, and memory."""

import csv
import os
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.vlm2 import drawn
from benchmarks.vlm2.test_locate import (  # noqa: F401 - two are fixtures
    IMAGE_TASKS,
    asked,
    blobs,
    faults,
    forms,
    outline,
    own_cache,
)
from peak_memory import PEAK_KB
from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2 import locate as vlm2_locate
from snellen.benchmarks.vlm2 import samples as vlm2_samples
from snellen.benchmarks.vlm2 import vlmevalkit_tsv
from snellen.benchmarks.vlm2.layout import BY_NAME
from snellen.errors import DataError


def test_rows_of_a_table_that_cannot_be_read_stay_with_their_subtask(tmp_path):
    path = drawn.draw_tsv(tmp_path / "VLM2Bench_img.tsv")
    lines = path.read_bytes().split(b"\n")
    at = {
        name: next(i for i, line in enumerate(lines) if line.startswith(name))
        for name in (b"oc-cpr_2_p", b"gc-trk_2_n")
    }
    lines[at[b"oc-cpr_2_p"]] = b"oc-cpr_2_p\tcut"
    lines[at[b"gc-trk_2_n"]] = b"gc-trk_2_n\t\xff\tF\tgc-trk\t[]"
    path.write_bytes(b"\n".join(lines))
    seen = {subtask.name: asked(subtask.name, path) for subtask in IMAGE_TASKS}
    lost = {
        name: [(one.id, faults([one])) for one in found if "unreadable" in one.meta] for name, found in seen.items()
    }
    assert {name for name, found in lost.items() if found} == {"oc-cpr", "gc-trk"}
    [(name, error)] = lost["oc-cpr"]
    assert name == f"VLM2Bench_img.tsv:{at[b'oc-cpr_2_p'] + 1}"
    assert f"line {at[b'oc-cpr_2_p'] + 1}: 2 fields were found, 5 expected" in error[name]
    assert sum(len(found) for found in seen.values()) == 36


def write_table(path, rows, header=("index", "question", "answer", "category", "image")):
    with path.open("w", newline="", encoding="utf-8") as out:
        table = csv.writer(out, delimiter="\t", lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)
    return path


def test_odd_cells_of_a_table_fail_alone(tmp_path):
    rows = [
        ["oc-cnt_1", 'how "many"\nof\tthem?', "2", "oc-cnt", "['aGk=', 'aG8=']"],
        ["oc-cnt_2", "how many?", "two", "oc-cnt", "['aGk=']"],
        ["oc-cnt_3", "how many?", "2", "oc-cnt", "['aGk=', '%%%']"],
        ["oc-cnt_4", "how many?", "2", "oc-cnt", "oc-cnt_1"],
        ["oc-cnt_5", "how many?", "2", "oc-cnt", "['aGk=', 'aG8="],
        ["oc-cnt_6", "how many?", "2", "oc-cnt", "nowhere"],
        ["oc-cnt_1", "again", "2", "oc-cnt", '["data:image/jpeg;base64,aGk=", "aG8="]'],
        ["zz-cnt_1", "?", "2", "zz-cnt", "['aGk=', 'aG8=']"],
    ]
    path = write_table(tmp_path / "vlm2.tsv", rows)
    samples = asked("oc-cnt", path)
    assert [one.id for one in samples] == ["1", "2", "3", "4", "5", "6", "1#2"]
    assert samples[0].prompt.parts[-1].text == '\nhow "many"\nof\tthem?'
    assert [one.target for one in samples] == [2, None, 2, 2, 2, 2, 2]
    for number in (0, 3, 6):
        assert [blob.read() for blob in blobs(samples[number])] == [b"hi", b"ho"]
    failed = faults(samples)
    assert list(failed) == ["2", "3", "5", "6"]
    for name, line, says in (("2", 4, "1 image"), ("3", 5, "is not base64"), ("5", 7, "0 images"), ("6", 8, "1 image")):
        assert f"vlm2.tsv, line {line}" in failed[name] and says in failed[name]
    told = vlm2_samples.notices(BY_NAME["oc-cnt"], Data(path=path))
    assert any("rows of the unknown category 'zz-cnt': 1" in line for line in told)


CELL = st.text(alphabet="ab\"'[],\t\n \\\u00e9", max_size=12)


@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=5))
def test_cells_of_a_table_come_out_as_they_were_written(tmp_path_factory, cells):
    path = write_table(
        tmp_path_factory.getbasetemp() / "any.tsv",
        [["oc-grp", index, "", question, answer] for index, question, answer in cells],
        ("category", "index", "image", "question", "answer"),
    )
    os.utime(path, ns=(0, hash(tuple(cells)) & (1 << 60) - 1))
    found = [row for _, row in vlm2_locate.questions(BY_NAME["oc-grp"], Data(path=path)).rows()]
    assert [(row["q_id"], row["question"], row["gt_answer"]) for row in found] == cells


def test_a_quote_that_is_never_closed_loses_the_rest_of_the_table_and_says_so(tmp_path):
    path = write_table(tmp_path / "vlm2.tsv", [["oc-cnt_1", "?", "2", "oc-cnt", "['aGk=', 'aG8=']"]])
    with path.open("a") as out:
        out.write('oc-cnt_2\t"never closed\t2\toc-cnt\t[]\noc-cnt_3\t?\t2\toc-cnt\t[]\n')
    samples = asked("oc-cnt", path)
    assert [one.id for one in samples] == ["1", "vlm2.tsv:3"]
    assert "lines 3 to 4" in faults(samples)["vlm2.tsv:3"]


@pytest.mark.parametrize(
    ("header", "says"),
    [(("index", "question", "answer", "image"), "no column 'category'"), (("index",) * 2, "duplicate column")],
)
def test_a_table_of_something_else_is_refused(header, says, tmp_path):
    with pytest.raises(DataError, match=says):
        asked("oc-cnt", write_table(tmp_path / "vlm2.tsv", [], header))
    (tmp_path / "vlm2.tsv").write_text("")
    with pytest.raises(DataError, match="is empty"):
        asked("oc-cnt", tmp_path / "vlm2.tsv")


def test_paths_of_a_localised_table_are_found_under_images_and_nowhere_else(forms, tmp_path):  # noqa: F811
    alone = tmp_path / "VLM2Bench_img.tsv"
    alone.write_bytes(forms["paths"].read_bytes())
    right = [outline(sample) for sample in asked("pc-cnt", forms["zip"])]
    pictures = forms["paths"].parent / "images"
    for images in (pictures, pictures / "VLM2Bench", pictures.parent):
        assert [outline(sample) for sample in asked("pc-cnt", alone, images=images)] == right
    failed = faults(asked("pc-cnt", alone))
    assert len(failed) == 3 and all("VLM2Bench_img.tsv, line" in error for error in failed.values())
    outside = write_table(
        tmp_path / "evil.tsv",
        [["oc-cnt_1", "?", "2", "oc-cnt", "['../secret', '/root/../../secret']"]],
        ("index", "question", "answer", "category", "image_path"),
    )
    assert "holds '..'" in faults(asked("oc-cnt", outside))["1"]


def test_a_table_that_is_written_anew_is_read_anew(tmp_path):
    path = write_table(tmp_path / "vlm2.tsv", [["oc-cnt_1", "?", "2", "oc-cnt", "['aGk=', 'aG8=']"]])
    before = asked("oc-cnt", path)
    assert vlmevalkit_tsv.table(path) is vlmevalkit_tsv.table(path)
    write_table(path, [["oc-cnt_7", "?", "2", "oc-cnt", "['aGk=', 'aG8=']"]] * 2)
    os.utime(path, (1, 1))
    assert [one.id for one in before] == ["1"] and [one.id for one in asked("oc-cnt", path)] == ["7", "7#2"]


def test_a_large_table_is_never_whole_in_memory(tmp_path):
    path = tmp_path / "VLM2Bench_img.tsv"
    picture = "QUJD" * 62_500  # 250,000 characters
    rows, size = 160, 0
    with path.open("w") as out:
        size += out.write("index\tquestion\tanswer\tcategory\timage\n")
        for number in range(rows):
            cells = [picture] * 4
            size += out.write(f"pc-cnt_{number}\thow many?\t2\tpc-cnt\t{cells}\n")
    assert size > 160_000_000
    program = """
        import sys
        from pathlib import Path
        from snellen.benchmarks.base import Data
        from snellen.benchmarks.vlm2 import samples as vlm2_samples
        from snellen.benchmarks.vlm2.layout import BY_NAME
        before = PEAK_KB
        given = Data(path=Path(sys.argv[1]))
        subtask = BY_NAME["pc-cnt"]
        assert vlm2_samples.size(subtask, given) == 160
        for sample in vlm2_samples.samples(subtask, given):
            assert [part.blob.read()[:3] for part in sample.prompt.parts[:4]] == [b"ABC"] * 4
        print(PEAK_KB - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program).replace("PEAK_KB", PEAK_KB), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 40_000  # kB beyond what the imports take
