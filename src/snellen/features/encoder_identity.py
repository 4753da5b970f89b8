"""Encoder identity of feature stores: which encoder made them, and checks that two stores share one.

Features of two encoders differ in everything: a difference between them says nothing about a projector, and a layer
trained on the ones means nothing on the others. What `snellen features extract` wrote is known by its weights; imported
features name no encoder, so of these nothing can be checked and that is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from snellen.errors import DataError
from snellen.features.store import Features

IMPORTED = "imported features, whose encoder is unknown"


def encoder_of(features: Features) -> Mapping[str, Any] | None:
    """Return the encoder's weights by content or commit, as the store records them; None if it names no encoder."""
    if features.meta is None or features.meta.kind != "extracted":
        return None
    recorded = features.meta.identity.get("encoder")
    return recorded if isinstance(recorded, Mapping) and recorded else None


def encoder_name(features: Features) -> str:
    """Return the encoder's name as given for the extraction; "" if the store names none."""
    return "" if features.meta is None else str(features.meta.origin.get("encoder") or "")


def encoder_and_dataset(features: Features) -> tuple[str, str]:
    """Return a store's encoder and data set: who extracted it, and the folder of its csv files; else its own name."""
    origin = features.meta.origin if features.meta is not None else {}
    folder = features.path.name if features.path is not None else features.name
    splits = origin.get("splits") or []
    dataset = Path(str(splits[0]).rpartition("=")[2]).resolve().parent.name if splits else folder
    return encoder_name(features) or folder, dataset or folder


def describe_features(features: Features) -> str:
    """Describe output and encoder for messages: `aligned of hf:llava-hf/llava-1.5-7b-hf, 4,096 wide`."""
    of = encoder_name(features) or (IMPORTED if encoder_of(features) is None else "an encoder without a name")
    return f"{features.name} of {of}, {features.values.shape[1]:,} wide"


def find_stage_faults(raw: Features, aligned: Features, matched: Features | None = None) -> list[str]:
    """Return the reasons not to compare these as stages of one model, one sentence each.

    Raw and aligned features are of one checkpoint. Those of a matched projector are of another checkpoint of the same
    kind and widths.
    """
    faults = list(_pair_faults("raw", raw, "aligned", aligned))
    if matched is None:
        return faults
    encoders = [encoder_of(features) for features in (aligned, matched)]
    if encoders[0] is not None and encoders[0] == encoders[1]:
        faults.append("aligned and matched are of the same checkpoint, so no second projector is compared.")
    kinds = [None if encoder is None else encoder.get("kind") for encoder in encoders]
    if all(kinds) and kinds[0] != kinds[1]:
        faults.append(f"aligned is of a model of type {kinds[0]}, matched of one of type {kinds[1]}.")
    if aligned.values.shape[1] != matched.values.shape[1]:
        widths = f"{aligned.values.shape[1]:,} and {matched.values.shape[1]:,}"
        faults.append(f"aligned and matched have different widths, {widths}: they are not of one language model.")
    faults += _transform_faults("aligned", aligned, "matched", matched)
    return faults


def require_stages(stages: Mapping[str, Features], *, anyway: bool = False) -> list[str]:
    """Refuse stages that are not of one model, unless `anyway`; return what a reader has to know of the comparison.

    Raises:
        DataError: the stages are of different encoders, and `anyway` is False; the message names both.
    """
    compared = [f"{stage}: {describe_features(features)}" for stage, features in stages.items()]
    faults = find_stage_faults(*stages.values())
    if faults and not anyway:
        lines = "\n".join(f"  {line}" for line in (*compared, *faults))
        raise DataError(
            f"these are not stages of one vision-language model, so their difference does not measure a projector's loss.\n{lines}",
            "Extract both from one model: snellen features extract --encoder hf:MODEL --outputs projector_input,aligned "
            "... To compare them nevertheless: --anyway (the table then names both).",
        )
    notes = [f"Compared: {'; '.join(compared)}."]
    notes += [f"Compared with --anyway: {line}" for line in faults]
    unknown = [stage for stage, features in stages.items() if encoder_of(features) is None]
    if unknown:
        notes.append(f"{', '.join(unknown)}: {IMPORTED}, so it is not known whether the stages are of one model.")
    return notes


def require_one_encoder(stores: Sequence[Features], names: Sequence[str]) -> None:
    """Refuse stores whose features are of different encoders or outputs. Raises DataError; imported stores name none."""
    known = [
        (name, encoder, store.name)
        for store, name in zip(stores, names, strict=True)
        if (encoder := encoder_of(store)) is not None
    ]
    for name, encoder, output in known[1:]:
        if (encoder, output) != known[0][1:]:
            differing = "encoders" if encoder != known[0][1] else f"outputs ({known[0][2]}, {output})"
            raise DataError(
                f"{known[0][0]} and {name} hold features of different {differing}",
                "Merge stores of one encoder and one output.",
            )


def training_identity(features: Features) -> dict[str, Any]:
    """Return what a layer trained on these features must record, so that it is not used behind another encoder."""
    if encoder_of(features) is None or features.meta is None:
        return {}
    wanted = ("encoder", "transform", "compute")
    return {key: features.meta.identity[key] for key in wanted if key in features.meta.identity}


def _pair_faults(first_name: str, first: Features, second_name: str, second: Features) -> list[str]:
    encoders = [encoder_of(first), encoder_of(second)]
    if None not in encoders and encoders[0] != encoders[1]:
        return [f"{first_name} and {second_name} are of different encoders."]
    if first.path is not None and second.path is not None and first.name == second.name and encoders[0] is not None:
        return [f"{first_name} and {second_name} are the same output, {first.name!r}, of the same encoder."]
    return _transform_faults(first_name, first, second_name, second)


def _transform_faults(first_name: str, first: Features, second_name: str, second: Features) -> list[str]:
    """Return one sentence if the two stores preprocessed their images differently, else nothing."""
    if encoder_of(first) is None or encoder_of(second) is None or first.meta is None or second.meta is None:
        return []
    plain = [
        msgspec.json.encode(store.identity.get("transform"), order="deterministic")
        for store in (first.meta, second.meta)
    ]
    return [] if plain[0] == plain[1] else [f"{first_name} and {second_name} preprocessed their images differently."]
