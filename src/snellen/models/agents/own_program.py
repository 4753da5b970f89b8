"""The user's own program of an agent (`--agent-bin`), in the place of an installation by `snellen agents install`.

A sandbox shows the program alone, or, of a program that npm installed, the `node_modules` that it lies in.

JSON as agents' configurations are written: with comments, trailing commas, single quotes and bare keys (JSONC, JSON5).

The user's own configuration of an agent (`--agent-config`): model, endpoint and key in it, and the copy for the sandbox.

The agent gets a copy that it cannot change. Only the provider that is used stays in it, and its key goes where the key of
an endpoint always goes: to the gateway, or into the environment. Every value that is a key by its name is redacted from
what is written.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen import redaction
from snellen.errors import DataError, UsageError
from snellen.models.agents.install import RECIPES, Installation
from snellen.models.agents.programs import locate, version
from snellen.sources.digests import digest
from snellen.sources.safe_paths import regular_file

OPTION = "--agent-bin"
_MODULES = "node_modules"


def find(agent: str, given: str) -> Installation:
    """Return the program as an installation; it is started once, for its version.

    Args:
        agent: openclaw or opencode.
        given: a path, or a name on PATH.

    Raises:
        UsageError: there is no such program, or no Node for it that a sandbox can show.
    """
    place = shutil.which(os.path.expanduser(given))  # noqa: PTH111 - a name on PATH is no path
    if place is None:
        path = Path(given).expanduser()
        reason = "it is not executable" if path.is_file() else "a program was expected, as a path or a name on PATH"
        raise UsageError(f"{OPTION} {given}: {reason}", f"`snellen agents install {agent}` installs one.")
    program = Path(place).resolve()
    if _MODULES in program.parts:
        at = program.parts.index(_MODULES)
        folder = Path(*program.parts[:at])
        parts = [_MODULES, *_linked(folder)]
        if (folder / "node" / _MODULES).is_dir():
            parts.append("node")
    else:
        folder, parts = program.parent, [program.name]
    node = _node(given, folder) if RECIPES[agent].node else ""
    text = version(str(folder / node), (str(program), "--version")) if node else version(place)
    return Installation(
        name=agent,
        version=(text or "unknown").split()[-1],
        node=node,
        files=1,
        size=program.stat().st_size,
        digest=digest(program).removeprefix("sha256:"),
        installed_at="",
        folder=folder,
        program=str(program.relative_to(folder)),
        parts=tuple(parts),
    )


def _linked(folder: Path) -> list[str]:
    """Return the members of a project's folder that packages in its node_modules are links to."""
    modules = folder / _MODULES
    packages = [path for path in modules.iterdir() if path.is_symlink() or path.name.startswith("@")]
    packages += [path for scope in packages if not scope.is_symlink() for path in scope.iterdir()]
    targets = [path.resolve() for path in packages if path.is_symlink()]
    inside = {target.relative_to(folder).parts[0] for target in targets if target.is_relative_to(folder)}
    return sorted(inside - {_MODULES})


def _node(given: str, folder: Path) -> str:
    """Return Node for the program: its own beside it (as a path below the folder), else that on PATH, below /usr."""
    private = Path("node") / _MODULES / "node" / "bin" / "node"
    if (folder / private).is_file():
        return str(private)
    path = locate("node")
    if path is not None and Path(path).resolve().is_relative_to("/usr"):
        return str(Path(path).resolve())
    where = "there is none on PATH" if path is None else f"{path} lies outside /usr, where a sandbox cannot see it"
    raise UsageError(f"{OPTION} {given} needs Node, and {where}", "Install Node below /usr, or omit --agent-bin.")


_TOKEN = re.compile(
    r"""(?P<double>"(?:[^"\\]|\\.)*")
    |(?P<single>'(?:[^'\\]|\\.)*')
    |(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<mark>[{}\[\]:,])
    |(?P<word>[^\s{}\[\]:,"'/]+)
    |(?P<space>\s+)""",
    re.DOTALL | re.VERBOSE,
)


def decode(text: str) -> Any:
    """Decode plain or relaxed JSON.

    Raises:
        ValueError: it is neither; the message names the line.
    """
    text = text.removeprefix("\ufeff")
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        pass
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    pieces = list(_pieces(text))
    plain: list[str] = []
    for number, (kind, piece) in enumerate(pieces):
        following = pieces[number + 1][1] if number + 1 < len(pieces) else ""
        if piece == "," and following in ("}", "]"):
            continue
        if kind == "single":
            inner = piece[1:-1].replace("\\'", "'")
            plain.append('"' + re.sub(r'(?<!\\)"', '\\"', inner) + '"')
        elif kind == "word" and following == ":":
            plain.append(msgspec.json.encode(piece).decode())
        else:
            plain.append(piece)
    try:
        return msgspec.json.decode("".join(plain))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _pieces(text: str) -> list[tuple[str, str]]:
    result, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            line = text.count("\n", 0, at) + 1
            raise ValueError(f"line {line}: {text[at : at + 20]!r} was not expected")
        at = match.end()
        if match.lastgroup not in ("comment", "space"):
            result.append((match.lastgroup or "", match[0]))
    return result


CONFIG_BYTES = 4 << 20
_REFERENCE = re.compile(r"\{env:([A-Za-z_]\w*)\}|\$\{([A-Za-z_]\w*)\}")
_SECRET = re.compile(r"key|token|secret|password|passwd|authorization|credential|cookie", re.IGNORECASE)
_COUNT = re.compile(r"max_?tokens|tokens?_?(limit|count)|keyboard|keybind", re.IGNORECASE)


