"""snellen serve: a local or the embedded model behind an OpenAI-compatible endpoint, or a vLLM server"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NoReturn

import typer

from snellen.cli import options as shared
from snellen.cli.option_parsing import Commands, argument, given, only, option
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.models.serve.vllm import VllmSettings


@dataclass(frozen=True)
class ServerOptions:
    """Address, name and limits of the server."""

    host: str = option("Address to listen on. The default is reachable from this machine only.", "127.0.0.1")
    port: shared.Port = 8000
    name: str | None = option("Model name for clients; by default its name here.")
    api_key_env: str | None = option("Environment variable that holds the key clients must send.")
    max_body_mb: int = option("Maximum size of a request, in MiB.", 64, least=1)
    server: Literal["snellen", "transformers"] = option(
        "snellen: batches, refuses addresses. transformers: its own `transformers serve`.", "snellen"
    )


@dataclass(frozen=True)
class VllmOptions:
    """GPUs, container and start of a vLLM server."""

    PANEL: ClassVar[str] = "serve vllm"

    gpu: str | None = option("GPUs, separated by commas; by default all.", value="IDS")
    data_parallel: int | None = option("Number of copies of the model.", least=1)
    tensor_parallel: int | None = option("Number of GPUs per copy.", least=1)
    docker: str | None = option("Run this Docker image instead of `vllm` on the PATH.", value="IMAGE")
    apptainer: Path | None = option("Run this Apptainer image.", value="SIF")
    log: Path | None = option("File for vLLM's output.", said="vllm-PORT.log")
    startup_timeout: float = option("Maximum seconds until the server answers.", 1800.0, least=1)


def serve(
    context: typer.Context,
    model: list[str] = argument(
        "embedded, local:NAME, or the path of a model folder. After the word vllm: the model for vLLM, and "
        "after -- more arguments for it.",
        value="[vllm] MODEL",
    ),
    *,
    server: ServerOptions,
    generation: Annotated[shared.GenerationOptions, only("max_tokens")],
    media: Annotated[shared.MediaOptions, only("max_long_side", "max_pixels", "min_pixels", "resize")],
    local: Annotated[
        shared.LocalOptions,
        only("dtype", "device", "batch_size", "kv_cache", "compile", "stop_after_first_json", "revision", "adapter"),
    ],
    vllm: VllmOptions,
) -> None:
    """Serve a local model behind an OpenAI-compatible endpoint.

    Answers GET /v1/models and POST /v1/chat/completions. Images come inside the request, as data URIs.

    `snellen serve vllm MODEL` starts the installed vLLM, reports when it is ready, and stops it on Ctrl-C.
    """
    if model[0] == "vllm":
        serve_vllm(vllm_settings(_with_variables(context)))
    if len(model) > 1:
        raise UsageError(f"one model is served, not {len(model)}: {' '.join(model)}", "See snellen serve --help.")
    _refuse(given(vllm), "is for `snellen serve vllm MODEL`.")
    from snellen.cli.console import note
    from snellen.models.serve import run

    options = shared.model_options(generation, media, local)
    path, public = run.parse_model(model[0])
    if server.server == "transformers":
        from snellen.models.serve import transformers_serve

        unusable = given(server, but=("host", "port", "max_body_mb", "server")) + given(generation, media)
        unusable += given(local, but=("dtype", "device", "batch_size", "revision"))
        if unusable:
            raise UsageError(
                f"{', '.join(unusable)}: transformers serve has no such option.", "Omit it, or use --server snellen."
            )
        transformers_serve.serve(path, options, server.host, server.port)
    from snellen.models.api.services import find_key
    from snellen.models.local.model import open_model

    key = find_key(server.api_key_env) if server.api_key_env else None
    loaded = open_model(path, options)
    run.serve(loaded, server.name or public, server.host, server.port, key, server.max_body_mb * 2**20, note)


def _refuse(changed: Sequence[str], reason: str) -> None:
    if changed:
        raise UsageError(f"{', '.join(changed)} {reason}", f"Omit {', '.join(changed)}.")


def _with_variables(context: Any) -> dict[str, Any]:
    """Return the values by parameter; for vLLM omitted options are filled from environment variables."""
    from snellen.cli.environment import with_serve_variables

    values: dict[str, Any] = context.params
    if list(values["model"])[:1] != ["vllm"]:
        return values
    sources = {name: context.get_parameter_source(name) for name in values}
    typed = {name for name, source in sources.items() if source and source.name != "DEFAULT"}
    return with_serve_variables(values, typed)


def vllm_settings(values: Mapping[str, Any]) -> VllmSettings:
    """Build the settings of a vLLM server from this command's values by parameter.

    Raises:
        UsageError: no model is named, or an option is for Snellen's own server.
    """
    from snellen.models.api.services import find_key
    from snellen.models.serve.vllm import VllmSettings

    words: list[str] = list(values["model"])
    if len(words) < 2 or words[1].startswith("-"):
        raise UsageError("serve vllm: no model is named", "Example: snellen serve vllm Qwen/Qwen3-VL-8B-Instruct-FP8")
    own = [_group(values, kind) for kind in (shared.LocalOptions, shared.MediaOptions, shared.GenerationOptions)]
    own_server = given(_group(values, ServerOptions), but=("host", "port", "name", "api_key_env"))
    _refuse([*given(*own), *own_server], "is for Snellen's own server; pass options of vLLM after --.")
    return VllmSettings(
        model=words[1],
        name=values["name"] or "",
        host=values["host"],
        port=values["port"],
        gpus=values["gpu"] or "",
        data_parallel=values["data_parallel"],
        tensor_parallel=values["tensor_parallel"],
        docker=values["docker"] or "",
        sif="" if values["apptainer"] is None else str(values["apptainer"]),
        extra=tuple(words[2:]),
        key=find_key(values["api_key_env"]) if values["api_key_env"] else None,
        log=values["log"],
        startup_s=values["startup_timeout"],
    )


def _group(values: Mapping[str, Any], kind: type[Any]) -> Any:
    """Return a group of options from the values by parameter."""
    return kind(**{each.name: values[each.name] for each in fields(kind) if each.name in values})


def parse_vllm(line: str) -> VllmSettings:
    """Parse `vllm MODEL …`, the value of `snellen run --serve`: the arguments of this command.

    Raises:
        UsageError: the line is not such a command.
    """
    from typer.main import get_command

    application = Commands(add_completion=False)
    application.command()(serve)
    command = get_command(application)
    try:
        words = shlex.split(line)
        values = _with_variables(command.make_context("serve", words))
    except ValueError as error:
        raise UsageError(f"--serve {line!r}: {error}") from None
    except Exception as error:
        if not hasattr(error, "format_message"):  # an error of click; typer has its own copy of click
            raise
        raise UsageError(f"--serve {line!r}: {error.format_message()}", "See snellen serve --help.") from None
    if values["model"][0] != "vllm":
        raise UsageError(f"--serve {line!r} does not begin with vllm", 'Example: --serve "vllm MODEL --gpu 0"')
    return vllm_settings(values)


def serve_vllm(settings: VllmSettings) -> NoReturn:
    """Start a vLLM server, report its address, and stop it on Ctrl-C or SIGTERM.

    Raises:
        SnellenError: the server did not start, or stopped by itself.
    """
    from snellen.cli.console import note
    from snellen.models.serve.supervise import serving

    with serving(settings, note) as server:
        try:
            note(f"Serving {server.name} at {server.url} (Ctrl-C stops it).")
            server.wait()
        except KeyboardInterrupt:
            note("stopping vLLM")
    raise typer.Exit
