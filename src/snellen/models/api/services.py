"""Services behind an API as rows of data: address, key, headers, paths, versions and limits of each provider.

API keys from the environment or a .env file in the working folder, never from the command line.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct, field, structs

from snellen import redaction
from snellen.dotenv_file import dotenv_value
from snellen.errors import PreflightError, UsageError
from snellen.models.api.endpoint import Endpoint, parse_endpoint
from snellen.redaction.arguments import VARIABLE, may_be_shown

DEFAULT_VARIABLE = "OPENAI_API_KEY"


def find_key(variable: str | None, usual: Sequence[str] = (DEFAULT_VARIABLE,)) -> str | None:
    """Return the API key, registered for redaction, or None where there is none (a local server often wants none).

    Args:
        variable: name of the environment variable that holds the key; None: the first of `usual` that is set.
        usual: the service's own variables.

    The environment wins over .env, as python-dotenv does it.

    Raises:
        PreflightError: a variable was named and is not set, or its value cannot stand in an HTTP header.
        UsageError: what was named is no variable, but perhaps the key itself.
    """
    require_variable(variable)
    names = (variable,) if variable else usual
    name = next((each for each in names if variable_value(each)), names[0])
    key = variable_value(name)
    if key:
        redaction.register(key)
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise PreflightError(
            f"The value of {name} holds characters that a key cannot have (spaces, line breaks, non-ASCII).",
            f"Set {name} to the key alone.",
        )
    if len(key) > 1 and key[0] in "\"'`" and key[-1] == key[0]:
        raise PreflightError(
            f"The value of {name} begins and ends with a quotation mark, which is no part of a key.",
            f"Set {name} to the key alone, without quotes (docker --env-file and some editors keep them).",
        )
    if not key and variable is not None:
        raise PreflightError(
            f"The environment variable {variable} is not set, in the environment or in .env.",
            f"Set it (export {variable}=…), write it into .env, or name another one with --key-env.",
        )
    return key or None


def is_set(name: str) -> bool:
    """Return True if a variable is set, in the environment or in .env."""
    return bool(variable_value(name))


def variable_value(name: str) -> str:
    """Return the value of a variable in the environment or in .env; "" for one that is not set."""
    return (os.environ.get(name) or dotenv_value(name) or "").strip()


def require_variable(variable: str | None) -> None:
    """Raise UsageError where --key-env is no name of a variable, without a word of it: it may be the key itself."""
    if variable is None or may_be_shown(variable):
        return
    if VARIABLE.fullmatch(variable) and (os.environ.get(variable) or dotenv_value(variable)):
        return
    redaction.register(variable)
    raise UsageError(
        "--key-env takes the name of an environment variable, and what was given is none; it is not shown, since it may "
        "be the key itself.",
        "Set a variable to the key (export MY_KEY=…) and name it: --key-env MY_KEY. A key that was typed into a command "
        "stands in the shell's history: replace it.",
    )


OVERRIDES_VARIABLE = "SNELLEN_SERVICES"
PROVIDERS = ("openai", "anthropic", "gemini", "openrouter", "azure", "bedrock", "vertex")
"""Kinds of models that name a provider; `api` is any compatible server."""
_VERSION = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?$")


class Service(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of services.toml.

    Attributes:
        title: as in messages.
        protocol: which requests and replies it understands.
        base_url: address before the version; "": the user has to give one.
        base_url_variables, key_variables: environment variables, the first that is set counts.
        cloud: whose credentials sign requests without a key, and name the region or project of addresses (`cloud`); "": none.
        anthropic_version: member of the body in place of the model, which stands in the address; "": the model is sent.
        version: part of the path between the address and `path`, unless the address ends in a version already; "": none.
        key_header, key_form: the header that carries the key, and its value with `{key}`.
        headers: further headers of every request.
        path, stream_path, model_path: of a question, of one with --stream (""; as `path`), and of one model ("": the list
            of models is read).
        batch_path, files_path: of batches and of uploaded files; "": the service has none.
        api_version_variable, deployment_path: Azure's older addresses, used where an api-version is named.
        reasoning: pattern of names of models that think unasked, so that their limit on new tokens includes thinking.
        efforts, details: words of --effort and --detail that the service knows, besides `auto`.
        prompt_caches: words of --prompt-cache that the service knows, besides `off`.
        sampling: settings that its requests can hold, of `types.MORE_SAMPLING`; others are refused before the run.
        max_tokens: limit on new tokens that is sent where nobody set one; None: none is sent.
        tokens_field: name of the limit on new tokens in chat completions; "": `max_completion_tokens` for models that think
            unasked, else `max_tokens`, and the other where the server asks for it.
        max_temperature: the largest that is accepted; None: see `endpoint.MAX_TEMPERATURE`.
        unscaled_side: pixels of the longest side up to which the service surely does not scale an image down; None: not known.
        original: `--detail original` stops the service from scaling images down at all.
        request_bytes: the largest request body; None: not known.
        image_upload: how images are uploaded to `files_path`: as a `form`, or by Google's `resumable` protocol; "": the
            protocol has no place for uploaded images.
        image_inline_bytes: characters of an image's base64 text above which it is uploaded; None: as long as the request
            is within `request_bytes`.
        image_file_bytes: the largest upload.
        image_file_seconds: life of an upload, asked for in a field or given by the service.
        image_file_fields, image_file_headers: of the form, with `{seconds}`, and of its request.
    """

    title: str
    protocol: Literal["chat", "responses", "messages", "gemini", "converse"]
    base_url: str
    path: str
    base_url_variables: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()
    cloud: Literal["", "aws", "google"] = ""
    anthropic_version: str = ""
    version: str = ""
    key_header: str = "Authorization"
    key_form: str = "Bearer {key}"
    headers: Mapping[str, str] = field(default_factory=dict)
    stream_path: str = ""
    model_path: str = ""
    batch_path: str = ""
    files_path: str = ""
    api_version_variable: str = ""
    deployment_path: str = ""
    reasoning: str = ""
    efforts: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    prompt_caches: tuple[str, ...] = ()
    sampling: tuple[str, ...] = ()
    max_tokens: int | None = None
    tokens_field: str = ""
    max_temperature: float | None = None
    request_bytes: int | None = None
    image_upload: Literal["", "form", "resumable"] = ""
    image_inline_bytes: int | None = None
    image_file_bytes: int = 500_000_000
    image_file_seconds: int = 172_800
    image_file_fields: Mapping[str, str] = field(default_factory=dict)
    image_file_headers: Mapping[str, str] = field(default_factory=dict)
    unscaled_side: int | None = None
    original: bool = True

    def reasons(self, model: str) -> bool:
        """Return True for the name of a model that thinks before it answers, whether asked to or not."""
        return bool(self.reasoning) and re.match(self.reasoning, model, re.IGNORECASE) is not None

    def endpoint(self, base_url: str | None, model: str, place: Mapping[str, str] | None = None) -> Endpoint:
        """Return the checked address, version included.

        Args:
            base_url: that of the user; None: the variable's or the default.
            model: as the service calls it.
            place: region or project of a cloud, for the default.

        Raises:
            UsageError: as `parse_endpoint`; there is no address.
        """
        variable = next((name for name in self.base_url_variables if os.environ.get(name)), "")
        text = (base_url or os.environ.get(variable) or self.base_url.format(**(place or {}))).strip()
        if not text:
            raise UsageError(
                f"{self.title} has an address of its own for each customer, and none is given.",
                f"Give it: --base-url URL, or set {self.base_url_variables[-1]}.",
            )
        endpoint = parse_endpoint(text)
        endpoint = Endpoint(endpoint.base.removesuffix(self.path), endpoint.query)
        api_version = os.environ.get(self.api_version_variable, "") if self.api_version_variable else ""
        if self.deployment_path and (endpoint.query or (api_version and not endpoint.base.endswith("/v1"))):
            path = self.deployment_path.format(model=quote(model, safe="")).removesuffix(self.path)
            base = endpoint.base if "/deployments/" in endpoint.base else endpoint.base + path
            return Endpoint(base, endpoint.query or f"api-version={quote(api_version, safe='')}")
        if self.version and not _VERSION.search(endpoint.base):
            return Endpoint(f"{endpoint.base}/{self.version}", endpoint.query)
        return endpoint

    def key_headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of every request: those of the service, and the key in its own."""
        return {**self.headers, **({self.key_header: self.key_form.format(key=key)} if key is not None else {})}


def service(name: str) -> Service:
    """Return one service's row, with the fields that the file of SNELLEN_SERVICES overrides.

    Raises:
        UsageError: that file cannot be read, or is not of the form of services.toml.
    """
    path = os.environ.get(OVERRIDES_VARIABLE, "")
    rows = _rows() if not path else _overridden(path)
    return rows[name]


@cache
def _rows() -> dict[str, Service]:
    text = resources.files(__package__).joinpath("services.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Service])


def _overridden(path: str) -> dict[str, Service]:
    rows = _rows()
    try:
        from snellen.toml_text import parse_toml

        tables = msgspec.convert(parse_toml(Path(path).read_text(encoding="utf-8")), dict[str, dict[str, Any]])
        unknown = sorted(set(tables) - set(rows))
        if unknown:
            raise UsageError(
                f"{OVERRIDES_VARIABLE}={path} names the service {unknown[0]!r}, which there is not.",
                f"Services: {', '.join(rows)}.",
            )
        return {
            name: msgspec.convert({**structs.asdict(row), **tables.get(name, {})}, Service)
            for name, row in rows.items()
        }
    except OSError as error:
        raise UsageError(
            f"cannot read {path}, which {OVERRIDES_VARIABLE} names: {error.strerror}", "Correct it, or unset it."
        ) from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{path}, which {OVERRIDES_VARIABLE} names, is not of the form of services.toml: {error}",
            "Correct it, or unset it.",
        ) from None


def changed_fields(name: str) -> dict[str, Any]:
    """Return the fields of a service that the file of SNELLEN_SERVICES changes, for the run's record."""
    usual, used = structs.asdict(_rows()[name]), structs.asdict(service(name))
    return {field: msgspec.to_builtins(value) for field, value in used.items() if value != usual[field]}
