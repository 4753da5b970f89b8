"""Endpoint and key variable of a rerun: those in run_meta.json are followed only if they are the user's own.

A run with a valid owner's mark (snellen.engine.folder_checks) is repeated as it stands: the mark covers its endpoint and its key
variable. Of any other run, an endpoint is the user's own if it is OPENAI_BASE_URL of the environment or, without that,
OpenAI's; a key variable is the user's own if it is the default one. Any other pair would send a key to whoever wrote the
file, so it is named again (`rerun --base-url`, `--key-env`) or confirmed on the terminal.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import structs

from snellen.benchmarks import registry
from snellen.engine.folder_checks import is_own
from snellen.engine.run_folder import JUDGE_RUNS, RunFolder, RunMeta, RunSpec
from snellen.errors import UntrustedRunError, UsageError
from snellen.models.api.endpoint import parse_endpoint
from snellen.models.api.services import DEFAULT_VARIABLE, PROVIDERS, service
from snellen.models.base import AGENT_LIMITS, DEFAULTS
from snellen.models.registry import KINDS, runtime_of

JUDGE_URL, JUDGE_KEY = "JUDGE_BASE_URL", "JUDGE_API_KEY"
HARMLESS = (
    *("generation", "media", "timeout_s", "patience_s", "rpm", "tpm", "concurrency", "dtype", "device", "batch_size"),
    *(
        *("kv_cache", "compile", "stop_after_first_json", "revision", "seed", "id_is", "effort"),
        *("detail", "responses", "stream"),
    ),
)
"""Options that lead to no file, program or address."""


def with_endpoint(
    folder: RunFolder,
    meta: RunMeta,
    *,
    base_url: str | None,
    key_env: str | None,
    opens_model: bool = True,
    confirm: Callable[[str], bool] | None = None,
) -> RunSpec:
    """Return the run's spec with the endpoint and the key variable that a rerun may use.

    Args:
        folder, meta: the run.
        base_url, key_env: what the user names; None: the run's own.
        opens_model: the model that the spec names is asked; False: the caller brings another one.
        confirm: asks a person about the run's own; None: nobody can be asked.

    Raises:
        UntrustedRunError: they are not the user's own, and were neither named nor confirmed.
    """
    spec = meta.spec
    options = structs.replace(
        spec.options,
        base_url=base_url if base_url is not None else spec.options.base_url,
        key_env=key_env if key_env is not None else spec.options.key_env,
    )
    result = structs.replace(spec, options=options)
    if not opens_model or base_url is not None or is_own(folder.meta()):
        return result
    strange = []
    if not _is_usual(spec, "endpoint"):
        strange.append(f"the endpoint {spec.options.base_url}")
    if key_env is None and not _is_usual(spec, "key"):
        strange.append(f"the key in {spec.options.key_env}")
    if not strange:
        return result
    untrusted = " and ".join(strange)
    if confirm is not None and confirm(f"{folder.meta_path} names {untrusted}. Send the requests, and the key, there?"):
        return result
    raise UntrustedRunError(
        f"{folder.meta_path} names {untrusted}; this user's Snellen did not write that file, and a rerun would send your key to it",
        f"To send your key there, name it yourself: {rerun_command(folder, meta)}",
    )


def without_model(spec: RunSpec, name: str) -> RunSpec:
    """Return another user's spec for another model, without its own endpoint, key, files and programs.

    What this user's Snellen writes bears the owner's mark, and nothing that was not checked may be under it.
    """
    options = structs.replace(DEFAULTS, **{part: getattr(spec.options, part) for part in HARMLESS})
    return structs.replace(spec, model=name, options=options, nproc=None, ray=None)


def rerun_command(folder: RunFolder, meta: RunMeta) -> str:
    """Return the command that repeats a run, with the options that it needs here."""
    options = "" if folder.exists() and is_own(folder.meta()) else _options(meta.spec)
    return f"snellen rerun {shlex.quote(str(folder.path))} {options}".rstrip()


def judge_command(
    run: Path,
    model: str | None = "api:NAME",
    base_url: str | None = None,
    key_env: str | None = None,
    rubric: str | None = None,
) -> str:
    """Return the command that judges a run; without `model` by the judge of JUDGE_MODEL."""
    words = ["snellen", "judge", str(run)]
    for flag, value in (*(("--model", model), ("--base-url", base_url), ("--key-env", key_env), ("--rubric", rubric)),):
        words += [] if value is None else [flag, value]
    return shlex.join(words)


def _is_usual(spec: RunSpec, part: Literal["endpoint", "key"]) -> bool:
    """Return True if the spec's endpoint or key variable is what this environment uses where nothing is named.

    A judge's run has the judge's own pair, JUDGE_BASE_URL and JUDGE_API_KEY.
    """
    base_url, key_env = spec.options.base_url, spec.options.key_env
    judge = spec.benchmark in JUDGE_RUNS
    kind = spec.model.partition(":")[0]
    if kind in PROVIDERS:
        # A provider's key may go to the provider's own address alone, and only that key there.
        if part == "key":
            return key_env is None or key_env in service(kind).key_variables or (judge and key_env == JUDGE_KEY)
        return base_url is None
    if part == "key":
        return key_env in (None, DEFAULT_VARIABLE) or (judge and key_env == JUDGE_KEY)
    if base_url is None:
        return True
    usual = [None, *([os.environ[JUDGE_URL]] if judge and os.environ.get(JUDGE_URL) else [])]
    try:
        return str(parse_endpoint(base_url)) in [str(parse_endpoint(address)) for address in usual]
    except UsageError:
        return False


def _options(spec: RunSpec) -> str:
    """Return the options by which `snellen rerun` accepts a run's endpoint and key variable; empty if not needed."""
    words = []
    if not _is_usual(spec, "endpoint"):
        words += ["--base-url", str(spec.options.base_url)]
    if not _is_usual(spec, "key"):
        words += ["--key-env", str(spec.options.key_env)]
    return shlex.join(words)


