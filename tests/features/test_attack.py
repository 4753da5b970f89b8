from __future__ import annotations

import csv
import json

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("printed_as_schema")

torch = pytest.importorskip("torch")

from msgspec.structs import replace  # noqa: E402
from PIL import Image  # noqa: E402

from snellen.benchmarks.chart import digits  # noqa: E402
from snellen.cli import main  # noqa: E402
from snellen.errors import DataError, SnellenError, UsageError  # noqa: E402
from snellen.features.attacks import classifier, pgd  # noqa: E402
from snellen.features.attacks.pgd import Ball, random_starts  # noqa: E402
from snellen.features.attacks.robust_accuracy import attack_curve, compare_sets, join_curves, parse_strength  # noqa: E402
from snellen.features.encoders import open_encoder  # noqa: E402
from snellen.features.probes.head import ProbeHead, Scaling  # noqa: E402

SHAPE = (3, 6, 6)


def linear(classes: int = 4, scale: float = 1.0, kind: torch.dtype = torch.float32) -> torch.nn.Module:
    torch.manual_seed(1)
    layer = torch.nn.Linear(108, classes)
    with torch.no_grad():
        layer.weight.mul_(scale)
        layer.bias.mul_(scale)
    return torch.nn.Sequential(torch.nn.Flatten(), layer).to(kind)


def curved() -> torch.nn.Module:
    torch.manual_seed(2)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(288, 5)
    )


def pictures(count: int = 24, kind: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(7), dtype=kind)


def restated(model, images, labels, eps, alpha, steps):
    """PGD as torchattacks takes its steps, in the precision of the model: the plain reading of Madry et al. 2018."""
    moved = images.clone()
    for _ in range(steps):
        moved.requires_grad_(True)
        loss = torch.nn.functional.cross_entropy(model(moved), labels)
        (slope,) = torch.autograd.grad(loss, moved)
        moved = moved.detach() + alpha * slope.sign()
        moved = (images + (moved - images).clamp(-eps, eps)).clamp(0, 1)
    return moved


@pytest.fixture(scope="module")
def embedded():
    """The embedded tower's patch mean with a ridge head on real digits; its test pictures and labels."""
    encoder = open_encoder("embedded", ["patch_mean"])
    shown, features = {}, {}
    for name, some in (("train", 400), ("test", 120)):
        scans, labels = digits.split(name)
        grey = np.stack([digits.enlarged(scan, 48) for scan in scans[:some]])
        shown[name] = torch.from_numpy(np.repeat(grey[:, None], 3, axis=1).astype(np.float32) / 255), labels[:some]
        with torch.no_grad():
            features[name] = encoder.forward_pixels(shown[name][0])["patch_mean"].double().numpy()
    known, labels = features["train"], shown["train"][1].astype(int)
    mean, scale = known.mean(axis=0), known.std(axis=0)
    rows = (known - mean) / scale
    weights = np.linalg.solve(rows.T @ rows + 4 * np.eye(128), rows.T @ (np.eye(10)[labels] - 0.1))
    head = ProbeHead(weights * 20, np.full(10, 0.1), Scaling("standardise", mean, scale), np.arange(10))
    return encoder, head, shown["test"][0], torch.from_numpy(shown["test"][1].astype(np.int64))


@pytest.mark.parametrize("eps", [0.0, 1.0, 4.0])
def test_the_embedded_model_falls_to_the_same_pictures_as_under_torchattacks(embedded, eps):
    torchattacks = pytest.importorskip("torchattacks", reason="pip install --no-deps torchattacks")
    encoder, head, images, labels = embedded
    model = classifier.build_classifier(encoder, head)
    mine = pgd.pgd(model, images, labels, eps=eps / 255, steps=5, alpha=1 / 255, starts=None)
    peer = torchattacks.PGD(model, eps=eps / 255, alpha=1 / 255, steps=5, random_start=False)
    theirs = pgd.predictions(model, peer(images, labels))
    assert (mine.predicted == theirs).all()
    assert 0.9 < (pgd.predictions(model, images) == labels.numpy()).mean() < 1
    assert eps < 4 or mine.correct.mean() < 0.85


