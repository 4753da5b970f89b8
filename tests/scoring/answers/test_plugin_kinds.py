"""A kind of answers that a package adds under the entry-point group `snellen.answers` is one as the built-in ones are."""

import os
import subprocess
import sys

PLATE = r"""
import re
from snellen.scoring.answers import AnswerType

class Plate(AnswerType):
    kind = "plate"
    expected = "a licence plate"

    def parse(self, text):
        plate = re.sub(r"[\s-]+", "", text).upper()
        return plate if re.fullmatch(r"[A-Z]{1,4}\d{1,4}", plate) else None
"""


def test_a_table_of_a_plug_ins_kind_is_asked_read_and_scored(tmp_path):
    about = tmp_path / "plates-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plates\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[snellen.answers]\nplate = plates:Plate\n")
    (tmp_path / "plates.py").write_text(PLATE)
    (tmp_path / "cars.csv").write_text(
        "id,question,answer,kind\n1,Which plate?,KA-X 42,plate\n2,Which plate is it?,B-Y 7,plate\n"
    )
    (tmp_path / "said.jsonl").write_text(
        '{"id": "1", "reply": "**ka x 42**"}\n{"id": "2", "reply": "It is grey. Answer: BY 8"}\n'
    )
    command = [sys.executable, "-m", "snellen", "run", "cars.csv", "--model", "replay:said.jsonl", "--out", "run"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    scored = [*command[:3], "score", "run", "--per-sample", "rows.jsonl"]
    done = subprocess.run(scored, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert '"KAX42"' in rows[0] and '"correct"' in rows[0] and '"BY8"' in rows[1] and '"wrong"' in rows[1], rows
