"""The payload of a leaderboard submission: model metadata, and scores under the leaderboard's keys.

Source: EASI v0.2.2, easi_results.json, and what its server accepts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.benchmarks.spatial.reference.published import Figures, points
from snellen.errors import UsageError

MODEL_TYPES = ("pretrained", "finetuned", "instruction", "rl")
PRECISIONS = ("bfloat16", "float16", "float32", "int8")
WEIGHT_TYPES = ("Original", "Delta", "Adapter")
BACKENDS = ("vlmevalkit", "lmmseval", "others")
_NAME = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")
_LONGEST = 10_000


class Metadata(Struct, frozen=True, rename="camel"):
    """The model metadata of a submission, in the payload's order; empty fields are unknown.

    Attributes:
        model_name: org/model on the hub.
        model_type: one of MODEL_TYPES.
        precision: one of PRECISIONS.
        revision: of the model's repository.
        weight_type: one of WEIGHT_TYPES.
        base_model: org/model that a delta or an adapter belongs to; with original weights any text.
        backend: one of BACKENDS.
        remarks: free text.
    """

    model_name: str
    model_type: str
    precision: str
    revision: str = "main"
    weight_type: str = ""
    base_model: str = ""
    backend: str = "others"
    remarks: str = ""


FIELDS: tuple[str, ...] = Metadata.__struct_encode_fields__


def metadata(
    options: Mapping[str, str | None], configs: str | None = None, *, defaults: Mapping[str, str] = {}
) -> Metadata:
    """Validate the user's metadata; needs no model, data or network.

    Args:
        options: by the payload's names (`modelName`); None and absent: not given. They win over `configs`.
        configs: a JSON object with the same names, or the path of a file that holds one.
        defaults: what counts where neither says anything, such as the model that the runs were made with.

    Raises:
        UsageError: something is missing or not what the leaderboard accepts; the message has every fault at once.
    """
    configured, faults = read_configs(configs) if configs is not None else ({}, [])
    values = {**defaults, **configured, **{name: value for name, value in options.items() if value is not None}}
    values = {name: value.strip() for name, value in values.items() if value.strip()}
    faults += _faults(values)
    if faults:
        raise UsageError(
            "the submission cannot be made: " + "".join(f"\n  - {fault}" for fault in faults),
            'Give them as options (--model-type …) or as --submission-configs \'{"modelName": "org/model", …}\'.',
        )
    return msgspec.convert(values, Metadata)


def partial_metadata(configs: str | None, *, defaults: Mapping[str, str]) -> Metadata:
    """Build the metadata of results that are not submitted: what is said is checked, and nothing is required.

    Raises:
        UsageError: something is not what the leaderboard accepts.
    """
    configured, faults = read_configs(configs) if configs is not None else ({}, [])
    values = {name: value.strip() for name, value in {**defaults, **configured}.items() if value.strip()}
    required = [fault for fault in _faults(values) if " is missing: " not in fault]
    if configs is not None:
        faults += [fault for fault in required if not fault.startswith("modelName") or "modelName" in configured]
    if faults:
        raise UsageError(
            "--submission-configs cannot be used: " + "".join(f"\n  - {fault}" for fault in faults), "Correct them."
        )
    empty = {"modelName": "", "modelType": "", "precision": ""}
    return msgspec.convert({**empty, **values}, Metadata)


def read_configs(configs: str) -> tuple[dict[str, str], list[str]]:
    """Read `--submission-configs`, JSON or a file with it; return its fields and all faults."""
    text, place = configs, "--submission-configs"
    if not configs.lstrip().startswith(("{", "[", '"')):
        place = configs
        try:
            text = Path(configs).read_text("utf-8")
        except (OSError, ValueError) as error:
            return {}, [
                f"--submission-configs {configs!r} is neither a JSON object nor a file that can be read: {error}"
            ]
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        return {}, [f"{place} is no JSON: {error}"]
    if not isinstance(content, dict):
        return {}, [f"{place} is {type(content).__name__} in JSON; an object with {', '.join(FIELDS)} was expected"]
    faults = []
    for name, value in content.items():
        if name not in FIELDS:
            matches = get_close_matches(name, FIELDS, 1)
            meant = f"; {matches[0]} was meant?" if matches else ""
            faults.append(f"{place} has {name!r}, which is none of {', '.join(FIELDS)}{meant}")
        elif not isinstance(value, str | None):
            faults.append(f"{place}: {name} is {json.dumps(value)[:80]}; a text was expected")
    return {name: value for name, value in content.items() if name in FIELDS and isinstance(value, str)}, faults


def _faults(values: Mapping[str, str]) -> list[str]:
    faults = []
    name = values.get("modelName", "")
    if not name:
        faults.append("modelName is missing: the model's name on the hub, org/model")
    elif not is_model_name(name):
        faults.append(f"modelName {name!r} is not org/model in letters, digits, points, hyphens and underscores")
    enums = (("modelType", MODEL_TYPES, True), ("precision", PRECISIONS, True), ("weightType", WEIGHT_TYPES, False))
    for field, allowed, needed in (*enums, ("backend", BACKENDS, False)):
        value = values.get(field, "")
        if value not in allowed and (value or needed):
            problem = f"{field} {value!r} is not known" if value else f"{field} is missing"
            faults.append(f"{problem}: one of {', '.join(allowed)}")
    base = values.get("baseModel", "")
    # EASI's own example has weights of type Original and a base model by its family's name (Qwen3).
    if base and not is_model_name(base) and values.get("weightType") in ("Delta", "Adapter"):
        faults.append(f"baseModel {base!r} is not org/model in letters, digits, points, hyphens and underscores")
    if not base and values.get("weightType") in ("Delta", "Adapter"):
        faults.append(f"baseModel is missing: weights of type {values['weightType']} are nothing without it")
    faults += [
        f"{field} has {len(value):,} characters; at most {_LONGEST:,}"
        for field, value in values.items()
        if len(value) > _LONGEST
    ]
    return faults


def is_model_name(name: str) -> bool:
    """Return True for org/model as the leaderboard's form accepts it; never for `..`."""
    return _NAME.fullmatch(name) is not None and not {".", ".."} & set(name.split("/"))


def payload(details: Metadata, scores: Mapping[str, Figures]) -> dict[str, Any]:
    """Build easi_results.json: the metadata, then `scores` and `subScores` by id in alphabetical order.

    Figures are in points, 0 to 100 (SITE's may be negative), rounded to four decimals; null is not evaluated. Only ids
    with sub-scores are in `subScores`.
    """
    ids = sorted(scores)
    return {
        **msgspec.to_builtins(details),
        "scores": {name: points(scores[name].overall) for name in ids},
        "subScores": {
            name: {key: points(value) for key, value in scores[name].parts.items()}
            for name in ids
            if scores[name].parts
        },
    }
