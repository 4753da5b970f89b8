"""Private installations of agents: one folder each, made by npm once, with a digest of what lies in it.

    <cache>/agents/openclaw-2026.3.13/
        node/           Node 22, from the npm package `node`
        node_modules/   the agent
        installed.json  name, version, number of files, bytes and a SHA-256 over all of them
        warm/           compiled code of a first start, a folder for each sandbox; not part of the digest

A second call finds the folder and needs no network. What npm writes goes into a folder beside it that is renamed at
the end, so that half an installation is never found.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import filelock
import msgspec
from msgspec import Struct

from snellen.errors import AgentInstallError, UsageError
from snellen.models.agents.programs import run_installer
from snellen.sources.digests import cache_folder
from snellen.text import pretty_json

NODE = "22"
NPM_SECONDS = 1800
RUNTIME = "OPENCLAW_RUNTIME_DIR"
_RECORD = "installed.json"
LIBSIGNAL_FOLDER = "signal-stand-in"

_LIBSIGNAL_CLASSES = ("ProtocolAddress", "SessionBuilder", "SessionCipher", "SessionRecord")
_LIBSIGNAL_FUNCTIONS = {
    "curve": ("generateKeyPair", "calculateSignature", "verifySignature", "calculateAgreement"),
    "crypto": ("calculateMAC", "decrypt", "encrypt", "deriveSecrets", "hash"),
}
_ABSENT = 'const absent = () => { throw new Error("libsignal is not part of this installation: no WhatsApp"); };\n'


class Recipe(Struct, frozen=True):
    """An agent's npm package and how it is installed.

    Attributes:
        name: as in `agent:NAME`.
        package: its npm package.
        version: the one that the tests of this package run with.
        overrides: npm overrides, package to version or folder.
        node: whether it runs on Node, which is then installed beside it.
        scripts: whether npm may run the packages' own install scripts.
    """

    name: str
    package: str
    version: str
    overrides: dict[str, str] = {}
    node: bool = False
    scripts: bool = True


# OpenClaw's WhatsApp channel pulls `libsignal` from a git host, and the newest linkedom a package that is not always
# there; neither is needed to answer a question.
RECIPES = {
    "openclaw": Recipe(
        "openclaw",
        "openclaw",
        "2026.3.13",
        overrides={"libsignal": f"file:./{LIBSIGNAL_FOLDER}", "linkedom": "0.18.12"},
        node=True,
        scripts=False,
    ),
    "opencode": Recipe("opencode", "opencode-ai", "1.18.33"),
}


class Installation(Struct, frozen=True):
    """The content of installed.json; `folder` is the installation.

    `digest` is SHA-256 over one line per file, sorted: its path, then SHA-256 of its content or the target of a link.
    Of a program of the user's own (own_program.py), `program` is its path below the folder, `parts` are the members of
    the folder that a sandbox shows, `node` is the path of its Node, and `digest` that of the program.
    """

    name: str
    version: str
    node: str
    files: int
    size: int
    digest: str
    installed_at: str
    folder: Path = Path()
    program: str = ""
    parts: tuple[str, ...] = ()

    @property
    def warm(self) -> Path:
        """Folder of the compiled code of a first start; nothing is written beside a program of the user's own."""
        return cache_folder() / "agents-warm" / self.digest[:16] if self.program else self.folder / "warm"

    def shown(self, inside: str) -> list[tuple[Path, str]]:
        """Return (path, path in the sandbox) of all that a sandbox shows of it, at `inside`."""
        if not self.parts:
            return [(self.folder, inside)]
        return [(self.folder / part, f"{inside}/{part}") for part in self.parts]


def recipe_of(name: str) -> tuple[Recipe, str]:
    """Return the recipe and the version that `NAME` or `NAME@VERSION` means.

    Raises:
        UsageError: no such agent, or a version that cannot be one.
    """
    agent, at, version = name.partition("@")
    if agent not in RECIPES:
        raise UsageError(
            f"there is no agent {agent!r}", f"Agents: {', '.join(RECIPES)}; snellen is built in and not installed."
        )
    if at and not (version and version[0].isdigit() and all(c.isalnum() or c in ".-+" for c in version)):
        raise UsageError(f"{version!r} is not a version of {agent}", f"Example: {agent}@{RECIPES[agent].version}.")
    return RECIPES[agent], version or RECIPES[agent].version


def root() -> Path:
    """Return the folder of all installations: that of OPENCLAW_RUNTIME_DIR, else one in the cache folder."""
    named = os.environ.get(RUNTIME)
    return Path(named).absolute() if named else cache_folder() / "agents"


def find(name: str) -> Installation | None:
    """Return the installation of `NAME` or `NAME@VERSION`, None where there is none.

    Raises:
        AgentInstallError: its installed.json cannot be read.
    """
    recipe, version = recipe_of(name)
    folder = root() / f"{recipe.name}-{version}"
    try:
        record = msgspec.json.decode((folder / _RECORD).read_bytes(), type=Installation)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, OSError, RecursionError) as error:
        raise AgentInstallError(
            f"{folder / _RECORD} cannot be read: {error}", f"Remove {folder} and install the agent again."
        ) from error
    return msgspec.structs.replace(record, folder=folder)


def installed() -> list[Installation]:
    """Return all installations, by name and version."""
    folders = sorted(root().glob(f"*/{_RECORD}"))
    names = [folder.parent.name.partition("-") for folder in folders]
    return [
        installation for name, _, version in names if name in RECIPES and (installation := find(f"{name}@{version}"))
    ]