def test_an_l2_attack_breaks_the_same_pictures_as_torchattacks(embedded):
    torchattacks = pytest.importorskip("torchattacks", reason="pip install --no-deps torchattacks")
    encoder, head, images, labels = embedded
    # torchattacks adds 1e-10 to a gradient's length, which cuts its steps short where a model is sure; this one is not.
    model = classifier.build_classifier(encoder, replace(head, weights=head.weights / 20))
    mine = pgd.pgd(model, images, labels, eps=0.7, steps=4, alpha=0.3, norm="l2", starts=None)
    peer = torchattacks.PGDL2(model, eps=0.7, alpha=0.3, steps=4, random_start=False)
    assert (mine.predicted == pgd.predictions(model, peer(images, labels))).all()
    assert not mine.correct.all()
    assert mine.distance.max() <= 0.7 * (1 + 1e-5)


def test_steps_are_those_of_the_plain_reading_to_the_last_pixel_in_float64():
    model, images, labels = curved().double(), pictures(kind=torch.float64), torch.arange(24) % 5
    mine = pgd.pgd(model, images, labels, eps=6 / 255, steps=7, alpha=2 / 255, starts=None)
    theirs = restated(model, images, labels, 6 / 255, 2 / 255, 7)
    assert (mine.images - theirs).abs().max() < 1e-15
    assert (mine.predicted == model(theirs).argmax(1).numpy()).all()


def test_a_confident_model_is_attacked_where_float32_sees_no_gradient():
    model, images = linear(scale=3_000), pictures()
    labels = torch.from_numpy(pgd.predictions(model, images))
    sure = model(images)
    assert (pgd.margin(sure, labels) < -17).float().mean() > 0.8
    naive = restated(model, images, labels, 0.2, 0.04, 10)
    mine = pgd.pgd(model, images, labels, eps=0.2, steps=10, alpha=0.04, starts=None)
    still = pgd.predictions(model, naive) == labels.numpy()
    assert still.mean() > 0.5
    assert mine.correct.mean() < 0.1
    # The same model at a thousandth of its scale decides alike, and there float32 sees all there is to see.
    calm = restated(linear(scale=3), images, labels, 0.2, 0.04, 10)
    assert ((pgd.predictions(model, calm) == labels.numpy()) == mine.correct).all()


