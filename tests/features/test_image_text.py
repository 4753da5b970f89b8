"""Zero-shot classification and image-text retrieval: values of naive computations and of the libraries' own."""

from __future__ import annotations

import csv
import json
from functools import partial
from math import log2

import numpy as np
import open_clip
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import jpeg
from safetensors.torch import save_file
from sklearn.metrics import ndcg_score, top_k_accuracy_score
from tiny_encoders import build
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.features.encoders import open_encoder, open_text_encoder
from snellen.features.image_text import image_text, read_captions
from snellen.features.store import open_store
from snellen.features.store.labels import Labels
from snellen.features.zero_shot import class_embeddings, read_lines, zero_shot

TINY = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8, "head_width": 32},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}
NAMES = ["sooty albatross", "wren", "barn owl", "crow"]
TEMPLATES = ["a photo of a {}.", "a blurry picture of the {}!", "{}"]


pytestmark = pytest.mark.usefixtures("printed_as_schema")


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    """Names of tiny dual encoders with random weights: of open_clip, and CLIP and SigLIP of transformers."""
    folder = tmp_path_factory.mktemp("dual")
    (folder / "configs").mkdir()
    (folder / "configs" / "tiny-dual.json").write_text(json.dumps(TINY))
    open_clip.add_model_config(folder / "configs")
    torch.manual_seed(1)
    model = open_clip.create_model("tiny-dual")
    save_file(
        {name: weight.contiguous().clone() for name, weight in model.state_dict().items()}, folder / "w.safetensors"
    )
    names = {"open_clip": f"open_clip:tiny-dual,{folder / 'w.safetensors'}"}
    for kind in ("clip", "siglip"):
        words = {
            word: i for i, word in enumerate(["<pad>", "<bos>", "<eos>", "<unk>", *"abcdefghijklmnopqrstuvwxyz .!"])
        }
        tokens = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
        tokens.pre_tokenizer = pre_tokenizers.Split("", "isolated")
        tokens.post_processor = processors.TemplateProcessing(
            single="<bos> $A <eos>", special_tokens=[("<bos>", 1), ("<eos>", 2)]
        )
        place = build(kind, folder / kind)
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokens, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", model_max_length=32
        ).save_pretrained(place)
        names[kind] = f"hf:{place}"
    return names


@pytest.fixture
def store(tmp_path, encoders):
    """A function from the kind of an encoder to a store of 12 pictures of 4 classes."""
    lines = []
    for number in range(12):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(number, 40, 36))
        lines.append(f"{number}.jpg,{number % 4}")
    (tmp_path / "test.csv").write_text("\n".join(lines))
    (tmp_path / "classes.txt").write_text("\n".join(NAMES))

    def extracted(kind):
        folder = tmp_path / f"store-{kind}"
        command = (
            f"features extract --encoder {encoders[kind]} --split test={tmp_path / 'test.csv'} --images {tmp_path}"
        )
        assert main([*command.split(), "--out", str(folder), "--outputs", "embedding"]) == 0
        return folder

    return extracted


def test_class_embeddings_are_those_of_open_clips_own_classifier(encoders):
    texts = open_text_encoder(encoders["open_clip"])
    model = open_clip.create_model("tiny-dual", pretrained=encoders["open_clip"].partition(",")[2]).eval()
    templates = [partial(lambda form, name: form.format(name), template) for template in TEMPLATES]
    theirs = open_clip.build_zero_shot_classifier(model, open_clip.get_tokenizer("tiny-dual"), NAMES, templates)
    ours = class_embeddings(NAMES, TEMPLATES, texts.encode)
    assert np.allclose(ours, theirs.numpy().T, atol=1e-5)
    assert texts.scale == pytest.approx(float(model.logit_scale.exp()))


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_texts_of_transformers_are_those_of_the_models_whole_forward_pass(kind, encoders):
    texts = open_text_encoder(encoders[kind])
    folder = encoders[kind].removeprefix("hf:")
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    padding = "max_length" if kind == "siglip" else True
    tokens = tokenizer(NAMES, padding=padding, max_length=32, truncation=True, return_tensors="pt")
    known = {key: tokens[key] for key in ("input_ids", "attention_mask")}
    with torch.inference_mode():
        theirs = model(pixel_values=torch.zeros(1, 3, 32, 32), **known).text_embeds
    assert np.allclose(texts.encode(NAMES), torch.nn.functional.normalize(theirs).numpy(), atol=1e-5)
    assert (texts.scale is None) == (kind == "siglip")


