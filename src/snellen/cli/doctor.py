"""snellen doctor"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer
from msgspec import Struct, structs

from snellen.cli.agent_checks import agent_findings
from snellen.cli.console import show_json
from snellen.errors import SnellenError
from snellen.installation import install_command, install_hint

EXTRAS = {
    "local": ("torch", "torchvision", "transformers", "safetensors", "accelerate", "av", "num2words"),
    "video": ("av",),
    "ray": ("ray",),
}
CORE = (
    "aiohttp", "msgspec", "numpy", "pillow", "pyarrow", "duckdb", "matplotlib", "huggingface_hub", "typer", "rich",
    "starlette", "uvicorn", "openpyxl",
)  # fmt: skip
FASTER = {"uvloop": "a faster event loop", "simplejpeg": "faster JPEG"}
LEAST_FREE_GB = 1.0

State = Literal["ok", "missing", "fault"]
SIGN = {"ok": "ok     ", "missing": "-      ", "fault": "FAULT  "}


class DoctorFinding(Struct, frozen=True):
    """Result of one check; `missing` is optional, `fault` must be corrected."""

    name: str
    state: State
    text: str


def doctor(
    base_url: Annotated[
        str | None, typer.Option(help="List the models of this endpoint; without it, no endpoint is contacted.")
    ] = None,
    key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable with the key for --base-url.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder for runs.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check this machine's setup. Reports whether keys are set, never the keys. Exit status 1 on a fault."""
    all_findings = []
    for finding in findings(results, base_url, key_env):
        all_findings.append(finding)
        if not as_json:
            print(f"{SIGN[finding.state]}{finding.name:<18} {finding.text}", flush=True)
    faults = sum(finding.state == "fault" for finding in all_findings)
    if as_json:
        show_json({"faults": faults, "findings": [structs.asdict(finding) for finding in all_findings]})
    raise typer.Exit(1 if faults else 0)


def findings(results: Path, base_url: str | None, key_env: str | None) -> Iterator[DoctorFinding]:
    """Yield the results of all checks, in order."""
    version = platform.python_version()
    yield DoctorFinding("python", "ok" if sys.version_info >= (3, 11) else "fault", f"{version}, {platform.platform()}")
    yield from _packages()
    yield from _keys(key_env)
    yield _disk(results)
    yield _writable(results)
    for name, works, text in agent_findings():
        yield DoctorFinding(name, "ok" if works else "missing", text)
    if find_spec("torch") is not None:
        yield _torch()
        yield _embedded()
    else:
        yield DoctorFinding("embedded model", "missing", install_hint("local"))
    if base_url is not None:
        yield _endpoint(base_url, key_env)


def _packages() -> Iterator[DoctorFinding]:
    for name in ("snellen", *CORE):
        version = _version(name)
        yield DoctorFinding(name, "fault" if version is None else "ok", version or "not installed: pip install snellen")
    for name, benefit in FASTER.items():
        version = _version(name)
        yield DoctorFinding(name, "missing" if version is None else "ok", version or f"{benefit} is not installed")
    for extra, names in EXTRAS.items():
        versions = {name: _version(name) for name in names}
        lacking = [name for name, version in versions.items() if version is None]
        if lacking:
            text = f"without {', '.join(lacking)}: {install_command(extra)}"
        else:
            text = ", ".join(f"{name} {version}" for name, version in versions.items())
        yield DoctorFinding(f"extra {extra}", "missing" if lacking else "ok", text)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _keys(key_env: str | None) -> Iterator[DoctorFinding]:
    """Check that variables are set; their values never enter a message."""
    from snellen.models.api.services import PROVIDERS, is_set, require_variable, service

    require_variable(key_env)
    users: dict[str, list[str]] = {}
    for kind in PROVIDERS:
        for name in service(kind).key_variables:
            users.setdefault(name, []).append(f"{kind}:")
    users |= {"HF_TOKEN": [], **({key_env: users.get(key_env, [])} if key_env else {})}
    for name, kinds in users.items():
        used = f", for {', '.join(kinds)}" if kinds else ""
        yield DoctorFinding(name, "ok" if is_set(name) else "missing", ("set" if is_set(name) else "not set") + used)
    yield DoctorFinding(
        ".env", "ok" if Path(".env").is_file() else "missing", "here" if Path(".env").is_file() else "none here"
    )


def _disk(results: Path) -> DoctorFinding:
    free_gb = shutil.disk_usage(_existing(results)).free / 1e9
    return DoctorFinding("disk", "ok" if free_gb >= LEAST_FREE_GB else "fault", f"{free_gb:.1f} GB free for {results}/")


def _writable(results: Path) -> DoctorFinding:
    place = _existing(results)
    if os.access(place, os.W_OK | os.X_OK):
        return DoctorFinding("results folder", "ok", f"{results}/ can be written")
    return DoctorFinding("results folder", "fault", f"{place} cannot be written: choose another folder with --out")


def _existing(path: Path) -> Path:
    whole = path.resolve()
    return next(place for place in (whole, *whole.parents) if place.exists())


def _torch() -> DoctorFinding:
    import torch

    if torch.cuda.is_available():
        devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        return DoctorFinding("torch device", "ok", f"cuda: {', '.join(devices)}")
    if torch.backends.mps.is_available():
        return DoctorFinding("torch device", "ok", "mps")
    return DoctorFinding("torch device", "ok", f"cpu, {torch.get_num_threads()} threads")


def _embedded() -> DoctorFinding:
    """Run three samples of the chart with the embedded model, in a temporary folder."""
    from tempfile import TemporaryDirectory

    from snellen.runs.evaluate import evaluate

    try:
        with TemporaryDirectory() as folder:
            totals = evaluate("chart", "embedded", out=folder, limit=3).meta.totals
    except SnellenError as error:
        return DoctorFinding("embedded model", "fault", error.message)
    state: State = "ok" if totals.ok == 3 else "fault"
    return DoctorFinding("embedded model", state, f"answered {totals.ok} of 3 questions in {totals.seconds:.1f} s")


def _endpoint(base_url: str, key_env: str | None) -> DoctorFinding:
    """GET {base_url}/models with the key of the environment."""
    import asyncio

    import aiohttp

    from snellen.models.api.endpoint import parse_endpoint
    from snellen.models.api.services import find_key

    try:
        base_url = parse_endpoint(base_url).base
    except SnellenError as error:
        return DoctorFinding("endpoint", "fault", error.message)

    async def ask() -> DoctorFinding:
        key = find_key(key_env)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
            session.get(f"{base_url.rstrip('/')}/models", headers=headers) as reply,
        ):
            if reply.status != 200:
                return DoctorFinding("endpoint", "fault", f"{base_url}/models answered {reply.status} {reply.reason}")
            content = await reply.json(content_type=None)
            names = [str(model.get("id")) for model in content.get("data", [])]
            return DoctorFinding("endpoint", "ok", f"{base_url} serves {', '.join(names[:5]) or 'no model'}")

    try:
        return asyncio.run(ask())
    except SnellenError as error:
        return DoctorFinding("endpoint", "fault", error.message)
    except (aiohttp.ClientError, TimeoutError, ValueError, AttributeError) as error:
        return DoctorFinding("endpoint", "fault", f"{base_url}: {type(error).__name__}: {error}")
