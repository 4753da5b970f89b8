"""`snellen serve`: a local or the embedded model behind an OpenAI-compatible endpoint, or a vLLM server of the user."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.models.serve.vllm import Settings

VLLM_PANEL = "serve vllm"
OURS = {
    "dtype": "auto",
    "device": "auto",
    "batch_size": 32,
    "revision": None,
    "max_tokens": None,
    "max_pixels": None,
    "max_long_side": None,
    "stop_after_first_json": False,
    "max_body_mb": 64,
    "server": "snellen",
}
THEIRS = {
    "gpu": None,
    "data_parallel": None,
    "tensor_parallel": None,
    "docker": None,
    "apptainer": None,
    "log": None,
    "startup_timeout": 1800.0,
}


def serve(
    context: typer.Context,
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="[vllm] MODEL",
            help="embedded, local:NAME, or the path of a model folder. Behind the word vllm: what vLLM is to load, and "
            "behind -- more arguments for it.",
            show_default=False,
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on. The default is reached from this machine only.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 8000,
    name: Annotated[
        str | None, typer.Option(help="What clients call the model; by default its name here.", show_default=False)
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(help="Environment variable that holds the key clients must send.", show_default=False),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="auto, float32, bfloat16 or float16. auto: float32 on CPU, else the checkpoint's.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    batch_size: Annotated[int, typer.Option(help="Prompts that are answered together at most.", min=1)] = 32,
    revision: Annotated[str | None, typer.Option(help="Revision on the hub.", show_default=False)] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="New tokens at most, in place of what requests ask.", min=1, show_default=False)
    ] = None,
    max_pixels: Annotated[
        int | None, typer.Option(help="Pixels of a picture at most; larger ones shrink.", min=1, show_default=False)
    ] = None,
    max_long_side: Annotated[
        int | None, typer.Option(help="Pixels of a picture's long side at most.", min=1, show_default=False)
    ] = None,
    stop_after_first_json: Annotated[
        bool, typer.Option("--stop-after-first-json", help="End an answer after one whole JSON object.")
    ] = False,
    max_body_mb: Annotated[int, typer.Option(help="Size of a request at most, in MiB.", min=1)] = 64,
    server: Annotated[
        Literal["snellen", "transformers"],
        typer.Option(help="snellen: batches, refuses addresses. transformers: its own `transformers serve`."),
    ] = "snellen",
    gpu: Annotated[
        str | None, typer.Option(metavar="IDS", help="GPUs by comma; all by default.", rich_help_panel=VLLM_PANEL)
    ] = None,
    data_parallel: Annotated[
        int | None, typer.Option(min=1, help="Copies of the model.", rich_help_panel=VLLM_PANEL)
    ] = None,
    tensor_parallel: Annotated[
        int | None, typer.Option(min=1, help="GPUs that share one copy.", rich_help_panel=VLLM_PANEL)
    ] = None,
    docker: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE", help="Run this Docker image, not `vllm` on the PATH.", rich_help_panel=VLLM_PANEL
        ),
    ] = None,
    apptainer: Annotated[
        Path | None, typer.Option(metavar="SIF", help="Run this Apptainer image.", rich_help_panel=VLLM_PANEL)
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="File for vLLM's output.", show_default="vllm-PORT.log", rich_help_panel=VLLM_PANEL),
    ] = None,
    startup_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds until it must answer.", rich_help_panel=VLLM_PANEL)
    ] = 1800.0,
) -> None:
    """Put a local model behind an OpenAI-compatible endpoint.

    Answers GET /v1/models and POST /v1/chat/completions. Pictures come inside the request, as data URIs.

    `snellen serve vllm MODEL` starts the vLLM that you have, says when it answers, and ends it with Ctrl-C.
    """
    given = context.params
    if model[0] == "vllm":
        serve_vllm(vllm_settings(_with_variables(context)))
    if len(model) > 1:
        raise UsageError(f"one model is served, not {len(model)}: {' '.join(model)}", "See snellen serve --help.")
    _refuse(given, THEIRS, "is for `snellen serve vllm MODEL`.")
    from snellen.cli.console import note
    from snellen.models.base import ModelOptions
    from snellen.models.serve import names, run
    from snellen.types import Generation, MediaSettings

    options = ModelOptions(
        generation=Generation(max_tokens=max_tokens),
        media=MediaSettings(max_pixels=max_pixels, max_long_side=max_long_side),
        dtype=dtype,
        device=device,
        batch_size=batch_size,
        revision=revision,
        stop_after_first_json=stop_after_first_json,
    )
    path, public = names.parse(model[0])
    if server == "transformers":
        from snellen.models.serve import peer

        unusable = {
            "--name": name,
            "--api-key-env": api_key_env,
            "--max-tokens": max_tokens,
            "--max-pixels": max_pixels,
            "--max-long-side": max_long_side,
            "--stop-after-first-json": stop_after_first_json,
        }
        peer.refuse(unusable)
        peer.serve(path, options, host, port)
    from snellen.models.api.keys import find_key
    from snellen.models.local import open_model

    key = find_key(api_key_env) if api_key_env else None
    run.serve(open_model(path, options), name or public, host, port, key, max_body_mb * 2**20, note)


def _refuse(given: Mapping[str, Any], usual: Mapping[str, Any], why: str) -> None:
    if changed := [f"--{name.replace('_', '-')}" for name, value in usual.items() if given[name] != value]:
        raise UsageError(f"{', '.join(changed)} {why}", "Leave it away.")


def _with_variables(context: Any) -> dict[str, Any]:
    """The values by parameter; for vLLM those of the environment where an option is not given."""
    from snellen.cli import environment

    given: dict[str, Any] = context.params
    if list(given["model"])[:1] != ["vllm"]:
        return given
    sources = {name: context.get_parameter_source(name) for name in given}
    return environment.serving(given, {name for name, source in sources.items() if source and source.name != "DEFAULT"})


def vllm_settings(given: Mapping[str, Any]) -> Settings:
    """What to serve, from the values of this command by parameter.

    Raises:
        UsageError: no model is named, or an option is for our own server.
    """
    from snellen.models.api.keys import find_key
    from snellen.models.serve.vllm import Settings

    words: list[str] = list(given["model"])
    if len(words) < 2 or words[1].startswith("-"):
        raise UsageError("serve vllm: no model is named", "Example: snellen serve vllm Qwen/Qwen3-VL-8B-Instruct-FP8")
    _refuse(given, OURS, "is for our own server; vLLM has options of its own, to be given behind --.")
    return Settings(
        model=words[1],
        name=given["name"] or "",
        host=given["host"],
        port=given["port"],
        gpus=given["gpu"] or "",
        data_parallel=given["data_parallel"],
        tensor_parallel=given["tensor_parallel"],
        docker=given["docker"] or "",
        sif="" if given["apptainer"] is None else str(given["apptainer"]),
        extra=tuple(words[2:]),
        key=find_key(given["api_key_env"]) if given["api_key_env"] else None,
        log=given["log"],
        startup_s=given["startup_timeout"],
    )


def parse_vllm(line: str) -> Settings:
    """The settings in `vllm MODEL …`, as `snellen run --serve` gets them: the words of this command.

    Raises:
        UsageError: the words are not such a line.
    """
    from typer.main import get_command

    alone = typer.Typer(add_completion=False)
    alone.command()(serve)
    command = get_command(alone)
    try:
        words = shlex.split(line)
        given = _with_variables(command.make_context("serve", words))
    except ValueError as error:
        raise UsageError(f"--serve {line!r}: {error}") from None
    except Exception as error:
        if not hasattr(error, "format_message"):  # what click raises for wrong words, wherever typer keeps it
            raise
        raise UsageError(f"--serve {line!r}: {error.format_message()}", "See snellen serve --help.") from None
    if given["model"][0] != "vllm":
        raise UsageError(f"--serve {line!r} does not begin with vllm", 'Example: --serve "vllm MODEL --gpu 0"')
    return vllm_settings(given)


def serve_vllm(settings: Settings) -> NoReturn:
    """Start it, say where it is, wait until Ctrl-C or SIGTERM; end it.

    Raises:
        SnellenError: it did not start, or ended by itself.
    """
    from snellen.cli.console import note
    from snellen.models.serve.supervise import serving

    with serving(settings, note) as server:
        try:
            note(f"Serving {server.name} at {server.url} (Ctrl-C ends it).")
            server.wait()
        except KeyboardInterrupt:
            note("ending vLLM")
    raise typer.Exit
