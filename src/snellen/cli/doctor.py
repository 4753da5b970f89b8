"""snellen doctor: packages, keys, disk, models, agents"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import typer
from msgspec import Struct, structs

from snellen.cli.console import show_json
from snellen.cli.option_parsing import option
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
    base_url: str | None = option("List the models of this endpoint; without it, no endpoint is contacted."),
    key_env: str | None = option("Environment variable with the key for --base-url.", value="NAME"),
    results: Path = option("Folder for runs.", Path("results")),
    as_json: bool = option("One JSON object.", False, names=("--json",)),
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


class Program(Struct, frozen=True):
    """A program that agents need.

    Attributes:
        name: the program on PATH.
        title: its name in the output.
        words: arguments that print its version.
        purpose: its use, and how to install it.
    """

    name: str
    title: str
    words: tuple[str, ...]
    purpose: str


PROGRAMS = (
    Program(
        "apptainer", "Apptainer", ("version",), "only for --sandbox apptainer: https://apptainer.org/docs/admin/main/"
    ),
    Program("node", "Node", ("--version",), "to install agents: Node.js 18 or newer, with npm"),
    Program("npm", "npm", ("--version",), "to install agents: Node.js 18 or newer, with npm"),
    Program("rg", "ripgrep", ("--version",), "for OpenCode's search: apt-get install ripgrep"),
)


def agent_findings() -> Iterator[tuple[str, bool, str]]:
    """Yield (name, whether it works, its version and path or the fault and its remedy)."""
    if sys.platform != "linux":
        yield "agents", False, f"agents need Linux; this is {sys.platform}"
        return
    yield _bubblewrap()
    yield _sandbox()
    from snellen.models.agents.programs import locate, version

    for program in PROGRAMS:
        path = locate(program.name)
        if path is None:
            yield program.title, False, f"not on PATH; {program.purpose}"
        elif (text := version(path, program.words)) is None:
            yield program.title, False, f"{path} cannot be started; {program.purpose}"
        elif program.name == "rg" and not path.startswith(("/usr/", "/bin/")):
            yield program.title, False, f"{text}, {path}, outside /usr, so a sandbox cannot see it"
        else:
            yield program.title, True, f"{text}, {path}"
    yield from _agents()


def _bubblewrap() -> tuple[str, bool, str]:
    from snellen.models.agents.programs import bubblewrap_fault, locate, version

    path = locate("bwrap")
    if path is None:
        return (
            "bubblewrap",
            False,
            "bwrap is not on PATH; it is the default sandbox of agents: apt-get install bubblewrap",
        )
    text = version(path)
    if text is None:
        return "bubblewrap", False, f"{path} cannot be started: apt-get install bubblewrap"
    fault = bubblewrap_fault(path)
    if fault is not None:
        return "bubblewrap", False, f"{text}, {path}, cannot make a sandbox here: {fault}"
    return "bubblewrap", True, f"{text}, {path}"


def _sandbox() -> tuple[str, bool, str]:
    """Check that a sandbox can be made: namespaces, file system and network of its own."""
    from tempfile import TemporaryDirectory

    from snellen.models.agents.limits import AgentLimits
    from snellen.models.agents.supervisor_client import Supervisor

    try:
        with TemporaryDirectory() as folder:
            Supervisor(Path(folder), AgentLimits(), isolated=True, network=False).close()
    except SnellenError as error:
        return "agent sandbox", False, f"{error.message}; unprivileged user namespaces are needed"
    return "agent sandbox", True, "namespaces, bounded files and a network of its own"


def _agents() -> Iterator[tuple[str, bool, str]]:
    from snellen.models.agents import install

    try:
        installed = {(agent.name, agent.version): agent for agent in install.installed()}
    except SnellenError as error:
        yield "agents", False, error.message
        return
    wanted = {(recipe.name, recipe.version) for recipe in install.RECIPES.values()}
    for name, version in sorted({*installed, *wanted}):
        agent = installed.get((name, version))
        if agent is None:
            yield f"agent {name}", False, f"{version} is not installed: snellen agents install {name}"
            continue
        program = Path(install.executable(agent, str(agent.folder)))
        if program.is_file():
            node = f", Node {agent.node}" if agent.node else ""
            yield f"agent {name}", True, f"{version}{node}, {agent.folder}"
        else:
            fix = f"remove {agent.folder}, then: snellen agents install {name}@{version}"
            yield f"agent {name}", False, f"{version} has lost {program}: {fix}"
