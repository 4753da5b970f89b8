"""Environment variables that set options of `snellen run`, for benchmarks whose original scripts read them.

A benchmark names them (`Benchmark.variables`). They are used if all benchmarks of the call name the same ones and the
option is omitted. The options that they set:

    data       --data
    limit      --limit; 0 is all
    out        --out
    model      --model local:PATH
    hub cache  the cache folder of the hub's client (HF_HOME, unless that is set)
    image      --sif, with --sandbox apptainer

A file that neither an option nor a variable names is looked for where the benchmark's authors put it (`Benchmark.places`).

`snellen serve vllm` reads GPU, PORT, DATA_PARALLEL_SIZE, SIF, VLLM_DOCKER_IMAGE and HF_CACHE_DIR in the same way.
`snellen judge` reads JUDGE_MODEL, JUDGE_BASE_URL and JUDGE_API_KEY, for any benchmark.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.cli.console import note
from snellen.errors import UsageError


class RunVariables(Struct, frozen=True):
    """The options of a run that variables may set; None if omitted."""

    data: Path | None = None
    limit: int | None = None
    out: Path | None = None
    model: tuple[str, ...] = ()


def with_variables(
    options: RunVariables, benchmarks: Sequence[str], environment: MutableMapping[str, str] | None = None
) -> RunVariables:
    """Fill omitted options from the benchmark's variables; each variable that is used is named on stderr.

    Raises:
        UsageError: LIMIT is not a number, or no model is named.
    """
    environment = os.environ if environment is None else environment
    named = _variables(benchmarks)
    set_ = {option: (name, environment[name]) for name, option in named.items() if environment.get(name)}
    data, limit, out, model = data_of(options.data, benchmarks, environment), options.limit, options.out, options.model
    used = []
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
        raise UsageError("no model is named", f"Add --model KIND:NAME{other}; `snellen list` shows the kinds.")
    return RunVariables(data, limit, out, model)


def data_of(data: Path | None, benchmarks: Sequence[str], environment: Mapping[str, str] | None = None) -> Path | None:
    """Return --data, or what the benchmark's variable names, which is said on stderr, or its layout holds."""
    name = next((name for name, option in _variables(benchmarks).items() if option == "data"), "")
    value = (os.environ if environment is None else environment).get(name)
    if data is not None or not value:
        return data or _placed("data", benchmarks, "--data")
    note(f"note: {name}={value} is used, from the environment")
    return Path(value)


def sandbox_image(sif: Path | None, sandbox: str, benchmarks: Sequence[str]) -> Path | None:
    """Return --sif, or with --sandbox apptainer the image that the benchmark's variable names or its layout holds."""
    name = next((name for name, option in _variables(benchmarks).items() if option == "image"), "")
    value = os.environ.get(name, "")
    if sif is not None or sandbox != "apptainer":
        return sif
    if not value:
        return _placed("image", benchmarks, "--sif")
    note(f"note: {name}={value} is used, from the environment")
    return Path(value)


def with_serve_variables(
    values: Mapping[str, Any], typed: Collection[str], environment: MutableMapping[str, str] | None = None
) -> dict[str, Any]:
    """Fill omitted options of `snellen serve vllm` from environment variables.

    Args:
        values: values by parameter.
        typed: the parameters on the command line; an image of either kind there overrides variables of both kinds.
        environment: for tests; HF_HOME is set in it if HF_CACHE_DIR is used.

    Raises:
        UsageError: PORT or DATA_PARALLEL_SIZE is not a number in its range.
    """
    environment = os.environ if environment is None else environment
    filled, used = dict(values), list[str]()
    image = not {"apptainer", "docker"} & set(typed)
    wanted = {"GPU": "gpu", "PORT": "port", "DATA_PARALLEL_SIZE": "data_parallel"}
    if image:  # the SIF is built from the Docker image, so it has precedence
        wanted |= {"SIF": "apptainer"} if environment.get("SIF") else {"VLLM_DOCKER_IMAGE": "docker"}
    ranges = {"PORT": (0, 65535), "DATA_PARALLEL_SIZE": (1, 1 << 16)}
    for name, option in wanted.items():
        value = environment.get(name)
        if not value or option in typed:
            continue
        if name in ranges:
            low, high = ranges[name]
            if not (value.isascii() and value.isdecimal() and low <= int(value) <= high):
                raise UsageError(f"{name}={value}: a number from {low} to {high:,} was expected", f"Unset {name}.")
            filled[option] = int(value)
        else:
            filled[option] = Path(value) if option == "apptainer" else value
        used.append(name)
    if environment.get("HF_CACHE_DIR") and not environment.get("HF_HOME"):
        environment["HF_HOME"] = environment["HF_CACHE_DIR"]
        used.append("HF_CACHE_DIR")
    for name in used:
        note(f"note: {name}={environment[name]} is used, from the environment")
    named = {"apptainer", "docker"} & {name for name in filled if filled[name]}
    if image and not named and shutil.which("vllm") is None:
        filled["apptainer"] = find_placed(VLLM_IMAGES, "--apptainer")
    return filled


VLLM_IMAGES = ("../containers/vllm-openai.sif", "containers/vllm-openai.sif")
"""Where FIKA-Bench's scripts put the image of vLLM; used by `snellen serve vllm` on a machine without vLLM."""


def find_placed(patterns: Sequence[str], option: str) -> Path | None:
    """Return the file that the first pattern with a match names, and say so on stderr; None if there is none.

    Raises:
        UsageError: a pattern matches several files.
    """
    for pattern in patterns:
        paths = sorted(path for path in Path().glob(pattern) if path.is_file())
        if len(paths) > 1:
            listed = ", ".join(map(str, paths[:3])) + (" …" if len(paths) > 3 else "")
            raise UsageError(f"{len(paths)} files match {pattern}: {listed}", f"Name one: {option} {paths[0]}")
        if paths:
            note(f"note: {paths[0]} is used; {option} selects another file")
            return paths[0]
    return None


def _placed(kind: str, benchmarks: Sequence[str], option: str) -> Path | None:
    """Return the file that the layout of all benchmarks of the call holds; None if they have different ones."""
    from snellen.benchmarks import registry

    first, *others = (tuple(registry.find(name).places.get(kind, ())) for name in dict.fromkeys(benchmarks))
    return find_placed(first, option) if all(other == first for other in others) else None


def _variables(benchmarks: Sequence[str]) -> Mapping[str, str]:
    from snellen.benchmarks import registry

    first, *others = (registry.find(name).variables for name in dict.fromkeys(benchmarks))
    return first if all(other == first for other in others) else {}


def _limit(name: str, value: str) -> int | None:
    if not value.strip().isdecimal() or len(value.strip()) > 18:
        raise UsageError(f"{name}={value}: a number of samples was expected, 0 for all", f"Unset or correct {name}.")
    return int(value) or None
