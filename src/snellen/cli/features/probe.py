"""snellen features probe: linear, MLP and attentive probes"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from snellen.cli import options as shared
from snellen.cli.features.shared import (
    AgainstOptions,
    Output,
    Preprocessing,
    Store,
    SweepOptions,
    compare_results,
    group,
    numbers,
    open_others,
    show_result,
    store_names,
    store_notes,
    sweep,
)
from snellen.cli.option_parsing import option
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.features.probes import Probe
    from snellen.features.probes.grid_probe import GridProbe
    from snellen.features.probes.network_probe import NetworkProbe
    from snellen.features.probes.networks import NetworkKind
    from snellen.features.store import Features
    from snellen.types import Metric

MAX_MISTAKES = 5


@dataclass(frozen=True)
class SplitOptions:
    """Rows to train on and to test on."""

    train: str | None = option("Rows to train on.", value="SPLIT", said="train, if there is one")
    test: str | None = option("Rows to test on.", value="SPLIT", said="test, if there is one")
    held_out: float = option("Share of train that selects among several.", 0.1, value="SHARE")
    seed: int = option("Seed of the held-out rows, of the draws of --shots and of the heads.", 0)
    folds: int = option("Folds of the cross-validation without a test split.", 5, least=2)


@dataclass(frozen=True)
class LinearOptions:
    """The linear layer."""

    method: Literal["logistic", "ridge", "lda", "heads"] = option(
        "logistic (L-BFGS to the minimum), ridge and lda (fast closed forms), or heads (DINOv2's grid).", "logistic"
    )
    standardise: Preprocessing = "none"
    c: str | None = option(
        "Candidate values of C, or of the penalty of ridge and lda; a single value is used directly.",
        value="LIST",
        said="45 from 1e-6 to 1e5",
    )


@dataclass(frozen=True)
class NetworkOptions:
    """Kind of probe, and settings of a network."""

    PANEL: ClassVar[str] = "MLP and attentive probes"

    probe: Literal["linear", "mlp", "attentive"] = option(
        "linear: see --method; mlp: one hidden layer; attentive: a learned query over the patch tokens of "
        "`extract --tokens`.",
        "linear",
    )
    hidden: int | None = option("Width of the hidden layer of mlp.", said="512", least=1)
    rates: str | None = option("Learning rates to choose from.", value="LIST", said="0.0001,0.0003,0.001,0.003")
    decays: str | None = option("Weight decays to choose from.", value="LIST", said="0.0005,0.05")

    def check(self, unsupported: dict[str, bool]) -> None:
        """Raise UsageError for options that this kind of probe lacks; `unsupported`: option to whether the user gave it."""
        if self.probe == "linear":
            settings = {"--hidden": self.hidden, "--rates": self.rates, "--decays": self.decays}
            for option, value in settings.items():
                if value is not None:
                    needed = "--probe mlp" if option == "--hidden" else "--probe mlp or attentive"
                    raise UsageError(f"{option} requires {needed}.", f"Add {needed}.")
            return
        unusable = [option for option, used in unsupported.items() if used]
        if self.probe == "attentive" and self.hidden is not None:
            unusable.append("--hidden")
        if unusable:
            raise UsageError(f"--probe {self.probe} takes no {', '.join(unusable)}.", "Omit these options.")


@dataclass(frozen=True)
class FewShotOptions:
    """Few-shot training."""

    shots: str | None = option("Few-shot: training rows per class, separated by commas.", value="LIST", said="all")
    tries: int = option("Number of draws of --shots.", 5, least=1)


@dataclass(frozen=True)
class GridOptions:
    """The grid of heads."""

    PANEL: ClassVar[str] = "The grid of heads"

    epochs: float | None = option(
        "Passes over train of heads, mlp and attentive.", said="12,500 steps of heads, else 2,000"
    )
    protocol: Literal["standard", "fgbmk-legacy"] = option(
        "fgbmk-legacy: 24 heads, Adam, and the best by test accuracy.", "standard", names=("--protocol", "--profile")
    )
    device: str = option("Device of heads, mlp and attentive, as torch names it.", "cpu")


@dataclass(frozen=True)
class DetailOptions:
    """Details beside the accuracy."""

    PANEL: ClassVar[str] = shared.OUTPUT

    per_class: bool = option("Print the accuracy of each class too.", False)
    calibration: bool = option("Report calibration: ece, nll and brier; not for ridge.", False)
    bins: int = option("Bins of equal width of ece.", 15, least=1)
    confusion: Path | None = option(
        "Write the confusion matrix to a CSV file; print the largest confusions.", value="FILE"
    )
    save: bool = option("Write the layer to STORE/probe.npz.", False)


@group.command()
def probe(
    store: Store,
    *,
    output: Output = None,
    splits: SplitOptions,
    linear: LinearOptions,
    network: NetworkOptions,
    few: FewShotOptions,
    grid: GridOptions,
    details: DetailOptions,
    comparison: AgainstOptions,
    sweeps: SweepOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Train a linear layer, an MLP or an attentive probe on the features of one split and test it on another.

    The penalty, or rate and decay, is chosen on a held-out part of train, never on test. Without the splits train and
    test, every row is tested once by stratified cross-validation.
    """
    from msgspec import to_builtins

    from snellen.features.probes import probe as train_probe
    from snellen.features.published import published_figures
    from snellen.features.store import open_store
    from snellen.features.store.format import PATCH_TOKENS
    from snellen.types import Metric

    method, standardise, c = linear.method, linear.standardise, linear.c
    of_linear = _given_of_linear(linear, grid, few, details)
    network.check(
        of_linear
        | ({"--output": output is not None, "--layers": sweeps.layers} if network.probe == "attentive" else {})
    )
    _check_details(details, method)
    if method == "heads" or grid.protocol == "fgbmk-legacy":
        if c is not None or standardise != "none" or few.shots is not None or details.per_class:
            raise UsageError("heads take no --c, --standardise, --shots or --per-class.", "Omit these options.")
        _require_alone(comparison, sweeps, "heads")
        _heads(store, output, splits, grid, details, as_json)
        return
    if grid.epochs is not None and network.probe == "linear":
        raise UsageError(
            "--epochs requires --method heads, --probe mlp or --probe attentive.", "Add one of these, or omit --epochs."
        )
    features = open_store(store, output)
    train, test = splits.train, splits.test
    if train is None and test is None:
        train, test = features.halves or (None, None)
    if details.save and few.shots is None and (train is None or test is None):
        raise UsageError("--save needs one layer, and cross-validation trains several.", "Name --train and --test.")
    if few.shots is not None:
        _require_alone(comparison, sweeps, "--shots")
        train, test = _split_of_shots(details, train, test)
        settings: dict[str, Any] = {"method": method, "standardise": standardise, "share": splits.held_out}
        settings["strengths"] = None if c is None else numbers(c, "--c", float, "0.01,1,100")
        _few_shot(
            store, features, train, test, numbers(few.shots, "--shots"), few.tries, splits.seed, settings, as_json
        )
        return
    compared, notes = open_others(features, output, comparison, sweeps)

    def measure(part: Features) -> Probe | NetworkProbe:
        if network.probe != "linear":
            rows = {"train_rows": train, "test_rows": test, "share": splits.held_out, "folds": splits.folds}
            return probe_network(part, network, grid.epochs, grid.device, seed=splits.seed, **rows)
        return train_probe(
            part.values,
            part.labels,
            train_rows=train,
            test_rows=test,
            split=part.split,
            method=method,
            standardise=standardise,
            strengths=None if c is None else numbers(c, "--c", float, "0.01,1,100"),
            share=splits.held_out,
            seed=splits.seed,
            folds=splits.folds,
        )

    fits = [measure(part) for part in compared]
    fitted = fits[0]
    metrics = fitted.metrics()
    if details.per_class:
        metrics += [
            Metric(f"accuracy/class/{row.name}", row.accuracy, row.test, row.ci95) for row in fitted.per_class()
        ]
    notes = [*store_notes(features), *notes, *fitted.notes()]
    output_name = PATCH_TOKENS if network.probe == "attentive" else features.name
    settings = {"output": output_name, "train": train, "test": test, **to_builtins(fitted.settings)}
    trained = dict(settings)
    _add_details(fitted, details, metrics, settings, notes, as_json)
    others, remarks, comparisons = compare_results(store_names(compared), fits, lambda fit: fit.metrics(), "query")
    layered, sweep_notes = sweep(features, sweeps, measure, lambda fit: fit.metrics(), metrics)
    metrics, notes = metrics + others + layered, notes + remarks + sweep_notes
    if as_json and comparisons:
        settings["comparisons"] = comparisons
    if details.save:
        notes.append(f"The layer was written to {_saved(fitted, store, features, trained)}.")
    published = published_figures(features, "probe") if network.probe == "linear" else ((), ())
    show_result(store, "probe", settings, metrics, notes, as_json, published)


