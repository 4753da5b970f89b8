"""Options of a judge's endpoint, spelled alike in every command that has one, and the settings that they become."""

# Annotations are not postponed here: every start would evaluate them again from text.

from dataclasses import dataclass
from typing import Annotated

import typer

from snellen.cli.options import EndpointOptions

JudgeUrl = Annotated[
    str | None,
    typer.Option(
        "--judge-base-url",
        "--judge-url",
        "--judge-api-base",
        help="Endpoint of the judge, up to and including /v1.",
        show_default="JUDGE_BASE_URL",
    ),
]
JudgeKeyEnv = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name of the variable that holds the judge's key.",
        show_default="JUDGE_API_KEY, else OPENAI_API_KEY",
    ),
]


@dataclass(frozen=True)
class JudgeEndpointOptions(EndpointOptions):
    """Address and pace of requests to a judge, where the command has no other endpoint."""

    base_url: Annotated[
        str | None,
        typer.Option(
            "--judge-base-url",
            "--base-url",
            "--judge-url",
            "--judge-api-base",
            help="OpenAI-compatible endpoint of the judge, up to and including /v1.",
            show_default="JUDGE_BASE_URL",
        ),
    ] = None
    key_env: Annotated[
        str | None,
        typer.Option(
            "--judge-key-env",
            "--key-env",
            metavar="NAME",
            help="Name of the environment variable (or line of .env) that holds the judge's key. The key cannot be an "
            "argument: other users could read it with ps.",
            show_default="JUDGE_API_KEY, else OPENAI_API_KEY",
        ),
    ] = None


@dataclass(frozen=True)
class ReaderEndpointOptions(EndpointOptions):
    """Address and pace of requests to a reader, where the command has no other endpoint."""

    base_url: Annotated[
        str | None,
        typer.Option(
            "--reader-base-url",
            "--base-url",
            help="OpenAI-compatible endpoint of the reader, up to and including /v1.",
            show_default="JUDGE_BASE_URL",
        ),
    ] = None
    key_env: Annotated[
        str | None,
        typer.Option(
            "--reader-key-env",
            "--key-env",
            metavar="NAME",
            help="Name of the environment variable (or line of .env) that holds the reader's key.",
            show_default="JUDGE_API_KEY, else OPENAI_API_KEY",
        ),
    ] = None