class OwnConfig(Struct, frozen=True):
    """A configuration as it was read.

    Attributes:
        path: the file.
        content: the whole object.
        model: PROVIDER/MODEL that it names; empty: it names none.
        base_urls: provider to endpoint, references to the environment replaced.
        keys: provider to key, as it stands in the file.
    """

    path: Path
    content: dict[str, Any]
    model: str
    base_urls: dict[str, str]
    keys: dict[str, str]

    @property
    def digest(self) -> str:
        """SHA-256 of the configuration without its keys: a new key is no other experiment."""
        content = msgspec.json.encode(without_secrets(self.content), order="deterministic")
        return hashlib.sha256(content).hexdigest()

    def key_of(self, provider: str) -> tuple[str, str]:
        """Return (key, name of the variable that holds it) of a provider; both empty if it names none.

        Raises:
            UsageError: the key is a reference to something other than a variable.
        """
        value = self.keys.get(provider, "").strip()
        if not value:
            return "", ""
        if (match := _REFERENCE.fullmatch(value)) is not None:
            return "", match[1] or match[2]
        if "{" in value:
            raise UsageError(
                f"{self.path}: the key of {provider} is a reference that is not followed; a variable was expected",
                "Put the key into an environment variable and name it: --key-env NAME.",
            )
        return value, ""


def read(agent: str, path: Path) -> OwnConfig:
    """Read a configuration, and register the keys in it for redaction.

    Raises:
        UsageError: there is no such file, or it is no configuration of this agent.
    """
    option = f"--agent-config {path}"
    try:
        if regular_file(path).st_size > CONFIG_BYTES:
            raise UsageError(f"{option}: larger than {CONFIG_BYTES:,} bytes", f"Name the configuration of {agent}.")
        content = decode(path.read_text("utf-8"))
    except DataError as error:
        raise UsageError(f"--agent-config: {error.message}", error.hint) from None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{option}: cannot be read as JSON: {error}", "Comments and trailing commas are accepted."
        ) from None
    if not isinstance(content, dict):
        raise UsageError(f"{option}: an object was expected", f"Name the configuration of {agent}.")
    for secret in secrets(content):
        redaction.register(secret)
    model, providers, url = _OPENCODE if agent == "opencode" else _OPENCLAW
    listed = _at(content, *providers)
    entries = (
        {name: entry for name, entry in listed.items() if isinstance(entry, dict)} if isinstance(listed, dict) else {}
    )
    named = next((value for at in model if isinstance(value := _at(content, *at), str)), "")
    urls = {name: _at(entry, *url) for name, entry in entries.items()}
    keys = {name: _at(entry, *url[:-1], "apiKey") for name, entry in entries.items()}
    return OwnConfig(
        path,
        content,
        named,
        {name: _resolved(value) for name, value in urls.items() if isinstance(value, str)},
        {name: value for name, value in keys.items() if isinstance(value, str)},
    )


_OPENCODE = ((("agent", "build", "model"), ("model",)), ("provider",), ("options", "baseURL"))
_OPENCLAW = (
    (("agents", "defaults", "model", "primary"), ("agents", "defaults", "model")),
    ("models", "providers"),
    ("baseUrl",),
)


def usual_path(agent: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the user's configuration where the agent itself looks for it; None if there is none."""
    home = Path(environment.get("HOME") or Path.home())
    if agent == "opencode":
        folder = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
        named = environment.get("OPENCODE_CONFIG")
        paths = [folder / name for name in ("opencode.json", "opencode.jsonc", "config.json")]
    else:
        folder = Path(environment.get("OPENCLAW_STATE_DIR") or home / ".openclaw")
        named = environment.get("OPENCLAW_CONFIG_PATH")
        paths = [folder / "openclaw.json"]
    return next((path for path in ([Path(named)] if named else paths) if path.is_file()), None)


def usual(agent: str) -> OwnConfig | None:
    """Read the user's configuration in its usual place, if there is one that names a model.

    Raises:
        UsageError: it cannot be read.
    """
    path = usual_path(agent)
    config = None if path is None else read(agent, path)
    return config if config is not None and config.model else None


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both objects in one; where both have a value, that of `over`, member by member of objects."""
    result = dict(base)
    for name, value in over.items():
        before = result.get(name)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        result[name] = merged(before, value) if both else value  # type: ignore[arg-type]
    return result


def secrets(content: Any, name: str = "") -> Iterator[str]:
    """Yield the values of a configuration that are keys by the names of their members."""
    if isinstance(content, Mapping):
        for member, value in content.items():
            yield from secrets(value, str(member))
    elif isinstance(content, list):
        for value in content:
            yield from secrets(value, name)
    elif isinstance(content, str) and _is_secret(name) and not _REFERENCE.fullmatch(content.strip()):
        yield content.removeprefix("Bearer ").strip()


def without_secrets(content: Any, name: str = "") -> Any:
    """Return a configuration in which each key is null."""
    if isinstance(content, Mapping):
        return {str(member): without_secrets(value, str(member)) for member, value in content.items()}
    if isinstance(content, list):
        return [without_secrets(value, name) for value in content]
    return None if isinstance(content, str) and _is_secret(name) else content


def _is_secret(name: str) -> bool:
    return bool(_SECRET.search(name)) and not _COUNT.search(name)


def _resolved(value: str) -> str:
    return _REFERENCE.sub(lambda match: os.environ.get(match[1] or match[2], ""), value)


def _at(content: Any, *names: str) -> Any:
    for name in names:
        if not isinstance(content, Mapping):
            return None
        content = content.get(name)
    return content


def as_object(value: Any) -> dict[str, Any]:
    """Return a copy of an object; an empty one for anything else."""
    return dict(value) if isinstance(value, Mapping) else {}
