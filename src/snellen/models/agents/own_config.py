"""The user's own configuration of an agent (`--agent-config`): model, endpoint and key in it, and the copy for the sandbox.

The agent gets a copy that it cannot change. Only the provider that is used stays in it, and its key goes where the key of
an endpoint always goes: to the gateway, or into the environment. Every value that is a key by its name is redacted from
what is written.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen import redaction
from snellen.errors import DataError, UsageError
from snellen.models.agents import relaxed_json
from snellen.sources.safe_paths import regular_file

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
        content = relaxed_json.decode(path.read_text("utf-8"))
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
