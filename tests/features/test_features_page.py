"""The features report: stores and runs on disk to one page that asks no network for anything."""

from __future__ import annotations

import html
import importlib.util
import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.features.plot_data import PrecisionRecallCurve, map_features, neighbour_sheet, precision_recall_curve
from snellen.features.probes import ClassAccuracy
from snellen.features.retrieval import retrieval
from snellen.features.says_sees import AnswerScores, ProbeResults, says_sees
from snellen.features.store import Features, import_file, open_store
from snellen.models.base import Model
from snellen.reports.features.build import ReportSettings, joinable_answers, write_report
from snellen.reports.features.page import JoinedView, StoreView, render_features
from snellen.reports.features.plots import says_sees_plot
from snellen.runs.evaluate import evaluate
from snellen.types import IntervalMethod, Metric, Prompt, Response

pytestmark = pytest.mark.usefixtures("printed_as_schema")

NAMES = ("wren", "tern", "gull")
HOSTILE = "<script>window.owned=1</script>"
PER_CLASS = 12


def save(folder: Path, *, seed: int = 0, noise: float = 0.6, hostile: bool = False) -> Path:
    """A store of three classes, half of it train, whose rows are called <number>.png."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(3), 2 * PER_CLASS)
    values = np.eye(3, 8)[labels] + noise * rng.normal(size=(len(labels), 8)) / np.sqrt(8)
    names = (*NAMES[:2], HOSTILE) if hostile else NAMES
    file = folder.with_suffix(".npz")
    np.savez(
        file,
        features=values.astype(np.float32),
        labels=labels,
        split=np.array(["train", "test"] * (len(labels) // 2)),
        ids=np.array([f"{row}.png" for row in range(len(labels))]),
        class_names=np.array(names),
    )
    return import_file(file, folder)


def draw(folder: Path, rows: int) -> Path:
    folder.mkdir()
    for row in range(rows):
        Picture.new("RGB", (12, 12), (row * 3 % 256, 90, 40)).save(folder / f"{row}.png")
    return folder


@pytest.fixture
def store(tmp_path):
    return save(tmp_path / "feats")


def page_of(path: Path) -> str:
    return path.read_text("utf-8")


def test_a_page_loads_nothing_and_runs_nothing(tmp_path, store):
    page = page_of(write_report([store], tmp_path / "page.html")[0])
    assert "default-src 'none'" in html.unescape(page)
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page)
    assert " style=" not in page
    own = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = b64encode(sha256(own.encode()).digest()).decode()
    assert page.count("<script") == 2 and f"script-src 'sha256-{digest}'" in html.unescape(page)


def test_the_same_store_gives_the_same_page_byte_for_byte(tmp_path, store):
    first, second = (write_report([store], tmp_path / name)[0].read_bytes() for name in ("one.html", "two.html"))
    assert first == second


def test_names_of_classes_reach_the_page_as_text(tmp_path):
    page = page_of(write_report([save(tmp_path / "feats", hostile=True)], tmp_path / "page.html")[0])
    assert HOSTILE not in page
    assert "&lt;script&gt;window.owned" in page


def test_stores_stand_side_by_side_with_every_measure(tmp_path, store):
    other = save(tmp_path / "other", seed=1, noise=3.0)
    path, told = write_report([store, other], tmp_path / "page.html")
    page = page_of(path)
    assert [(one["store"], one["measure"]) for one in told["stores"]] == [
        (str(folder), measure) for folder in (store, other) for measure in ("retrieval", "knn", "probe")
    ]
    for name in ("map", "recall@1", "knn@1", "accuracy"):
        row = page.split(f'<th scope="row"><bdi>{name}</bdi>')[1].split("</tr>")[0]
        assert row.count('class="value"') == 2
    for title in ("Precision and recall", "Map of the features · feats", "Map of the features · other"):
        assert f"<h3>{title}</h3>" in page


def test_the_neighbours_sheet_frames_right_and_wrong_and_carries_the_pictures(tmp_path):
    noisy = save(tmp_path / "noisy", noise=4.0)
    images = draw(tmp_path / "images", 6 * PER_CLASS)
    page = page_of(write_report([noisy], tmp_path / "page.html", choices=ReportSettings(images=images))[0])
    right, wrong = page.count('class="shown-one right"'), page.count('class="shown-one wrong"')
    assert right and wrong and right + wrong == 8 * 10
    assert page.count('src="data:image/png') == 8 * 11


def test_without_pictures_the_sheet_shows_names_and_says_why(tmp_path, store):
    page = page_of(write_report([store], tmp_path / "page.html")[0])
    assert '<div class="frame">wren</div>' in page
    assert "Give the folder of their images with --images" in page
    with pytest.raises(UsageError, match="no such file or folder"):
        write_report([store], tmp_path / "page.html", choices=ReportSettings(images=tmp_path / "nowhere"))


@pytest.mark.parametrize("name", ["/data/{}.png", "../{}.png", "new\nline{}.png", "x" * 300 + "{}.png"])
def test_ids_that_can_be_no_picture_are_shown_by_name_and_counted(tmp_path, name):
    ids = [name.format(row) if row else "0.png" for row in range(24)]
    np.savez(
        tmp_path / "odd.npz",
        features=np.eye(3, 8, dtype=np.float32)[np.arange(24) % 3] + 0.1,
        labels=np.arange(24) % 3,
        ids=np.array(ids),
    )
    found, _ = write_report(
        [import_file(tmp_path / "odd.npz", tmp_path / "odd")],
        tmp_path / "page.html",
        choices=ReportSettings(images=draw(tmp_path / "pictures", 1), method="ridge"),
    )
    assert re.search(r"(\d+) of the (\d+) neighbours shown have no image under pictures", page_of(found))


def test_an_attack_saved_as_json_becomes_a_curve_and_rows(tmp_path, store):
    told = {
        "store": str(store),
        "measure": "attack",
        "settings": {"attack": "PGD", "norm": "linf", "eps": ["1/255", "4/255"]},
        "metrics": [
            {"name": "clean_accuracy", "value": 0.9, "n": 40, "ci95": [0.8, 0.95]},
            {"name": "accuracy@1/255", "value": 0.5, "n": 40, "ci95": [0.3, 0.6]},
            {"name": "accuracy@4/255", "value": 0.0, "n": 40, "ci95": None},
        ],
    }
    file = tmp_path / "attack.json"
    file.write_text(json.dumps(told), encoding="utf-8")
    page = page_of(write_report([store], tmp_path / "page.html", choices=ReportSettings(measured=[file]))[0])
    assert "Accuracy under attack" in page and "4/255" in page
    assert "<bdi>PGD/accuracy@1/255</bdi>" in page
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match="its measure is another"):
        write_report([store], tmp_path / "page.html", choices=ReportSettings(measured=[file]))


def attack_file(file: Path, store: Path, eps: dict[str, float], **settings: object) -> Path:
    """What `snellen features attack --json` prints, with these accuracies by strength."""
    metrics = [{"name": "clean_accuracy", "value": 0.9, "n": 40, "ci95": [0.8, 0.95], "coverage": 0.5}]
    metrics += [{"name": f"accuracy@{text}", "value": value, "n": 40, "ci95": None} for text, value in eps.items()]
    told = {
        "store": str(store / "probe.npz"),
        "measure": "attack",
        "settings": {"attack": "PGD", "norm": "linf", "output": "features", "eps": list(eps), **settings},
        "metrics": metrics,
        "notes": ["40 of the split's 80 pictures were attacked (--limit)."],
    }
    file.write_text(json.dumps(told), encoding="utf-8")
    return file


def test_strengths_of_decimals_over_255_are_read_and_a_files_notes_reach_the_page(tmp_path, store):
    file = attack_file(tmp_path / "attack.json", store, {"0.25/255": 0.8, "1/255": 0.4})
    page = page_of(write_report([store], tmp_path / "page.html", choices=ReportSettings(measured=[file]))[0])
    assert "0.25/255" in page
    assert "attack.json: 40 of the split&#39;s 80 pictures were attacked" in page
    assert "50.0 %" in page.split("<bdi>PGD/clean_accuracy</bdi>")[1].split("</tr>")[0]


def test_attacks_of_two_norms_are_drawn_apart_and_two_files_of_one_attack_are_two_rows(tmp_path, store):
    files = [
        attack_file(tmp_path / "one.json", store, {"1/255": 0.4}),
        attack_file(tmp_path / "two.json", store, {"1/255": 0.3}, steps=40),
        attack_file(tmp_path / "round.json", store, {"0.5": 0.2}, norm="l2"),
    ]
    page = page_of(write_report([store], tmp_path / "page.html", choices=ReportSettings(measured=files))[0])
    assert "<h3>Accuracy under attack · L∞</h3>" in page and "<h3>Accuracy under attack · L2</h3>" in page
    for row in ("PGD/accuracy@1/255", "PGD (two.json)/accuracy@1/255", "PGD L2/accuracy@0.5"):
        assert page.count(f"<bdi>{row}</bdi>") == 1


def test_a_general_set_is_a_line_of_its_own_beside_the_fine_grained_one(tmp_path, store):
    file = attack_file(tmp_path / "attack.json", store, {"1/255": 0.4})
    told = json.loads(file.read_text("utf-8"))
    told["metrics"] += [{**one, "name": f"general/{one['name']}", "value": 0.7} for one in told["metrics"]]
    file.write_text(json.dumps(told), encoding="utf-8")
    page = page_of(write_report([store], tmp_path / "page.html", choices=ReportSettings(measured=[file]))[0])
    drawing = page.split("<h3>Accuracy under attack</h3>")[1].split("</figure>")[0]
    assert ">PGD<" in drawing and ">PGD on the general set<" in drawing
    assert len(re.findall('id="robustness-PathCollection_', drawing)) == 4


def test_a_file_of_a_store_that_is_not_on_the_page_is_refused_and_not_passed_over(tmp_path, store):
    elsewhere = attack_file(tmp_path / "other.json", tmp_path / "other", {"1/255": 0.4})
    with pytest.raises(UsageError, match=r"other\.json is about the head .*other/probe\.npz over features"):
        write_report([store], tmp_path / "page.html", choices=ReportSettings(measured=[elsewhere]))
    output = attack_file(tmp_path / "output.json", store, {"1/255": 0.4}, output="cls")
    with pytest.raises(UsageError, match="over cls, and nothing on the page is"):
        write_report([store], tmp_path / "page.html", choices=ReportSettings(measured=[output]))


def test_a_head_over_several_outputs_stands_at_the_first_of_them(tmp_path, store):
    file = attack_file(tmp_path / "joined.json", store, {"1/255": 0.4}, output="features+patch_mean")
    page = page_of(write_report([store], tmp_path / "page.html", choices=ReportSettings(measured=[file]))[0])
    assert page.count("<bdi>PGD (features+patch_mean)/accuracy@1/255</bdi>") == 1


def test_corrupted_pictures_have_a_plot_and_rows_of_their_own(tmp_path, store):
    file = tmp_path / "grey.json"
    metrics = [
        {"name": "accuracy@blur:5", "value": 0.7, "n": 40, "ci95": [0.5, 0.8]},
        {"name": "drop@blur:5", "value": 0.1, "n": 40, "ci95": [0.0, 0.2]},
    ]
    told = {"store": str(store), "measure": "attack", "settings": {"corrupt": ["blur:5"]}, "metrics": metrics}
    file.write_text(json.dumps(told), encoding="utf-8")
    page = page_of(write_report([store], tmp_path / "page.html", choices=ReportSettings(measured=[file]))[0])
    assert "<h3>Accuracy on corrupted images</h3>" in page
    drawing = page.split("<h3>Accuracy on corrupted images</h3>")[1].split("</figure>")[0]
    assert "Dotted: without corruption" in drawing and "stroke-dasharray" in drawing
    assert "On corrupted images" in page and "Under attack" not in page
    assert page.count("<bdi>drop@blur:5</bdi>") == 1


def test_precision_at_each_recall_is_the_best_at_it_or_beyond():
    # One query; the gallery in the order of similarity is: right, wrong, right, wrong.
    values = np.array([[1, 0], [1, 0.1], [1, 0.2], [1, 0.3], [1, 0.4]], dtype=np.float32)
    from snellen.features.store.labels import from_array

    labels = from_array(np.array([0, 0, 1, 0, 1]), None, "labels", str)
    features = Features(values, labels, np.array(list("qabcd"), dtype=object), np.array([""] * 5, dtype=object))
    curve = precision_recall_curve(features, np.array([0]), np.arange(1, 5))
    assert curve.queries == 1
    assert curve.precision[:51] == pytest.approx(1.0)
    assert curve.precision[51:] == pytest.approx(2 / 3)
    assert curve.chance == pytest.approx(0.5)


def test_eight_stores_have_colours_of_their_own_and_a_ninth_another_line():
    levels = np.linspace(0.0, 1.0, 101)
    stores = [
        StoreView(f"s{i}", {}, {}, curve=PrecisionRecallCurve(levels, 1.0 - levels / (i + 1), 0.1, 9)) for i in range(9)
    ]
    drawing = render_features(stores).split("<h3>Precision and recall</h3>")[1].split("</figure>")[0]
    lines = re.findall(r"<path d=\"M [^>]{2000,}>", drawing, re.DOTALL)
    assert len(lines) == 9
    assert len({re.search(r"stroke=\"([^\"]+)\"", one).group(1) for one in lines}) == 8
    assert ["stroke-dasharray" in one for one in lines] == [False] * 8 + [True]


def test_a_note_of_several_stores_stands_once_and_says_whose_it_is():
    notes = [["Ties count.", "Only a."], ["Ties count."], ["Ties count.", "Of two."], ["Of two.", "Ties count."]]
    stores = [
        StoreView(name, {"rows": "9", "encoder": name}, {}, notes=own) for name, own in zip("abcd", notes, strict=True)
    ]
    page = render_features(stores)
    assert [page.count(note) for note in ("Ties count.", "Only a.", "Of two.")] == [1, 1, 1]
    assert re.search(r"Ties count\. <small class=\"whose\">All stores", page)
    assert re.search(r"Of two\. <small class=\"whose\"><bdi>c, d</bdi>", page)
    assert page.count("<dt>rows, all stores</dt>") == 1 and page.count("<dt>encoder</dt>") == 4


def test_a_row_says_once_what_its_intervals_are_clustered_by():
    by = IntervalMethod("cluster-robust Wilson", cluster="class", clusters=5)
    alone = IntervalMethod("Wilson")
    stores = [
        StoreView(
            f"s{i}",
            {},
            {
                "Scores": [
                    Metric("map", 0.5, 9, (0.4, 0.6), interval=by),
                    Metric("odd", 0.5, 9, (0.4, 0.6), interval=[by, alone][i % 2]),
                ]
            },
        )
        for i in range(4)
    ]
    page = render_features(stores)
    rows = [page.split(f"<bdi>{name}</bdi>")[1].split("</tr>")[0] for name in ("map", "odd")]
    assert [row.count("cluster-robust Wilson by class") for row in rows] == [1, 2]
    assert 'class="under">cluster-robust Wilson by class' in rows[0]


def test_the_sheet_goes_from_the_worst_query_to_the_best_and_never_shows_a_query_to_itself(store):
    features = open_store(store)
    found = retrieval(features.values, features.labels)
    quality = found.values["map"]
    asked = neighbour_sheet(features, found.rows, np.arange(len(features)), quality, count=5, neighbours=4)
    values = [quality[one.query.row] for one in asked]
    assert values == sorted(values) and len(asked) == 5
    assert values[0] == quality.min() and values[-1] == quality.max()
    for one in asked:
        assert len(one.neighbours) == 4 and one.query.row not in {near.row for near in one.neighbours}
        assert all(near.right == (near.name == one.query.name) for near in one.neighbours)


@pytest.mark.parametrize("sklearn", [True, False])
def test_the_map_keeps_classes_apart_and_says_how_it_was_made(store, sklearn, monkeypatch):
    if not sklearn:
        real = importlib.util.find_spec
        monkeypatch.setattr(
            "snellen.features.plot_data.find_spec", lambda name: None if name == "sklearn" else real(name)
        )
    features = open_store(store)
    flat = map_features(features, np.arange(len(features)))
    assert flat.reducer == ("t-SNE" if sklearn else "PCA")
    assert (flat.explained is None) == sklearn
    labels = features.labels.single
    assert labels is not None
    distance = np.linalg.norm(flat.points[:, None] - flat.points[None], axis=2) + np.eye(len(labels)) * 1e9
    assert (labels[distance.argmin(axis=1)] == labels).mean() > 0.9
    few = map_features(features, np.arange(len(features)), limit=20)
    assert (len(few.points), few.of) == (20, len(features))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.zeros((40, 5)), "vary in at most one direction"),
        (np.full((40, 5), 3.7), "vary in at most one direction"),
        (np.arange(1.0, 41.0)[:, None], "vary in at most one direction"),
        (np.eye(9), "Too few rows"),
    ],
)
def test_features_that_no_t_sne_can_begin_from_are_drawn_on_their_principal_axes(values, said):
    from snellen.features.store.labels import from_array

    count = len(values)
    labels = from_array(np.arange(count) % 2, None, "labels", str)
    names = np.array([str(row) for row in range(count)], dtype=object)
    features = Features(values.astype(np.float32), labels, names, np.array([""] * count, dtype=object))
    found = map_features(features, np.arange(count))
    assert found.reducer == "PCA" and said in found.why
    assert np.isfinite(found.points).all()


class Always(Model):
    """Says 3 whatever it is shown."""

    name = "always"

    def identity(self) -> dict[str, str]:
        return {"says": "3"}

    async def preflight(self) -> None:
        return None

    async def answer(self, prompt: Prompt) -> Response:
        return Response("3")

    async def close(self) -> None:
        return None


def digits_store(folder: Path) -> Path:
    """The chart's scans as features: their 64 grey levels."""
    from snellen.benchmarks.chart.digits import split

    parts = {name: split(name) for name in ("train", "test")}
    file = folder.with_suffix(".npz")
    np.savez(
        file,
        features=np.concatenate([scans.reshape(-1, 64) for scans, _ in parts.values()]).astype(np.float32),
        labels=np.concatenate([labels for _, labels in parts.values()]).astype(np.int64),
        split=np.array([name for name, (_, labels) in parts.items() for _ in labels]),
        ids=np.array([f"{name}/digit-{i:04}.png" for name, (_, labels) in parts.items() for i in range(len(labels))]),
    )
    return import_file(file, folder)