def test_float32_gradients_of_a_confident_softmax_have_wrong_signs_and_ours_do_not():
    labels = torch.zeros(1, dtype=torch.int64)
    logits = torch.tensor([[60.0, 20.0, 10.0, 0.0]], requires_grad=True)
    (rounded,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, labels), logits)
    assert rounded[0, 0] == 0  # the label's own logit has no share in what float32 follows
    exact = pgd.gradient_in_logits(logits, labels)
    assert exact[0, 0] == -1
    assert exact.sum().abs() < 1e-15
    assert (exact[0, 1:] > 0).all()
    # A weight that lowers all logits by the same is no way up: float32 says it is.
    direction = torch.tensor([[1.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    assert (rounded.double() * direction).sum() > 0
    assert (exact * direction).sum().abs() < 1e-15


def test_the_gradient_is_the_cross_entropys_over_1_minus_p():
    logits = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3), requires_grad=True)
    labels = torch.tensor([0, 1, 2, 3, 4, 0])
    loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
    (plain,) = torch.autograd.grad(loss, logits)
    rest = 1 - logits.detach().softmax(1).gather(1, labels[:, None])
    assert torch.allclose(pgd.gradient_in_logits(logits, labels), plain / rest, atol=1e-14)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("eps", [0.25 / 255, 4 / 255, 0.5])
def test_every_attacked_image_lies_in_the_ball_and_in_its_bounds(norm, eps):
    images = pictures()
    images[0], images[1] = 0.0, 1.0
    found = pgd.pgd(curved(), images, torch.arange(24) % 5, eps=eps, norm=norm, alpha=eps, starts=pgd.RandomStarts(2))
    away = (found.images.double() - images.double()).flatten(1)
    if norm == "linf":
        assert away.abs().max() <= eps  # exactly: no rounding leads out
    else:
        assert away.norm(dim=1).max() <= eps * (1 + 1e-5) + 1e-6
    assert found.images.min() >= 0
    assert found.images.max() <= 1
    assert found.distance.max() > 0.9 * eps


def test_an_image_outside_its_ball_or_bounds_ends_the_attack():
    images = pictures(3)
    ball = Ball(images, 0.1, "linf", (0.0, 1.0))
    ball.require(images, 0)
    for wrong in (images + 0.11, images - 2.0):
        with pytest.raises(SnellenError, match=r"image 5 .*at most 0\.1 \(linf\)"):
            ball.require(wrong, 5)
    with pytest.raises(SnellenError, match=r"at most 0\.1"):
        Ball(images, 0.1, "l2", (0.0, 1.0)).require((images + 0.05).clamp(0, 1), 0)


def test_random_starts_follow_from_the_id_and_not_from_batch_or_order():
    model, images, labels = curved().double(), pictures(kind=torch.float64), torch.arange(24) % 5
    ids = [f"bird {i}.jpg" for i in range(24)]
    settings = {"eps": 4 / 255, "steps": 3, "starts": pgd.RandomStarts(2, 5)}
    whole = pgd.pgd(model, images, labels, ids=ids, **settings)
    order = torch.randperm(24, generator=torch.Generator().manual_seed(0))
    other = pgd.pgd(model, images[order], labels[order], ids=[ids[i] for i in order.tolist()], batch_size=7, **settings)
    assert (other.images - whole.images[order]).abs().max() < 1e-12
    again = pgd.pgd(model, images, labels, ids=ids, **{**settings, "starts": pgd.RandomStarts(2, 6)})
    assert (again.images - whole.images).abs().max() > 1e-3


def test_starts_fill_the_ball_and_differ_between_restarts():
    box = random_starts(["a", "b"], (3, 50, 50), "linf", 0, 0)
    assert -1 < box.min() < -0.99
    assert 0.99 < box.max() < 1
    assert abs(box.mean()) < 0.02
    assert not np.allclose(box[0], box[1])
    assert not np.allclose(box[0], random_starts(["a"], (3, 50, 50), "linf", 0, 1)[0])
    assert np.array_equal(box[1], random_starts(["b"], (3, 50, 50), "linf", 0, 0)[0])
    lengths = np.linalg.norm(random_starts([str(i) for i in range(400)], (7,), "l2", 0, 0), axis=1)
    assert lengths.max() <= 1
    assert abs(lengths.mean() - 0.5) < 0.05


def test_restarts_only_ever_break_more():
    model, images = curved(), pictures(40)
    labels = torch.from_numpy(pgd.predictions(model, images))
    right = [
        pgd.pgd(model, images, labels, eps=2 / 255, steps=2, starts=pgd.RandomStarts(n)).correct for n in (1, 2, 6)
    ]
    assert (right[0] >= right[1]).all()
    assert (right[1] >= right[2]).all()
    assert right[2].sum() < 40


def test_a_targeted_attack_leads_to_its_target():
    model, images = curved(), pictures(30)
    labels = torch.from_numpy(pgd.predictions(model, images))
    targets = (labels + 1) % 5
    found = attack_curve(model, images, labels, eps=["0", "0.4"], steps=20, targets=targets)
    assert found.reached[0].sum() == 0
    assert found.reached[1].mean() > 0.9
    assert [one.name for one in found.metrics()][-1] == "target_rate@0.4"


def test_fgsm_is_one_step_along_the_sign():
    model, images, labels = linear(), pictures(), torch.arange(24) % 4
    found = pgd.fgsm(model, images, labels, eps=0.01)
    assert torch.allclose(found.images, restated(model, images, labels, 0.01, 0.01, 1), atol=1e-7)
    told = attack_curve(model, images, labels, eps=[0.01], steps=1, alpha="eps", starts=None)
    assert told.settings.attack == "FGSM"
    assert (told.correct[0] == found.correct).all()


def test_the_legacy_attack_moves_in_normalised_space_and_its_eps_never_binds():
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    model, images, labels = curved(), pictures(), torch.arange(24) % 5
    shift, scale = (torch.tensor(one).view(1, 3, 1, 1) for one in (mean, std))
    normal = ((images - shift) / scale).clone()
    moved = normal.clone()
    for _ in range(20):
        moved.requires_grad_(True)
        loss = torch.nn.functional.cross_entropy(model(moved * scale + shift), labels)
        (slope,) = torch.autograd.grad(loss, moved)
        moved = normal + (moved.detach() + slope.sign() / 255 - normal).clamp(-0.2, 0.2)
    found = pgd.fgbmk_legacy(model, images, labels, mean=mean, std=std, steps=20)
    assert (found.images - moved).abs().max() < 1e-3
    assert found.distance.max() == pytest.approx(20 / 255, abs=5e-6)
    pixels = found.images * scale + shift
    assert pixels.min() < 0 or pixels.max() > 1
    with pytest.raises(UsageError, match="10 or 20"):
        pgd.fgbmk_legacy(model, images, labels, mean=mean, std=std, steps=15)


def test_a_module_gets_its_training_mode_back_and_is_attacked_without_dropout():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.9), torch.nn.Linear(108, 3))
    model[0].eval()
    images, labels = pictures(), torch.zeros(24, dtype=torch.int64)
    first = pgd.pgd(model, images, labels, eps=0.01, starts=None)
    assert [one.training for one in model.modules()] == [True, False, True, True]
    second = pgd.pgd(model, images, labels, eps=0.01, starts=None)
    assert torch.equal(first.images, second.images)
    assert model[2].weight.grad is None