def _given_of_linear(
    linear: LinearOptions, grid: GridOptions, few: FewShotOptions, details: DetailOptions
) -> dict[str, bool]:
    """Return which options of a linear probe were given, by name."""
    return {
        "--method": linear.method != "logistic",
        "--protocol": grid.protocol != "standard",
        "--standardise": linear.standardise != "none",
        "--c": linear.c is not None,
        "--shots": few.shots is not None,
        "--save": details.save,
    }


def _split_of_shots(details: DetailOptions, train: str | None, test: str | None) -> tuple[str, str]:
    """Return the splits of a few-shot probe; raise UsageError for options that want a single layer."""
    if details.save or details.per_class or details.calibration or details.confusion is not None:
        raise UsageError("--shots trains many layers.", "Omit --save, --per-class, --calibration and --confusion.")
    if train is None or test is None:
        raise UsageError("--shots draws rows of one split and tests on another.", "Name --train and --test.")
    return train, test


def _saved(fitted: Probe | NetworkProbe, store: Path, features: Features, settings: dict[str, Any]) -> Path:
    """Write the single layer of a probe into the store; return its file."""
    from msgspec.structs import replace

    from snellen.features.encoder_identity import training_identity
    from snellen.features.probes.network_probe import NetworkProbe

    if isinstance(fitted, NetworkProbe) or fitted.head is None:
        raise UsageError("--save needs one layer, and cross-validation trains several.", "Name --train and --test.")
    trained_on = {"store": str(store), "identity": training_identity(features)}
    return replace(fitted.head, settings={**settings, **trained_on}).save(Path(store))


