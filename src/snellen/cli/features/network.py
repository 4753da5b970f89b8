"""snellen features probe --probe mlp|attentive: options, and the probe of one store's features or patch tokens"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from snellen.errors import UsageError
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.features.probes.network_probe import NetworkProbe
    from snellen.features.probes.networks import NetworkKind
    from snellen.features.store import Features

PANEL = "MLP and attentive probes"


@dataclass(frozen=True)
class NetworkOptions:
    """Kind of probe, and settings of a network."""

    PANEL: ClassVar[str] = PANEL

    probe: Annotated[
        Literal["linear", "mlp", "attentive"],
        typer.Option(
            "--probe",
            help="linear: see --method; mlp: one hidden layer; attentive: a learned query over the patch tokens of "
            "`extract --tokens`.",
        ),
    ] = "linear"
    hidden: Annotated[int | None, typer.Option(min=1, help="Width of the hidden layer of mlp.", show_default="512")] = (
        None
    )
    rates: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Learning rates to choose from.", show_default="0.0001,0.0003,0.001,0.003"),
    ] = None
    decays: Annotated[
        str | None, typer.Option(metavar="LIST", help="Weight decays to choose from.", show_default="0.0005,0.05")
    ] = None

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
        rates=RATES if network.rates is None else _numbers("--rates", network.rates, "1e-4,1e-3"),
        decays=DECAYS if network.decays is None else _numbers("--decays", network.decays, "0,0.05"),
        epochs=epochs,
        hidden=network.hidden or HIDDEN,
        device=device,
    )
    kind: NetworkKind = "attentive" if network.probe == "attentive" else "mlp"
    return network_probe(values, features.labels, kind=kind, split=features.split, training=training, **protocol)


def _numbers(option: str, text: str, example: str) -> list[float]:
    try:
        numbers = [float(number) for number in comma_list(text)]
    except ValueError:
        numbers = []
    if not numbers:
        raise UsageError(f"{option} {text}: numbers separated by commas were expected", f"Example: {option} {example}.")
    return numbers