def check_rerun(folder: RunFolder, meta: RunMeta, spec: RunSpec, *, trust: bool, opens_model: bool = True) -> None:
    """Refuse to rerun what another user's run_meta.json makes this machine read, start or connect to.

    Args:
        folder, meta: the run as its folder gives it.
        spec: the same with what the user named in place of it.
        trust: the user trusts the folder's author.
        opens_model: the model that the spec names is asked.

    Raises:
        UntrustedRunError: with the first of them.
    """
    if trust or is_own(folder.meta()):
        return
    recorded = meta.spec
    if opens_model:
        for used in _reached(folder, recorded):
            raise _refused(folder, used)
    data = recorded.data
    if spec.data.path == data.path and data.path is not None and not _inside(folder.path, data.path):
        raise _refused(folder, f"the data {data.path}", "Or name the data yourself: --data PATH.")
    if spec.data.images == data.images and data.images is not None and not _inside(folder.path, data.images):
        raise _refused(folder, f"the images {data.images}", "Or name them yourself: --images PATH.")
    for name, value in data.options.items():
        if ("/" in value or "\\" in value or os.path.exists(value)) and not _inside(folder.path, Path(value)):  # noqa: PTH110
            raise _refused(folder, f"the file {value} (option {name})")
    if recorded.few_shot and (pool := recorded.few_shot_from) is not None and not _inside(folder.path, Path(pool)):
        raise _refused(folder, f"the few-shot examples {pool}")
    if (mask := recorded.options.media.mask) and not _inside(folder.path, Path(mask)):
        raise _refused(folder, f"the masks {mask}")
    if registry.is_path(recorded.benchmark) and not _inside(folder.path, Path(recorded.benchmark)):
        raise _refused(folder, f"the set {recorded.benchmark}")


def _reached(folder: RunFolder, spec: RunSpec) -> Iterator[str]:
    """Yield what the model of a spec reads, starts or connects to besides its endpoint."""
    options = spec.options
    kind, _, name = spec.model.partition(":")
    if kind == "replay":
        if not _inside(folder.path, Path(name)):
            yield f"the file {name} to replay"
    elif kind != "embedded" and not runtime_of(kind).remote and (name or kind in KINDS):
        yield f"the model {spec.model}"  # it may start programs, or load files that another person has made
    if options.tools is not None:
        yield f"the tool settings {options.tools}"
    if options.adapter is not None:
        yield f"the adapter {options.adapter}"
    if options.sif is not None or options.sandbox != "auto":
        yield f"the sandbox {options.sif or options.sandbox}"
    if options.agent_network != DEFAULTS.agent_network:
        reach = "the public web" if options.agent_network == "web" else "the network of this machine"
        yield f"{reach} for an agent (--agent-network {options.agent_network})"
    for limit in AGENT_LIMITS:
        if getattr(options, limit) > getattr(DEFAULTS, limit):
            yield f"--{limit.replace('_', '-')} {getattr(options, limit):,}, which is more than an agent may use"
    if spec.ray is not None:
        yield f"the Ray cluster {spec.ray}"
    if options.prices is not None:
        yield f"the price list {options.prices}"


def _refused(folder: RunFolder, used: str, hint: str = "") -> UntrustedRunError:
    trust = "If you trust the author of this run, add --trust (in Python: trust=True)."
    return UntrustedRunError(
        f"{folder.meta_path} names {used}, and this user's Snellen did not write that file",
        f"{trust} {hint}".rstrip(),
    )


def _inside(folder: Path, place: Path) -> bool:
    top, real = os.path.realpath(folder), os.path.realpath(place)
    return real == top or real.startswith(top + os.sep)