def test_images_without_a_gradient_are_counted_and_told():
    def stuck(images):
        return torch.stack([images.flatten(1).sum(1).round(), torch.zeros(len(images))], dim=1)

    found = attack_curve(stuck, pictures(8), torch.zeros(8, dtype=torch.int64), eps=["1/255"], starts=None)
    assert found.blind.all()
    assert any("never attacked" in one for one in found.notes())


def test_accuracy_over_eps_has_the_clean_one_first_and_an_interval_each():
    model, images = curved(), pictures(30)
    labels = torch.from_numpy(pgd.predictions(model, images))
    labels[0] = (labels[0] + 1) % 5
    found = attack_curve(model, images, labels, eps=["0", "0.25/255", "8/255"], steps=4)
    metrics = {one.name: one for one in found.metrics()}
    assert list(metrics) == ["clean_accuracy", "accuracy@0", "accuracy@0.25/255", "accuracy@8/255"]
    assert metrics["clean_accuracy"].value == metrics["accuracy@0"].value == pytest.approx(29 / 30)
    assert metrics["accuracy@8/255"].value < metrics["accuracy@0.25/255"].value
    assert metrics["clean_accuracy"].chance == pytest.approx(0.2)
    assert all(one.ci95 is not None and one.n == 30 for one in metrics.values())
    assert found.settings.alpha == pytest.approx((0.0, 2.5 * 0.25 / 255 / 4, 2.5 * 8 / 255 / 4))
    parts = [attack_curve(model, images[k], labels[k], eps=["8/255"], steps=4, ids=list(map(str, range(30)))[k]) for k in (slice(0, 11), slice(11, 30))]  # fmt: skip
    assert (join_curves(parts).correct[0] == found.correct[2]).all()