def install(name: str) -> tuple[Installation, bool]:
    """Install an agent, or find it installed. Returns it, and whether it is new.

    Raises:
        UsageError: no such agent. AgentInstallError: npm is missing or failed.
    """
    recipe, version = recipe_of(name)
    target = root() / f"{recipe.name}-{version}"
    try:
        root().mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(root() / f".{target.name}.lock"):
            if (existing := find(name)) is not None:
                return existing, False
            if target.exists():
                raise AgentInstallError(
                    f"{target} is there and has no {_RECORD}", "It is not an installation of ours; move it away."
                )
            for stale in root().glob(f".{target.name}.*/"):  # of one that was killed: we hold the lock
                shutil.rmtree(stale, ignore_errors=True)
            part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=root()))
            try:
                made = _build(recipe, version, part)
                part.chmod(0o755)
                part.rename(target)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise AgentInstallError(f"{target} cannot be written: {error.strerror or error}") from error
    return msgspec.structs.replace(made, folder=target), True


def verify(installation: Installation) -> None:
    """Read every file again.

    Raises:
        AgentInstallError: they are not those that were installed.
    """
    digest, files, _ = tree_digest(installation.folder)
    if digest != installation.digest:
        raise AgentInstallError(
            f"{installation.folder}: {files:,} files with digest {digest[:16]}…; installed were {installation.files:,} with "
            f"{installation.digest[:16]}…",
            "Remove the folder and install the agent again.",
        )


def executable(installation: Installation, inside: str) -> str:
    """Return the program to run, where the installation is seen at `inside`: Node for OpenClaw, the binary for OpenCode."""
    if installation.program and installation.node:
        return str(Path(inside) / installation.node)  # an absolute path stays as it is
    if installation.program:
        return f"{inside}/{installation.program}"
    if RECIPES[installation.name].node:
        return f"{inside}/node/node_modules/node/bin/node"
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(
        platform.machine().lower(), ""
    )
    return f"{inside}/node_modules/opencode-{platform.system().lower()}-{machine}/bin/opencode"


def tree_digest(folder: Path) -> tuple[str, int, int]:
    """Return (SHA-256, number of files, bytes) of an installation."""
    total, count, size = hashlib.sha256(), 0, 0
    for path in _files(folder):
        if path.is_symlink():
            content = f"-> {path.readlink()}"
        else:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            size += path.stat().st_size
        count += 1
        total.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest(), count, size


def _files(folder: Path) -> Iterator[Path]:
    own = {folder / _RECORD}
    for at, folders, names in os.walk(folder):
        if Path(at) == folder:
            folders[:] = [name for name in folders if name != "warm"]
        folders.sort()
        links = [name for name in folders if (Path(at) / name).is_symlink()]
        yield from (path for name in sorted([*names, *links]) if (path := Path(at) / name) not in own)


def _build(recipe: Recipe, version: str, folder: Path) -> Installation:
    npm = shutil.which("npm")
    if npm is None:
        raise AgentInstallError(
            f"npm is needed to install {recipe.name}, and was not found",
            "Install Node.js with npm (any version from 18); the agent gets a Node of its own.",
        )
    path = os.environ.get("PATH", "")
    node = ""
    if recipe.node:
        (folder / "node").mkdir()
        _package(folder / "node", {"node": NODE}, {})
        _npm(npm, folder / "node", [], path)
        node = f"{folder}/node/node_modules/node/bin"
        path = f"{node}{os.pathsep}{path}"
    if any(value.startswith("file:") for value in recipe.overrides.values()):
        write_libsignal_stub(folder)
    _package(folder, {recipe.package: version}, recipe.overrides)
    _npm(npm, folder, [] if recipe.scripts else ["--ignore-scripts"], path)
    digest, files, size = tree_digest(folder)
    made = Installation(
        recipe.name,
        version,
        _says([f"{node}/node", "--version"]) if node else "",
        files,
        size,
        digest,
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )
    if not Path(executable(made, str(folder))).is_file():
        raise AgentInstallError(
            f"npm installed {recipe.package} {version}, but {executable(made, '.')} is not in it",
            f"There may be no {recipe.name} for {platform.system()} on {platform.machine()}.",
        )
    record = {key: value for key, value in msgspec.structs.asdict(made).items() if key != "folder"}
    (folder / _RECORD).write_bytes(pretty_json(record))
    return made


def _package(folder: Path, wanted: dict[str, str], overrides: dict[str, str]) -> None:
    (folder / "package.json").write_bytes(
        msgspec.json.encode({"private": True, "dependencies": wanted, "overrides": overrides})
    )


def _npm(npm: str, folder: Path, arguments: list[str], path: str) -> None:
    """Run npm install in a folder; its exit status is believed."""
    run_installer(
        [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *arguments],
        NPM_SECONDS,
        "Check that its registry is reachable (npm ping). Nothing was installed.",
        cwd=folder,
        env={**os.environ, "PATH": path},
    )


def _says(words: list[str]) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - our own Node
    except (OSError, subprocess.SubprocessError) as error:
        raise AgentInstallError(f"the private Node does not run: {error}") from error
    return done.stdout.strip()


def write_libsignal_stub(folder: Path) -> None:
    """Write a package in the place of `libsignal`, which OpenClaw's WhatsApp channel would fetch from a git host.

    The channel is never used here. Its modules are still loaded when OpenClaw starts and import these names; a call of one
    throws an error.
    """
    package = folder / LIBSIGNAL_FOLDER
    (package / "src").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "libsignal", "version": "2.0.1", "main": "index.js"}\n')
    classes = "".join(f"exports.{name} = class {{ constructor() {{ absent(); }} }};\n" for name in _LIBSIGNAL_CLASSES)
    (package / "index.js").write_text(_ABSENT + classes)
    for module, names in _LIBSIGNAL_FUNCTIONS.items():
        (package / "src" / f"{module}.js").write_text(
            _ABSENT + "".join(f"exports.{name} = absent;\n" for name in names)
        )
