"""A run with masks: what the model sees, and that other masks are another experiment."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from PIL import Image


def drawn(path: Path, box: tuple[int, int, int, int], mode: str = "L") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new(mode, (40, 30), 0 if mode == "L" else (90, 90, 90))
    image.paste(255 if mode == "L" else (250, 250, 250), box)
    image.save(path)


def test_masks_belong_to_a_run_by_their_content_and_an_image_without_one_fails_alone(snellen, tmp_path):
    for name in ("1", "2"):
        drawn(tmp_path / f"birds/{name}.png", (5, 5, 20, 20), "RGB")
    drawn(tmp_path / "masks/birds/1.png", (5, 5, 20, 20))
    (tmp_path / "q.csv").write_text(
        "id,image,question,answer\n1,birds/1.png,Is it light?,yes\n2,birds/2.png,Is it light?,yes\n"
    )
    run = ("run", "q.csv", "-m", "pixels", "--corrupt", "remove@background", "--out", "r")
    said = snellen(*run, "--mask", "masks")
    assert "there is no mask for it" in said.err + said.out, said.err
    drawn(tmp_path / "masks/birds/2.png", (5, 5, 20, 20))
    said = snellen(*run, "--mask", "masks")
    assert said.status != 0 and "masks" in said.err and "other settings" in said.err, said.err
    (tmp_path / "masks").rename(tmp_path / "moved")
    said = snellen(*run[:-1], "s", "--mask", "moved")
    assert said.status == 0, said.err
    (tmp_path / "moved").rename(tmp_path / "again")
    assert snellen(*run[:-1], "s", "--mask", "again").status == 0, "the place of the masks does not count"
    said = snellen(*run[:-1], "t", "--mask", "nowhere")
    assert said.status == 2 and "nowhere is not there; a folder of masks was expected" in " ".join(said.err.split())
    for name, found in (("again/birds/1.png", "a file"), ("q.csv", "a file"), ("question", "not there")):
        said = snellen(*run[:-1], "u", "--mask", name)
        told = " ".join(said.err.split())
        assert said.status == 2 and f"{name} is {found}; a folder of masks was expected" in told, said.err
        assert "No column of a table names masks" in told and not Path("u/results.jsonl").exists()


def test_the_masks_of_another_users_run_are_not_read(snellen, tmp_path):
    drawn(tmp_path / "birds/1.png", (5, 5, 20, 20), "RGB")
    drawn(tmp_path / "masks/1.png", (5, 5, 20, 20))
    (tmp_path / "q.csv").write_text("id,image,question,answer\n1,birds/1.png,Is it light?,yes\n")
    run = ("run", "q.csv", "-m", "pixels", "--corrupt", "grey@object", "--mask", "masks", "--out", "mine")
    assert snellen(*run).status == 0
    shutil.copytree("mine", "evil")
    meta = json.loads(Path("evil/run_meta.json").read_text())
    meta["spec"]["options"]["media"]["mask"] = str(tmp_path / "birds")
    meta["spec"]["data"] = {"path": None}
    Path("evil/run_meta.json").write_text(json.dumps(meta))
    said = snellen("rerun", "evil", "--out", "again")
    assert said.status == 5 and f"the masks {tmp_path / 'birds'}" in " ".join(said.err.split()), said.err