def _heads(
    store: Path, output: str | None, splits: SplitOptions, grid: GridOptions, details: DetailOptions, as_json: bool
) -> None:
    from msgspec import to_builtins

    from snellen.features.encoder_identity import training_identity
    from snellen.features.probes import grid_probe as grids
    from snellen.features.probes.dinov2_grid import DINOV2, FGBMK_LEGACY
    from snellen.features.published import published_figures

    train, test = splits.train or "train", splits.test or "test"
    recipe = FGBMK_LEGACY if grid.protocol == "fgbmk-legacy" else DINOV2
    inputs = grids.find_inputs(store, recipe, output)
    protocol: Any = {"epochs": grid.epochs, "seed": splits.seed, "device": grid.device}
    fitted = grids.grid_probe(inputs, recipe, train=train, test=test, **protocol)
    settings = {"train": train, "test": test, **to_builtins(fitted.settings)}
    notes = [*store_notes(inputs.features), *fitted.notes()]
    metrics = fitted.metrics()
    _add_details(fitted, details, metrics, settings, notes, as_json)
    if details.save:
        identity = training_identity(inputs.features)
        head = grids.head_for_saving(fitted, train=train, test=test, store=str(store), identity=identity)
        notes.append(f"The layer was written to {head.save(Path(store))}; its input is {fitted.settings.output}.")
    if not as_json:
        del settings["trials"]
    published = published_figures(inputs.features, "probe")
    show_result(store, "probe", settings, metrics, notes, as_json, published)


def _require_alone(comparison: AgainstOptions, sweeps: SweepOptions, what: str) -> None:
    if comparison.against or sweeps.layers or sweeps.curve is not None:
        raise UsageError(f"{what} takes no --against, --layers or --curve.", "Omit these, or train single probes.")