def test_a_general_and_a_fine_grained_set_are_compared_by_what_they_keep():
    easy, hard = linear(2, 1.0), curved()
    images = pictures(60)
    first = attack_curve(easy, images, pgd.predictions(easy, images), eps=["1/255"])
    second = attack_curve(hard, images, pgd.predictions(hard, images), eps=["1/255"])
    (one,) = compare_sets(first, second)
    assert one.n == (60, 60)
    assert one.difference == pytest.approx(one.kept_shares[0] - one.kept_shares[1])
    assert one.ci95[0] < one.difference < one.ci95[1]
    (swapped,) = compare_sets(second, first)
    assert swapped.ci95 == pytest.approx((-one.ci95[1], -one.ci95[0]))
    with pytest.raises(UsageError, match="different settings"):
        compare_sets(first, attack_curve(hard, images, [0] * 60, eps=["2/255"]))


@pytest.mark.parametrize(
    ("images", "labels", "said"),
    [
        (pictures(3) * 255, [0, 1, 2], "image 0 has values"),
        (pictures(3).to(torch.uint8), [0, 1, 2], "float32 or float64"),
        (pictures(3), [0, 1, 4], "the label 4 is no column"),
        (pictures(3), [0, 1], r"labels are \[2\]"),
        (pictures(3) * torch.nan, [0, 1, 2], "image 0 has values"),
    ],
)
def test_what_cannot_be_attacked_is_refused(images, labels, said):
    with pytest.raises(DataError, match=said):
        pgd.pgd(linear(), images, labels, eps=0.01)


def test_settings_that_mean_nothing_are_refused():
    model, images, labels = linear(), pictures(2), [0, 1]
    for wrong in ({"eps": -0.1}, {"steps": 0}, {"norm": "l1"}, {"starts": pgd.RandomStarts(0)}, {"alpha": 0.0}):
        with pytest.raises(UsageError):
            pgd.pgd(model, images, labels, **{"eps": 0.01, **wrong})
    with pytest.raises(DataError, match="not all finite"):
        pgd.pgd(linear(scale=torch.inf), images, labels, eps=0.01)
    with pytest.raises(UsageError, match="no gradient"):
        pgd.pgd(lambda x: model(x).detach(), images, labels, eps=0.01)


def test_strengths_are_read_as_fractions():
    assert parse_strength("4/255") == 4 / 255
    assert parse_strength(" 0.25/255") == pytest.approx(0.25 / 255)
    assert parse_strength("0") == 0
    assert parse_strength("1e-3") == pytest.approx(0.001)
    assert parse_strength("0.25/255") == 0.25 / 255
    for wrong in ("x", "1/0", "-1/255", "", "nan", "inf", "1e400", "1e999999999", "1/", "/2", "1_0", "٣"):
        with pytest.raises(UsageError):
            parse_strength(wrong)


@pytest.fixture(scope="module")
def split(tmp_path_factory, embedded):
    """A folder of digits as PNG with test.csv, and the head."""
    root = tmp_path_factory.mktemp("digits")
    scans, labels = digits.split("test")
    with (root / "test.csv").open("w", newline="") as table:
        rows = csv.writer(table, lineterminator="\n")
        for i in range(40):
            Image.fromarray(digits.enlarged(scans[i], 96)).save(root / f"digit {i}.png")
            rows.writerow([f"digit {i}.png", int(labels[i])])
    embedded[1].save(root / "probe.npz")
    return root


@pytest.fixture
def asked(split, capsys):
    """The command's JSON."""

    def run(*more):
        given = ["--encoder", "embedded", "--head", f"{split}/probe.npz", "--output", "patch_mean", "--json"]
        status = main(["features", "attack", *given, "--split", f"{split}/test.csv", "--images", str(split), *more])
        out, err = capsys.readouterr()
        assert status == 0, err
        return json.loads(out)

    return run


