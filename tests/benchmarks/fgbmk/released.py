"""Question files in the released form, a few rows each, and images of one pixel."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from PIL import Image as Pillow

HIERARCHY = "hierarchical_granularity_recognition"
CHOOSE = " Answer the question using a single word or phrase."
YES_NO = " Answer with yes or no."
BIRDS = {
    "images/001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg": "black footed albatross",
    "images/029.American_Crow/American_Crow_0031_25433.jpg": "american crow",
    "images/030.Fish_Crow/Fish_Crow_0038_25917.jpg": "fish crow",
}
OTHERS = {"black footed albatross": "sooty albatross", "american crow": "fish crow", "fish crow": "rock wren"}
PLANT = "val/06267_Plantae_Tracheophyta_Liliopsida_Poales_Cyperaceae_Carex_squarrosa/4bc8.jpg"
PINE = "val/09836_Plantae_Tracheophyta_Pinopsida_Pinales_Pinaceae_Pinus_rigida/e698.jpg"
FLOWERS = {"jpg/image_00001.jpg": "pink primrose", "jpg/image_00002.jpg": "rose"}


def row(number: int, image: str, text: str, gold: str, category: str = "generic") -> dict[str, Any]:
    return {"question_id": number, "image": image, "text": text, "class": gold, "category": category}


def listed(*options: str) -> str:
    return " Choose one answer from the following list: " + ", ".join(f'"{one}"' for one in options) + "." + CHOOSE


def files() -> dict[str, list[dict[str, Any]]]:
    """Name under human-oriented/ to rows."""
    birds = list(BIRDS.items())
    return {
        f"{HIERARCHY}/cub/class/class_question_true_flase.jsonl": [
            row(1, birds[0][0], f"Is the class of the object aves?{YES_NO}", "yes"),
            row(2, birds[1][0], f"Is the object class in this photo a insecta?{YES_NO}", "no"),
        ],
        f"{HIERARCHY}/cub/genus/genus_question_choice.jsonl": [
            row(1, birds[0][0], "Can you identify the genus of this aves?" + listed("albatross", "crow"), "albatross"),
            row(2, birds[1][0], "What is the genus of the aves in this image?" + listed("wren", "crow"), "crow"),
        ],
        f"{HIERARCHY}/cub/species/species_question_choice.jsonl": [
            row(i, image, "Which species does this aves in the photo belong to?" + listed(OTHERS[own], own), own)
            for i, (image, own) in enumerate(birds, 1)
        ],
        f"{HIERARCHY}/cub/species/species_question_short_answer.jsonl": [
            row(i, image, "What species of the aves is shown in the image? Directly answer with species names.", own)
            for i, (image, own) in enumerate(birds, 1)
        ],
        f"{HIERARCHY}/cub/species/species_question_true_false.jsonl": [
            row(1, birds[2][0], f"From your observation, is the species of the aves shown a fish crow?{YES_NO}", "yes"),
            row(2, birds[1][0], f"Is the aves species in this photo a fish crow?{YES_NO}", "no"),
            row(3, birds[0][0], f"Does this aves belong to the species known as laysan albatross?{YES_NO}", "no"),
        ],
        f"{HIERARCHY}/iNat2021/order/order_question_choice.jsonl": [
            row(1, PLANT, "Can you identify the order of this plantae?" + listed("poales", "pinales"), "poales", "order"),
            row(2, PINE, "Which order does this plantae in the photo belong to?" + listed("pinales", "poales"), "pinales", "order"),
        ],
        f"{HIERARCHY}/iNat2021/order/order_question_true_false.jsonl": [
            row(1, PLANT, f"Is the order of the plantae poales?{YES_NO}", "yes", "order"),
        ],
        f"{HIERARCHY}/flowers102/species/species_question_choice.jsonl": [
            row(i, image, "Can you identify the species of this flower?" + listed("rose", "pink primrose"), own)
            for i, (image, own) in enumerate(FLOWERS.items(), 1)
        ],
        f"{HIERARCHY}/flowers102/species/species_question_true_false.jsonl": [
            row(1, "jpg/image_00002.jpg", f"Is the species of the flower pink primrose?{YES_NO}", "no"),
            row(2, "jpg/image_00001.jpg", f"Is the species of the flower pink primrose?{YES_NO}", "yes"),
        ],
        f"{HIERARCHY}/deepfashion/species/species_question_true_false.jsonl": [
            row(1, "img/Knit,_Ribbed_Dress/img_00000001.jpg", f"Is the fine-grained category of the clothes coat?{YES_NO}", "no", "dress"),
        ],
        f"{HIERARCHY}/mtarsi/species/species_question_true_false.jsonl": [
            row(1, "B-2/B-2_043.jpg", f"Is the fine-grained category shown in this aircraft A-10?{YES_NO}", "no", "B-2"),
        ],
        "knowledge_bias_estimation/aircraft/questions_true_false_all_class.jsonl": [
            row(1, "images/1514522.jpg", f"Does this aircraft belong to the fine-grained category known as 707-320?{YES_NO}", "yes", "707-320"),
            row(2, "images/1514522.jpg", f"Does this aircraft belong to the fine-grained category known as A340-600?{YES_NO}", "no", "707-320"),
        ],
        "attribute_recognition/attribute_question_choice.jsonl": [
            row(1, birds[0][0], "What is the wing color of the bird? [blue, brown, grey]", "brown"),
            row(2, birds[1][0], "What is the bill shape of the bird? [hooked, dagger]", "dagger"),
        ],
    }  # fmt: skip


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(one) + "\n" for one in rows)


def write(folder: Path, inside: str = "FG-BMK/benchmark/human-oriented") -> Path:
    """The released tree under a folder; the folder."""
    for name, rows in files().items():
        path = folder / inside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lines(rows))
    return folder


def zipped(path: Path, inside: str = "human-oriented") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, rows in files().items():
            archive.writestr(f"{inside}/{name}", lines(rows))
    return path


def tarred(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def pixel(shade: int = 0) -> bytes:
    data = io.BytesIO()
    Pillow.new("L", (1, 1), shade).save(data, "PNG")
    return data.getvalue()


def birds(folder: Path) -> Path:
    """CUB's images in a folder: the data set's root."""
    for shade, image in enumerate(BIRDS):
        path = folder / image
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pixel(shade))
    return folder