def _check_details(details: DetailOptions, method: str) -> None:
    """Raise UsageError for details that this method lacks or a file that cannot be written, before training."""
    from snellen.engine.output_file import require_output_file
    from snellen.features.probes.calibration import NOT_PROBABILITIES

    if details.calibration and method == "ridge":
        raise UsageError(f"{NOT_PROBABILITIES}.", "Take --method logistic or lda, or omit --calibration.")
    if details.confusion is not None:
        require_output_file(details.confusion, "--confusion", (".csv",))


def _add_details(
    fitted: Probe | GridProbe | NetworkProbe,
    details: DetailOptions,
    metrics: list[Metric],
    settings: dict[str, Any],
    notes: list[str],
    as_json: bool,
) -> None:
    """Add calibration and confusion matrix to a result, as asked."""
    from msgspec import to_builtins

    if details.calibration:
        calibrated = fitted.calibration(details.bins)
        metrics += calibrated.metrics
        notes += calibrated.notes
        settings["bins"] = details.bins
        if as_json:
            settings["reliability"] = to_builtins(calibrated.bins)
    if details.confusion is not None:
        matrix = fitted.confusion()
        notes.append(f"The confusion matrix was written to {matrix.save(details.confusion)}.")
        notes += [
            f"{one.n:,} test rows of {one.true} ({one.share:.0%}) were taken for {one.predicted}."
            for one in matrix.mistakes()[:MAX_MISTAKES]
        ]


def _few_shot(
    store: Path,
    features: Features,
    train: str,
    test: str,
    ns: list[int],
    tries: int,
    seed: int,
    options: dict[str, Any],
    as_json: bool,
) -> None:
    from snellen.features.probes import NOT_CHOSEN
    from snellen.features.probes.few_shot import few_shot
    from snellen.features.ranking.relevance import select_rows
    from snellen.types import Metric

    count = len(features.values)
    train_rows, test_rows = (
        select_rows(split, features.split, count, role) for split, role in ((train, "train"), (test, "test"))
    )
    results = few_shot(
        features.values, features.labels, train_rows, test_rows, ns=ns, tries=tries, seed=seed, **options
    )
    metrics = [
        Metric(f"accuracy/{shot.n}-shot", shot.mean, len(test_rows), shot.ci95, chance=1.0 / shot.classes)
        for shot in results
    ]
    settings = {"output": features.name, "train": train, "test": test, **options, "tries": tries, "seed": seed}
    settings["accuracies"] = {str(shot.n): list(shot.accuracies) for shot in results}
    settings["sd"] = {str(shot.n): shot.sd for shot in results}
    notes = store_notes(features)
    for shot in results:
        if shot.short:
            notes.append(f"{shot.n}-shot: {shot.short:,} classes have fewer training rows; all of them are used.")
        if shot.not_chosen:
            notes.append(f"{shot.n}-shot, {shot.not_chosen} of {tries} tries: {NOT_CHOSEN}")
    if results and results[0].unseen:
        notes.append(f"{results[0].unseen:,} test rows have classes without training rows; they count as incorrect.")
    show_result(store, "probe", settings, metrics, notes, as_json)


def probe_network(
    features: Features, network: NetworkOptions, epochs: float | None, device: str, **protocol: Any
) -> NetworkProbe:
    """Train the probe on one store; `protocol`: rows, folds and seed as `network_probe` takes them.

    Raises:
        UsageError, DataError, MissingExtraError: as `network_probe`; DataError: a store without patch tokens.
    """
    from snellen.features.probes.network_probe import DECAYS, HIDDEN, RATES, NetworkTraining, network_probe
    from snellen.features.store import open_tokens

    values: Any = features.values
    if network.probe == "attentive":
        if features.path is None:
            raise RuntimeError("features without a store have no patch tokens")
        values = open_tokens(features.path)
        values = values if features.rows is None else values.take(features.rows)
    training = NetworkTraining(
        rates=RATES if network.rates is None else numbers(network.rates, "--rates", float, "1e-4,1e-3"),
        decays=DECAYS if network.decays is None else numbers(network.decays, "--decays", float, "0,0.05"),
        epochs=epochs,
        hidden=network.hidden or HIDDEN,
        device=device,
    )
    kind: NetworkKind = "attentive" if network.probe == "attentive" else "mlp"
    return network_probe(values, features.labels, kind=kind, split=features.split, training=training, **protocol)