def test_the_command_attacks_a_split_of_pictures(asked):
    told = asked("--eps", "1/255,4/255", "--steps", "3", "--limit", "20", "--no-random-start")
    assert told["measure"] == "attack"
    values = {one["name"]: one["value"] for one in told["metrics"]}
    assert set(values) == {"clean_accuracy", "accuracy@1/255", "accuracy@4/255"}
    assert values["accuracy@4/255"] < values["clean_accuracy"]
    assert told["metrics"][0]["n"] == 20
    assert told["settings"]["norm"] == "linf"
    assert any("20 of the split's 40" in one for one in told["notes"])


def test_an_attack_starts_at_given_points_and_ends_where_that_of_its_random_starts_ends():
    model, images, labels = some_problem()
    eps, seed = 0.1, 3
    drawn = random_starts([str(i) for i in range(len(images))], tuple(images.shape[1:]), "linf", seed, 0)
    points = images + eps * torch.from_numpy(drawn).to(images.dtype)
    want = pgd.pgd(model, images, labels, eps=eps, steps=3, starts=pgd.RandomStarts(1, seed), batch_size=4)
    got = pgd.pgd(model, images, labels, eps=eps, steps=3, starts=pgd.GivenStarts(points), batch_size=3)
    assert torch.equal(got.images, want.images)
    both = torch.stack([images, points])
    several = pgd.pgd(model, images, labels, eps=eps, steps=3, starts=pgd.GivenStarts(both), batch_size=3)
    alone = pgd.pgd(model, images, labels, eps=eps, steps=3, starts=None)
    assert several.correct.tolist() == (alone.correct & got.correct).tolist() and several.restarts == 2
    far = pgd.pgd(model, images, labels, eps=eps, steps=1, alpha=1e-9, starts=pgd.GivenStarts(images + 5))
    assert far.distance.max() <= eps + 1e-6
    for wrong in (points[:-1], points[None, :, :1], torch.full_like(points, torch.nan)):
        with pytest.raises(DataError):
            pgd.pgd(model, images, labels, eps=eps, starts=pgd.GivenStarts(wrong))