@pytest.mark.parametrize("kind", ["open_clip", "clip", "siglip"])
def test_zero_shot_has_the_figures_of_the_models_own_scores(kind, store, encoders, tmp_path, capsys):
    folder = store(kind)
    (tmp_path / "templates.txt").write_text("\n".join(TEMPLATES))
    command = f"features zero-shot {folder} --encoder {encoders[kind]} --templates {tmp_path / 'templates.txt'} --json"
    calibrated = kind != "siglip"
    capsys.readouterr()
    options = ["--confusion", str(tmp_path / "c.csv"), *(["--calibration"] if calibrated else [])]
    assert main([*command.split(), *options]) == 0
    result = json.loads(capsys.readouterr().out)
    by_name = {metric["name"]: metric for metric in result["metrics"]}
    images = open_store(folder, "embedding")
    weights = class_embeddings(NAMES, TEMPLATES, open_text_encoder(encoders[kind]).encode)
    scores = images.values @ weights.T
    truth = images.labels.single
    assert by_name["accuracy"]["value"] == pytest.approx((scores.argmax(axis=1) == truth).mean())
    per_class = [(scores.argmax(axis=1) == truth)[truth == i].mean() for i in range(4)]
    assert by_name["accuracy/class-mean"]["value"] == pytest.approx(np.mean(per_class))
    assert by_name["accuracy/top5"]["value"] == 1
    assert by_name["accuracy"]["chance"] == 0.25
    assert ("ece" in by_name) == calibrated
    table = list(csv.reader((tmp_path / "c.csv").open()))
    counts = np.array(table[1:])[:, 1:].astype(int)
    assert table[0][1:] == NAMES
    assert counts.tolist() == [
        [int(((truth == i) & (scores.argmax(axis=1) == j)).sum()) for j in range(4)] for i in range(4)
    ]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(2, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_ranks_of_classes_are_those_of_a_sorted_list_and_ties_go_against_the_model(rows, classes, width, seed):
    rng = np.random.default_rng(seed)
    features = rng.integers(-2, 3, (rows, width)).astype(np.float32)
    weights = rng.integers(-2, 3, (classes, width)).astype(np.float32)
    labels = rng.integers(0, classes, rows)
    unit = [x / np.maximum(np.linalg.norm(x.astype(float), axis=1, keepdims=True), 1e-30) for x in (features, weights)]
    scores = unit[0] @ unit[1].T
    own = scores[np.arange(rows), labels][:, None]
    result = zero_shot(features, labels, weights)
    assert result.rank.tolist() == (scores >= own - 1e-12).sum(axis=1).tolist()
    assert (
        zero_shot(features, labels, weights, ties="optimistic").rank.tolist()
        == (1 + (scores > own + 1e-12).sum(axis=1)).tolist()
    )


def test_top_5_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    features, weights, labels = rng.normal(size=(300, 8)), rng.normal(size=(20, 8)), np.arange(300) % 20
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (features, weights)]
    metrics = {metric.name: metric for metric in zero_shot(features, labels, weights).metrics("query")}
    for k, name in ((1, "accuracy"), (5, "accuracy/top5")):
        theirs = top_k_accuracy_score(labels, unit[0] @ unit[1].T, k=k)
        assert metrics[name].value == pytest.approx(theirs)
        assert metrics[name].ci95[0] < theirs < metrics[name].ci95[1]


def naive(scores, relevant, k):
    """Return first rank, whether it is among k, and nDCG at 10 of one query, by sorting."""
    order = np.argsort(-scores, kind="stable")
    hits = relevant[order]
    gain = sum(hit / log2(place + 2) for place, hit in enumerate(hits[:10]))
    best = sum(1 / log2(place + 2) for place in range(min(10, int(relevant.sum()))))
    first = int(np.flatnonzero(hits)[0]) + 1
    return first, first <= k, gain / best


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 15), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_both_directions_are_those_of_a_sorted_list_and_of_scikit_learn(images, most, seed):
    rng = np.random.default_rng(seed)
    image_of = np.repeat(np.arange(images), rng.integers(1, most + 1, images))
    seen = rng.normal(size=(images, 6))
    said = seen[image_of] + rng.normal(size=(len(image_of), 6))
    scores = (seen / np.linalg.norm(seen, axis=1, keepdims=True)) @ (
        said / np.linalg.norm(said, axis=1, keepdims=True)
    ).T
    relevant = np.arange(images)[:, None] == image_of
    result = image_text(seen, said, image_of)
    for direction, table, truth in (
        (result.image_to_text, scores, relevant),
        (result.text_to_image, scores.T, relevant.T),
    ):
        expected = [naive(row, own, 5) for row, own in zip(table, truth, strict=True)]
        metrics = {metric.name.partition("/")[2]: metric.value for metric in direction.metrics((1, 5, 10))}
        assert direction.first.tolist() == [first for first, _, _ in expected]
        assert metrics["recall@5"] == pytest.approx(np.mean([hit for _, hit, _ in expected]))
        assert metrics["median_rank"] == np.median(direction.first)
        assert np.allclose(direction.ndcg, [ndcg for _, _, ndcg in expected])
        if truth.shape[1] > 1:
            assert metrics["ndcg@10"] == pytest.approx(ndcg_score(truth, table, k=10))