@pytest.fixture
def run(tmp_path):
    return evaluate("chart/digits", Always(), out=tmp_path / "run", benchmark_options={"questions": "100"})


def test_a_run_meets_the_probe_on_the_same_pictures(tmp_path, run):
    path, told = write_report(
        [digits_store(tmp_path / "digits")], tmp_path / "page.html", runs=[run], choices=ReportSettings(method="lda")
    )
    (joined,) = told["says_sees"]
    assert joined["settings"]["matched"] == "file names without folder and ending"
    classes = {one.name: one for one in joined["classes"]}
    assert sum(one.images for one in classes.values()) == 100
    # One of three questions is which digit it is: only threes are answered, and nothing else is ever said.
    assert classes["3"].answer > max(one.answer for name, one in classes.items() if name != "3")
    assert all(one.probe > 0.7 for one in classes.values())
    assert classes["7"].quadrant == "sees but does not say"
    notes = " ".join(joined["notes"])
    assert "100 answers are about several images or none; they are omitted." in notes
    assert "499 images of the probe's test rows" in notes
    page = page_of(path)
    assert "Says against sees" in page and "Where accuracy is lost" in page and "sees but does not say" in page


def test_a_quadrant_that_might_be_another_is_in_italics_and_the_others_are_not():
    ids = [f"{name}{i}" for name in "ab" for i in range(100)]
    classes = [name for name in "ab" for _ in range(100)]
    right = np.array([float(i < (100 if name == "a" else 55)) for name in "ab" for i in range(100)])
    found = says_sees(
        ProbeResults(ids, classes, right, 0.1), AnswerScores(ids, classes, np.ones(200), np.full(200, 0.5))
    )
    assert {one.name: one.clear for one in found.classes} == {"a": True, "b": False}
    page = render_features([StoreView("s", {}, {})], [JoinedView("s", "r", "m", found)])
    assert re.findall(r'data-label="quadrant"( class="unclear")?>', page) == [' class="unclear"', ""]
    assert "Joined by whole names." in page


