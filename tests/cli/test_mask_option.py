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
    told = " ".join(said.err.split())
    assert said.status == 2 and "--mask nowhere: neither a folder nor a column of" in told, said.err
    assert "Columns are id, image, question, answer." in told and not Path("t/results.jsonl").exists()
    said = snellen("run", "chart", "-m", "embedded", "--corrupt", "grey@object", "--mask", "nowhere", "--out", "t")
    assert said.status == 2 and "nowhere is not there; a folder of masks was expected" in " ".join(said.err.split())
    for name in ("again/birds/1.png", "q.csv"):
        said = snellen(*run[:-1], "u", "--mask", name)
        told = " ".join(said.err.split())
        assert said.status == 2 and f"{name} is a file; a folder of masks was expected" in told, said.err
        assert not Path("u/results.jsonl").exists()


def test_a_column_of_the_table_names_the_masks_and_their_content_belongs_to_the_run(snellen, tmp_path):
    rows = [f"{name},birds/{name}.png,seg/mask_{name}.png,What colour is it?,red\n" for name in ("1", "2")]
    (tmp_path / "birds").mkdir()
    for name in ("1", "2"):
        bird = Image.new("RGB", (40, 30), (0, 255, 0))
        bird.paste((180, 60, 60), (5, 5, 20, 20))
        bird.save(tmp_path / f"birds/{name}.png")
        drawn(tmp_path / f"seg/mask_{name}.png", (5, 5, 20, 20))
    (tmp_path / "q.csv").write_text(f"id,image,outline,question,answer\n{''.join(rows)}")
    run = ("run", "q.csv", "-m", "pixels", "--corrupt", "grey@background", "--mask")
    folder = snellen(*run, "masks", "--out", "none")
    assert folder.status == 2 and "--mask masks: neither" in " ".join(folder.err.split())
    said = snellen(*run, "outline", "--out", "r")
    assert said.status == 0 and "object_mask ← `outline`" in (told := " ".join((said.err + said.out).split())), said.err
    assert "not used: `outline`" not in told
    replies = [json.loads(line)["response"]["text"] for line in Path("r/results.jsonl").read_text().splitlines()]
    assert replies == ["red", "red"]  # without masks the background is what stands out, and green
    assert snellen("rerun", "r", "--out", "again").status == 0
    drawn(tmp_path / "seg/mask_2.png", (0, 0, 3, 3))
    (tmp_path / "q.csv").touch()  # a survey is kept for a process while the table's file is as it was
    said = snellen(*run, "outline", "--out", "r")
    assert said.status != 0 and "other" in said.err, said.err
    said = snellen(*run, "question", "--out", "none")
    assert said.status == 3 and "its mask: image missing: 'What colour is it?'" in " ".join(said.err.split())
    (tmp_path / "seg/mask_2.png").write_bytes(b"no picture")
    (tmp_path / "q.csv").touch()
    said = snellen(*run, "outline", "--out", "s")
    assert "its mask: image unreadable" in " ".join((said.err + said.out).split())


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
