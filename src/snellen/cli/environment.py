"""Environment variables in the place of options of `snellen run`, for benchmarks whose own scripts are driven by them.

A benchmark names them (`Benchmark.variables`); they count where all benchmarks that are run name the same, and only where
the option is not given. What they may stand for:

    data       --data
    limit      --limit; 0 is all
    out        --out
    model      --model local:PATH
    hub cache  the folder in which the hub's client keeps what it fetches (HF_HOME, unless that is set)

    image      --sif, where --sandbox apptainer is asked for

`snellen serve vllm` takes GPU, PORT, DATA_PARALLEL_SIZE, SIF, VLLM_DOCKER_IMAGE and HF_CACHE_DIR in the same way. JUDGE_MODEL,
JUDGE_BASE_URL and JUDGE_API_KEY are those of `snellen judge`, for any benchmark.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.cli.console import note
from snellen.errors import UsageError


class Given(Struct, frozen=True):
    """The options that variables may stand in for; None: not given."""

    data: Path | None = None
    limit: int | None = None
    out: Path | None = None
    model: tuple[str, ...] = ()


def filled(given: Given, benchmarks: Sequence[str], environment: MutableMapping[str, str] | None = None) -> Given:
    """What is given, and for the rest what the variables of the benchmark say; each that is used is named on stderr.

    Raises:
        UsageError: LIMIT is not a number, or there is no model.
    """
    environment = os.environ if environment is None else environment
    named = _variables(benchmarks)
    set_ = {option: (name, environment[name]) for name, option in named.items() if environment.get(name)}
    data, limit, out, model = given.data, given.limit, given.out, given.model
    used = []
    if data is None and "data" in set_:
        data = Path(set_["data"][1])
        used.append(set_["data"])
    if limit is None and "limit" in set_:
        limit = _limit(*set_["limit"])
        used.append(set_["limit"])
    if out is None and "out" in set_:
        out = Path(set_["out"][1])
        used.append(set_["out"])
    if not model and "model" in set_:
        model = (f"local:{set_['model'][1]}",)
        used.append(set_["model"])
    if "hub cache" in set_ and not environment.get("HF_HOME"):
        environment["HF_HOME"] = set_["hub cache"][1]
        used.append(set_["hub cache"])
    for name, value in used:
        note(f"note: {name}={value} is used, from the environment")
    if not model:
        other = next((f", or set {name}" for name, option in named.items() if option == "model"), "")
        raise UsageError("no model is named", f"Give --model KIND:NAME{other}; `snellen list` shows the kinds.")
    return Given(data, limit, out, model)


def sandbox_image(sif: Path | None, sandbox: str, benchmarks: Sequence[str]) -> Path | None:
    """--sif, or what the benchmark's variable says where Apptainer is the sandbox."""
    name = next((name for name, option in _variables(benchmarks).items() if option == "image"), "")
    value = os.environ.get(name, "")
    if sif is not None or sandbox != "apptainer" or not value:
        return sif
    note(f"note: {name}={value} is used, from the environment")
    return Path(value)


def serving(
    given: Mapping[str, Any], own: Collection[str], environment: MutableMapping[str, str] | None = None
) -> dict[str, Any]:
    """The options of `snellen serve vllm`, with those of the variables that are not given.

    Args:
        given: values by parameter.
        own: the parameters that the user gave; an image of one kind stands against variables of both kinds.
        environment: for tests; HF_HOME is set in it where HF_CACHE_DIR counts.

    Raises:
        UsageError: PORT or DATA_PARALLEL_SIZE is not a number that can be.
    """
    environment = os.environ if environment is None else environment
    found, used = dict(given), list[str]()
    image = not {"apptainer", "docker"} & set(own)
    wanted = {"GPU": "gpu", "PORT": "port", "DATA_PARALLEL_SIZE": "data_parallel"}
    if image:  # the SIF is made of the Docker image, so that it comes first
        wanted |= {"SIF": "apptainer"} if environment.get("SIF") else {"VLLM_DOCKER_IMAGE": "docker"}
    least = {"PORT": (0, 65535), "DATA_PARALLEL_SIZE": (1, 1 << 16)}
    for name, option in wanted.items():
        value = environment.get(name)
        if not value or option in own:
            continue
        if name in least:
            low, high = least[name]
            if not (value.isascii() and value.isdecimal() and low <= int(value) <= high):
                raise UsageError(f"{name}={value}: a number from {low} to {high:,} was expected", f"Unset {name}.")
            found[option] = int(value)
        else:
            found[option] = Path(value) if option == "apptainer" else value
        used.append(name)
    if environment.get("HF_CACHE_DIR") and not environment.get("HF_HOME"):
        environment["HF_HOME"] = environment["HF_CACHE_DIR"]
        used.append("HF_CACHE_DIR")
    for name in used:
        note(f"note: {name}={environment[name]} is used, from the environment")
    return found


def _variables(benchmarks: Sequence[str]) -> Mapping[str, str]:
    from snellen.benchmarks import registry

    first, *others = (registry.find(name).variables for name in dict.fromkeys(benchmarks))
    return first if all(other == first for other in others) else {}


def _limit(name: str, value: str) -> int | None:
    if not value.strip().isdecimal() or len(value.strip()) > 18:
        raise UsageError(f"{name}={value}: a number of questions was expected, 0 for all", f"Unset {name}, or mend it.")
    return int(value) or None