def test_classes_whose_questions_are_guessed_unequally_are_told_so_below_the_plot():
    ids = [str(i) for i in range(40)]
    classes = ["a"] * 20 + ["b"] * 20
    for chance, told in ((np.repeat([0.5, 0.1], 20), True), (np.full(40, 0.3), False)):
        found = says_sees(ProbeResults(ids, classes, np.ones(40), 0.5), AnswerScores(ids, classes, np.ones(40), chance))
        assert ("colours use each class's own" in says_sees_plot(found, "", 0).caption) is told


def test_names_in_letters_that_matplotlib_lacks_cause_no_warning(recwarn):
    rows = [ClassAccuracy(i, name, 5, 5, 0.5, None) for i, name in enumerate(["白鷺", "gull"])]
    assert ">白鷺<" in render_features([StoreView("s", {}, {}, classes=rows)])
    assert not [one for one in recwarn if "Glyph" in str(one.message)]


def test_stores_and_runs_of_several_data_sets_meet_where_they_can(tmp_path, run):
    digits, birds = digits_store(tmp_path / "digits"), save(tmp_path / "birds")
    _, told = write_report([birds, digits], tmp_path / "page.html", runs=[run], choices=ReportSettings(method="ridge"))
    (joined,) = told["says_sees"]
    assert joined["store"] == str(digits)
    assert "birds is not compared with this run: probe and answers have no image in common" in " ".join(joined["notes"])
    with pytest.raises(UsageError, match="no image in common"):
        write_report([birds], tmp_path / "page.html", runs=[run], choices=ReportSettings(method="ridge"))


