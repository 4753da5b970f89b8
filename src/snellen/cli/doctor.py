"""snellen doctor: packages, keys, disk, models, agents"""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Literal

import typer
from msgspec import Struct

from snellen.cli.console import show_json
from snellen.cli.option_parsing import option
from snellen.errors import SnellenError
from snellen.installation import install_command

CORE = "snellen"
FASTER = {"uvloop": "a faster event loop", "simplejpeg": "faster JPEG"}
LEAST_FREE_GB = 1.0
INTERNAL_EXTRAS = ("dev", "bench")
"""Extras of people who work on Snellen itself."""
USUAL_SERVERS = {8000: "vLLM", 30000: "SGLang", 11434: "Ollama", 1234: "LM Studio"}
"""Ports of this machine on which model servers listen unless they are told otherwise."""
WIDTH, NAME_WIDTH = 80, 12
"""Columns of the summary."""

State = Literal["ok", "missing", "fault"]
SIGN = {"ok": "ok     ", "missing": "-      ", "fault": "FAULT  "}


class DoctorFinding(Struct, frozen=True):
    """Result of one check; `missing` is optional, `fault` must be corrected."""

    name: str
    state: State
    text: str
    group: str = ""
    """The line of the summary on which it stands with others; empty: a line of its own."""
    short: str = ""
    """What that line says of it; empty: its name."""


def doctor(
    base_url: str | None = option("List the models of this endpoint; without it, no endpoint is sent anything."),
    key_env: str | None = option("Environment variable with the key for --base-url.", value="NAME"),
    results: Path = option("Folder for runs.", Path("results")),
    everything: bool = option("Show every check instead of a summary on one screen.", False, names=("--all",)),
    as_json: bool = option("One JSON object with every check.", False, names=("--json",)),
) -> None:
    """Check this machine's setup. Reports whether keys are set, never the keys. Exit status 1 on a fault."""
    all_findings = []
    for finding in findings(results, base_url, key_env):
        all_findings.append(finding)
        if everything and not as_json:
            print(f"{SIGN[finding.state]}{finding.name:<18} {finding.text}", flush=True)
    faults = sum(finding.state == "fault" for finding in all_findings)
    if as_json:
        show_json(
            {
                "faults": faults,
                "findings": [
                    {name: getattr(finding, name) for name in ("name", "state", "text")} for finding in all_findings
                ],
            }
        )
    elif not everything:
        print("\n".join(summary(all_findings)))
    raise typer.Exit(1 if faults else 0)


def summary(all_findings: Sequence[DoctorFinding]) -> Iterator[str]:
    """Yield the lines of one screen: a paragraph of WIDTH columns a group, and every fault by itself."""
    for name, members in groupby(all_findings, lambda finding: finding.group or finding.name):
        group = list(members)
        faults = [finding for finding in group if finding.state == "fault"]
        for finding in faults:
            yield from _paragraph("fault", finding.name, finding.text)
        works, absent = (
            [finding.short or finding.name for finding in group if finding.state == state]
            for state in ("ok", "missing")
        )
        if not group[0].group:
            texts = [finding.text for finding in group if finding.state != "fault"]
        elif name == CORE:
            texts = [f"{_version('snellen')}, with {len(works)} packages"]
        else:
            texts = [", ".join(works)] * bool(works)
        if group[0].group and absent:
            texts.append(f"without {', '.join(absent)}")
        if texts:
            yield from _paragraph("ok" if works else "missing", name, "; ".join(texts))
    yield from _paragraph(None, "more", "snellen doctor --all shows every check, with the command that adds an extra")