def some_problem():
    """A linear model on 11 small images."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 4 * 4, 5))
    images = torch.rand(11, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    return model, images, torch.arange(11) % 5


def test_the_command_starts_at_the_images_of_a_file(asked, tmp_path, split, capsys):
    ids = np.array([f"digit {i}.png" for i in range(40)])
    size = 48
    grey = np.full((40, 3, size, size), 128, dtype=np.uint8)
    np.savez(tmp_path / "starts.npz", ids=ids, images=grey)
    told = asked("--eps", "4/255", "--steps", "2", "--limit", "10", "--starts", str(tmp_path / "starts.npz"))
    assert told["settings"]["given_starts"] is True and told["settings"]["random_start"] is False
    plain = asked("--eps", "4/255", "--steps", "2", "--limit", "10", "--no-random-start")
    assert plain["settings"]["given_starts"] is False
    given = ["--encoder", "embedded", "--head", f"{split}/probe.npz", "--output", "patch_mean"]
    command = ["features", "attack", *given, "--split", f"{split}/test.csv", "--images", str(split), "--starts"]
    np.savez(tmp_path / "few.npz", ids=ids[:2], images=grey[:2])
    np.savez(tmp_path / "small.npz", ids=ids, images=grey[..., :20])
    np.savez(tmp_path / "twice.npz", ids=ids[[0, 0]], images=grey[:2])
    np.savez(tmp_path / "none.npz", images=grey)
    (tmp_path / "text.npz").write_text("no zip")
    for name, said in (
        ("few", "no image"),
        ("small", "encoder takes"),
        ("twice", "1 different"),
        ("none", "no starts"),
        ("text", "text.npz"),
        ("gone", "gone.npz"),
    ):
        assert main([*command, str(tmp_path / f"{name}.npz")]) == DataError.exit_code
        assert said in capsys.readouterr().err
    assert main([*command, str(tmp_path / "starts.npz"), "--restarts", "2"]) == UsageError.exit_code


def test_the_command_shows_corrupted_pictures_and_the_legacy_attack(asked):
    told = asked("--corrupt", "blur:1", "--corrupt", "salt-pepper:60+grey", "--limit", "20")
    values = {one["name"]: one["value"] for one in told["metrics"]}
    assert set(values) == {"accuracy@blur:1", "drop@blur:1", "accuracy@salt-pepper:60,grey", "drop@salt-pepper:60,grey"}
    assert values["drop@blur:1"] == 0
    assert values["drop@salt-pepper:60,grey"] > 0
    legacy = asked("--method", "fgbmk-legacy", "--steps", "10", "--limit", "10")
    assert [one["name"] for one in legacy["metrics"]] == ["clean_accuracy", "accuracy@fgbmk-legacy-10"]
    assert any("for comparison" in one for one in legacy["notes"])


def test_the_command_compares_a_general_set_and_leads_to_a_class(asked, split, capsys):
    beside = ["--general", str(split / "test.csv"), "--general-head", str(split / "probe.npz")]
    told = asked("--eps", "2/255", "--steps", "2", "--limit", "10", *beside)
    values = {one["name"]: one["value"] for one in told["metrics"]}
    assert values["kept_difference@2/255"] == 0
    assert values["general/clean_accuracy"] == values["clean_accuracy"]
    both = asked("--eps", "2/255", "--steps", "2", "--limit", "10", "--target", "least-likely", *beside)
    assert {"target_rate@2/255", "general/target_rate@2/255"} <= {one["name"] for one in both["metrics"]}
    given = ["--encoder", "embedded", "--head", f"{split}/probe.npz", "--split", f"{split}/test.csv", "--target", "3"]
    assert main(["features", "attack", *given, "--images", str(split), *beside]) == 2
    assert "--target 3 is a class of --split; --general has other classes" in capsys.readouterr().err
    led = asked("--eps", "16/255", "--steps", "10", "--limit", "10", "--target", "3")
    assert {one["name"]: one["value"] for one in led["metrics"]}["target_rate@16/255"] > 0.5


def test_from_pictures_to_an_attacked_probe_the_accuracy_without_attack_is_the_probes(split, tmp_path, capsys):
    def run(*words):
        status = main(["features", *map(str, words), "--json"])
        out, err = capsys.readouterr()
        assert status == 0, err
        return json.loads(out)

    scans, labels = digits.split("train")
    with (tmp_path / "train.csv").open("w", newline="") as table:
        for i in range(80):
            Image.fromarray(digits.enlarged(scans[i], 96)).save(split / f"train {i}.png")
            csv.writer(table, lineterminator="\n").writerow([f"train {i}.png", int(labels[i])])
    both = ["--split", tmp_path / "train.csv", "--split", split / "test.csv"]
    store = tmp_path / "store"
    run("extract", "--encoder", "embedded", "--outputs", "patch_mean", *both, "--images", split, "--out", store)
    probed = run("probe", store, "--save", "--c", "1")
    attacked = ["attack", "--head", store, "--split", split / "test.csv", "--images", split, "--eps", "0,2/255"]
    told = run(*attacked, "--encoder", "embedded", "--steps", "2", "--no-random-start")
    values = {one["name"]: one["value"] for one in told["metrics"]}
    assert values["clean_accuracy"] == values["accuracy@0"] == probed["metrics"][0]["value"]
    assert told["settings"]["output"] == "patch_mean"
    assert told["notes"] == []
    # A store whose pictures were prepared otherwise: no attack on a head that never saw such pictures.
    meta = store / "store.json"
    meta.write_text(meta.read_text().replace('"bicubic"', '"bilinear"'))
    status = main(["features", *map(str, attacked), "--encoder", "embedded"])
    assert status == 5
    assert "preprocessed with another transform" in capsys.readouterr().err