def test_questions_are_chosen_by_level_and_profile(run):
    said = joinable_answers(run)
    assert (said.level, len(said.says.value)) == ("digit", 300) or said.level == "all"
    assert set(np.round(said.says.chance, 3)) == {0.1, 0.25, 0.5}
    with pytest.raises(UsageError, match="has no questions at level 'species'"):
        joinable_answers(run, level="species")
    with pytest.raises(UsageError, match="takes one profile"):
        joinable_answers(run, profile="all")


def test_the_command_prints_one_json_object(
    tmp_path, store, capsys
):  # fmt: skip
    out = tmp_path / "page.html"
    assert main(["features", "report", str(store), "--out", str(out), "--json", "--method", "ridge"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["page"] == str(out) and out.exists()
    assert {one["measure"] for one in told["stores"]} == {"retrieval", "knn", "probe"}
    assert all({"name", "value", "n", "ci95"} <= one.keys() for part in told["stores"] for one in part["metrics"])


@pytest.mark.slow
def test_digits_go_from_pictures_to_says_against_sees(tmp_path, capsys):
    pytest.importorskip("torch")
    import runpy

    digits = tmp_path / "digits"
    example = Path(__file__).parents[2] / "examples" / "digits_set.py"
    assert runpy.run_path(str(example))["write"](digits) == 1_797
    feats, said = tmp_path / "feats", tmp_path / "answers"
    splits = [f"--split={digits}/{name}.csv" for name in ("train", "test")]
    steps = [
        ["features", "extract", "--encoder", "embedded", *splits, "--images", str(digits), "--out", str(feats)],
        ["features", "retrieval", str(feats), "--json"],
        ["features", "probe", str(feats), "--save", "--method", "lda", "--json"],
        ["run", "chart/digits", "--model", "embedded", "-o", "questions=60", "--out", str(said), "--quiet"],
        ["features", "report", str(feats), "--with", str(said), "--out", str(tmp_path / "page.html"), "--json", "--method", "lda"],
    ]  # fmt: skip
    outputs = []
    for step in steps:
        assert main(step) == 0
        outputs.append(capsys.readouterr().out)
    (joined,) = json.loads(outputs[-1])["says_sees"]
    values = {one["name"]: one["value"] for one in joined["metrics"]}
    assert values["probe_accuracy"] > 0.9 and values["answer_accuracy"] > 0.9
    assert sum(one["images"] for one in joined["classes"]) == 60
    assert "data:image/png" in page_of(tmp_path / "page.html")
