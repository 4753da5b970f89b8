"""`snellen serve`: a local or the embedded model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

from typing import Annotated, Literal

import typer


def serve(
    model: Annotated[
        str, typer.Argument(help="embedded, local:NAME, or the path of a model folder.", show_default=False)
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
) -> None:
    """Put a local model behind an OpenAI-compatible endpoint.

    Answers GET /v1/models and POST /v1/chat/completions. Pictures come inside the request, as data URIs.
    """
    from snellen.cli.output import note
    from snellen.models.base import ModelOptions
    from snellen.models.server import names, run
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
    path, public = names.parse(model)
    if server == "transformers":
        from snellen.models.server import peer

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