def _paragraph(state: State | None, name: str, text: str) -> list[str]:
    sign = " " * 7 if state is None else SIGN[state]
    indent = " " * (len(sign) + NAME_WIDTH + 1)
    words = f"{sign}{name:<{NAME_WIDTH}} {text}"
    return wrap(words, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def findings(results: Path, base_url: str | None, key_env: str | None) -> Iterator[DoctorFinding]:
    """Yield the results of all checks, in order."""
    version = platform.python_version()
    yield DoctorFinding("python", "ok" if sys.version_info >= (3, 11) else "fault", f"{version}, {platform.platform()}")
    yield from _packages()
    yield from _keys(key_env)
    yield _disk(results)
    yield _writable(results)
    for name, works, text in agent_findings():
        yield DoctorFinding(name, "ok" if works else "missing", text, "agents", name.removeprefix("agent "))
    yield _gpu()
    yield _embedded()
    yield from _servers()
    if base_url is not None:
        yield _endpoint(base_url, key_env)


def _packages() -> Iterator[DoctorFinding]:
    """Check the packages that this installation's metadata declares, and those of each extra."""
    required = _required()
    version = _version("snellen")
    yield DoctorFinding(
        "snellen", "fault" if version is None else "ok", version or "not installed: pip install .", CORE
    )
    for name in required.pop("", []):
        version, lacking = _version(name), FASTER.get(name)
        state: State = "ok" if version is not None else "fault" if lacking is None else "missing"
        absent = "not installed: pip install snellen" if lacking is None else f"{lacking} is not installed"
        yield DoctorFinding(name, state, version or absent, CORE)
    for extra, names in sorted(required.items()):
        versions = {name: _version(name) for name in names}
        if absent := ", ".join(name for name, version in versions.items() if version is None):
            text = f"without {absent}: {install_command(extra)}"
        else:
            text = ", ".join(f"{name} {version}" for name, version in versions.items())
        yield DoctorFinding(f"extra {extra}", "missing" if absent else "ok", text, "extras", extra)


def _required() -> dict[str, list[str]]:
    """Return the names of required packages by extra, "" for those of every installation; none where nothing is declared."""
    required: dict[str, list[str]] = {}
    with suppress(metadata.PackageNotFoundError):
        for line in metadata.requires("snellen") or ():
            name, extra = re.match(r"[\w.-]+", line), re.search(r"extra == ['\"]([^'\"]+)", line)
            if name is not None and (key := extra[1] if extra else "") not in INTERNAL_EXTRAS:
                required.setdefault(key, []).append(name[0])
    return required


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
        text = ("set" if is_set(name) else "not set") + used
        yield DoctorFinding(name, "ok" if is_set(name) else "missing", text, "keys")
    here = Path(".env").is_file()
    yield DoctorFinding(".env", "ok" if here else "missing", "here" if here else "none here", "keys")


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


def _gpu() -> DoctorFinding:
    """Return what torch sees; without torch, what NVIDIA's driver lists."""
    if find_spec("torch") is None:
        from snellen.models.agents.programs import locate, version

        program = locate("nvidia-smi")
        names = None if program is None else version(program, ("--query-gpu=name", "--format=csv,noheader"))
        text = f"{names}; torch is not installed" if names else "none seen; torch is not installed"
        return DoctorFinding("GPU", "ok" if names else "missing", text)
    import torch

    if torch.cuda.is_available():
        devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        return DoctorFinding("GPU", "ok", f"cuda: {', '.join(devices)}")
    if torch.backends.mps.is_available():
        return DoctorFinding("GPU", "ok", "mps")
    return DoctorFinding("GPU", "missing", f"none for torch, which computes with {torch.get_num_threads()} CPU threads")


def _servers() -> Iterator[DoctorFinding]:
    """Check by a connection, over which nothing is sent, whether servers listen at their usual ports on this machine."""
    for port, name in USUAL_SERVERS.items():
        try:
            socket.create_connection(("127.0.0.1", port), timeout=0.2).close()
        except OSError:
            yield DoctorFinding(name, "missing", f"nothing listens at 127.0.0.1:{port}", "servers", f"{name} ({port})")
        else:
            address = f"http://127.0.0.1:{port}"
            text = f"something listens at {address}; its models: snellen doctor --base-url {address}/v1"
            yield DoctorFinding(name, "ok", text, "servers", f"{name} or another at {address}")


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