def test_chance_of_both_directions_is_that_of_random_orders():
    rng = np.random.default_rng(0)
    image_of = np.repeat(np.arange(8), 3)
    runs = [
        [d.first <= 5 for d in (r.image_to_text, r.text_to_image)]
        for r in (image_text(rng.normal(size=(8, 4)), rng.normal(size=(24, 4)), image_of) for _ in range(400))
    ]
    result = image_text(np.eye(8), np.eye(8)[image_of], image_of)
    for number, direction in enumerate((result.image_to_text, result.text_to_image)):
        assert np.mean([run[number].mean() for run in runs]) == pytest.approx(direction.chance["recall@5"], abs=0.03)


def test_captions_of_one_image_widen_the_interval_as_a_cluster():
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(60, 5))
    image_of = np.repeat(np.arange(60), 5)
    near = seen[image_of] + 0.9 * rng.normal(size=(60, 5))[image_of]  # the captions of an image are all near or all far
    metric = next(m for m in image_text(seen, near, image_of).text_to_image.metrics((1,)) if "recall" in m.name)
    assert metric.interval.clusters == 60
    assert metric.ci95[1] - metric.ci95[0] > 1.8 * 2 * 1.96 * np.sqrt(metric.value * (1 - metric.value) / 300)


@pytest.mark.parametrize("kind", ["open_clip", "siglip"])
def test_the_command_reads_each_form_of_captions_to_the_same_figures(kind, store, encoders, tmp_path, capsys):
    folder = store(kind)
    said = [(f"{number}.jpg", f"a wren number {number} {turn}") for number in range(12) for turn in range(2)]
    (tmp_path / "c.csv").write_text("image,caption\n" + "".join(f"{image},{text}\n" for image, text in said))
    coco = {
        "images": [{"id": 90 + number, "file_name": f"{number}.jpg"} for number in range(12)],
        "annotations": [{"image_id": 90 + int(image.split(".")[0]), "caption": text} for image, text in said],
    }
    karpathy = {
        "images": [
            {
                "filename": f"{n}.jpg",
                "split": "test",
                "sentences": [{"raw": text} for image, text in said if image == f"{n}.jpg"],
            }
            for n in range(12)
        ]
    }
    results = []
    for name, content in (("c.csv", None), ("coco.json", coco), ("karpathy.json", karpathy)):
        if content is not None:
            (tmp_path / name).write_text(json.dumps(content))
        capsys.readouterr()
        command = f"features image-text {folder} --encoder {encoders[kind]} --captions {tmp_path / name} --json"
        assert main(command.split()) == 0
        results.append(json.loads(capsys.readouterr().out)["metrics"])
    assert results[0] == results[1] == results[2]
    seen = torch.nn.functional.normalize(torch.from_numpy(np.array(open_store(folder, "embedding").values)))
    texts = open_text_encoder(encoders[kind]).encode([text for _, text in said])
    scores = seen.numpy() @ texts.T
    ranks = [naive(scores.T[row], np.arange(12) == row // 2, 1)[0] for row in range(24)]
    by_name = {metric["name"]: metric["value"] for metric in results[0]}
    assert by_name["text_to_image/recall@1"] == pytest.approx(np.mean(np.array(ranks) <= 1))
    assert by_name["text_to_image/median_rank"] == np.median(ranks)


def test_features_of_another_encoder_are_refused_and_imported_ones_noted(store, encoders):
    features = open_store(store("clip"), "embedding")
    with pytest.raises(DataError, match="compared with its own embedding"):
        open_text_encoder(encoders["siglip"]).require_images(features)
    assert open_text_encoder(encoders["clip"]).require_images(features) == []
    assert open_encoder(encoders["clip"], ["embedding"]).widths() == {
        "embedding": open_text_encoder(encoders["clip"]).width()
    }


def test_what_cannot_be_asked_is_refused(tmp_path, encoders):
    with pytest.raises(UsageError, match="has no text tower"):
        open_text_encoder("embedded")
    for template in ("a photo", "{} and {}"):
        with pytest.raises(UsageError, match="has not exactly one"):
            class_embeddings(NAMES, [template], lambda texts: np.ones((len(texts), 2), np.float32))
    with pytest.raises(DataError, match="class 5 has no name: there are 2, 0 to 1"):
        zero_shot(np.eye(2), np.array([0, 5]), np.eye(2))
    with pytest.raises(UsageError, match="several labels"):
        zero_shot(np.eye(2), Labels(np.arange(2), many=np.eye(2, dtype=bool)), np.eye(2))
    (tmp_path / "names.txt").write_text("owl\n\nwren\n")
    with pytest.raises(DataError, match="line 2: it is empty"):
        read_lines(tmp_path / "names.txt", "class name")
    (tmp_path / "c.csv").write_text("image,caption\nz.jpg,nothing\n")
    with pytest.raises(DataError, match=r"none of its 1 captions .* the first is of 'z.jpg'"):
        read_captions(tmp_path / "c.csv", ["a.jpg"])
    (tmp_path / "c.json").write_text('{"images": [1]}')
    with pytest.raises(DataError, match="no captions in a known form"):
        read_captions(tmp_path / "c.json", ["a.jpg"])
