"""Options that a model and a run are described by, and what they become: one place for `run`, `judge` and others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from snellen.errors import UsageError
from snellen.types import Generation, MediaSettings

ENDPOINT, WRITING, PICTURES = "Endpoint (api:)", "How the model writes", "Pictures"
AGENTS = "Agents (agent:)"
SCALE = "Several GPUs or hosts"
LOCAL, BUDGET, SHOWING = "Local models (local:, embedded)", "Limits", "What is shown"

FILE_HINT = "Check the path: @FILE names a file that holds one JSON object."
MOST_IN_FLIGHT, MOST_REPEATS, MOST_WORKERS = 65_536, 1_000_000, 65_536
MOST_SECONDS = 31_536_000.0  # a year

IdIs = Annotated[
    str,
    typer.Option(
        metavar="id|position|META",
        help="What the ids in a replayed file are: the samples' own, their position from 0, or a meta field of theirs.",
    ),
]
DataPath = Annotated[Path | None, typer.Option(help="Where the benchmark's files lie.")]
ImagesPath = Annotated[Path | None, typer.Option(help="Where its pictures lie.")]
BenchmarkOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", metavar="KEY=VALUE", help="A setting of the benchmark, also --KEY VALUE; may be repeated."
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(help="OpenAI-compatible endpoint, up to and including /v1.", rich_help_panel=ENDPOINT),
]
KeyEnv = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name of the environment variable (or line of .env) that holds the key; OPENAI_API_KEY if not given. "
        "There is no option for the key itself: process lists are public.",
        rich_help_panel=ENDPOINT,
    ),
]
ExtraBody = Annotated[
    str | None,
    typer.Option(
        metavar="JSON", help="JSON object merged into every request body, or @FILE.", rich_help_panel=ENDPOINT
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0.001, max=MOST_SECONDS, help="Longest wait for one reply.", rich_help_panel=ENDPOINT
    ),
]
MaxAttempts = Annotated[
    int,
    typer.Option(
        min=1,
        help="Maximum attempts per sample; waiting for a rate limit or a server that is down uses none.",
        rich_help_panel=ENDPOINT,
    ),
]
PATIENCE_OPTION = typer.Option(
    metavar="SECONDS",
    min=0.0,
    max=604_800.0,
    help="Longest wait of a sample for a server that refuses it (429, 503) or cannot be reached.",
    rich_help_panel=ENDPOINT,
)
Patience = Annotated[float, PATIENCE_OPTION]
Rpm = Annotated[
    float | None,
    typer.Option(
        "--rpm",
        metavar="NUMBER",
        min=0.001,
        max=1e9,
        help="Maximum requests per minute.",
        show_default="as many as the server takes",
        rich_help_panel=ENDPOINT,
    ),
]
Tpm = Annotated[
    float | None,
    typer.Option(
        "--tpm",
        metavar="NUMBER",
        min=1.0,
        max=1e12,
        help="Maximum tokens per minute, input and output.",
        show_default="as many as the server takes",
        rich_help_panel=ENDPOINT,
    ),
]
Concurrency = Annotated[
    int,
    typer.Option(
        "--concurrency",
        "-c",
        min=1,
        max=MOST_IN_FLIGHT,
        help="Maximum concurrent requests; lowered while the server refuses requests or is too slow.",
        rich_help_panel=ENDPOINT,
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens", "--max-new-tokens", min=1, help="New tokens a reply may have.", rich_help_panel=WRITING
    ),
]
Temperature = Annotated[float | None, typer.Option(min=0.0, help="Sampling temperature.", rich_help_panel=WRITING)]
TopP = Annotated[float | None, typer.Option(min=0.0, max=1.0, help="Nucleus sampling.", rich_help_panel=WRITING)]
Stop = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="A text at which the reply ends; may be repeated.", rich_help_panel=WRITING),
]
Seed = Annotated[int, typer.Option(help="Seeds what the benchmark draws and what a local model samples.")]
Format = Literal["original", "jpeg", "png", "webp"]
MaxLongSide = Annotated[
    int | None, typer.Option(min=1, help="Longest side in pixels; larger ones are shrunk.", rich_help_panel=PICTURES)
]
MaxPixels = Annotated[
    int | None, typer.Option(min=1, help="Width x height; larger ones are shrunk.", rich_help_panel=PICTURES)
]
ImageFormat = Annotated[
    Format, typer.Option(help="How they are sent; original: untouched bytes.", rich_help_panel=PICTURES)
]
Quality = Annotated[int, typer.Option(min=1, max=100, help="Of JPEG and WebP.", rich_help_panel=PICTURES)]
Frames = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1_000_000,
        help="Frames of a clip that are sent at most, spaced evenly.",
        show_default=str(MediaSettings().frames),
        rich_help_panel=PICTURES,
    ),
]
Fps = Annotated[
    float | None,
    typer.Option(
        metavar="NUMBER",
        help="Frames a second of a clip's own time, 768 at most, in place of --frames.",
        rich_help_panel=PICTURES,
    ),
]
VideoAs = Annotated[
    Literal["frames", "native"],
    typer.Option(
        "--video",
        help="How clips are sent: as frames, or native: the file itself, to an endpoint that takes video.",
        rich_help_panel=PICTURES,
    ),
]
BlankImages = Annotated[
    bool,
    typer.Option(
        "--blank-images", help="Blind control: send grey pictures of the same size.", rich_help_panel=PICTURES
    ),
]
Corrupt = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WHAT",
        help="Make pictures worse on purpose: blur:K, salt-pepper:P, grey, jitter:S; by comma or repeated, in that order.",
        rich_help_panel=PICTURES,
    ),
]
Dtype = Annotated[str, typer.Option(help="torch dtype: auto, float32, bfloat16 or float16.", rich_help_panel=LOCAL)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.", rich_help_panel=LOCAL)]
BatchSize = Annotated[
    int, typer.Option(min=1, max=MOST_IN_FLIGHT, help="Prompts in one batch at most.", rich_help_panel=LOCAL)
]
StopAfterFirstJson = Annotated[
    bool,
    typer.Option(
        "--stop-after-first-json", help="End a reply once one whole JSON object is written.", rich_help_panel=LOCAL
    ),
]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.", rich_help_panel=LOCAL)]
Nproc = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_WORKERS,
        metavar="N",
        help="Workers that each hold a local model or the encoder, on a GPU of their own where there are GPUs.",
        show_default="1; with --ray one a GPU, or one a host",
        rich_help_panel=SCALE,
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Put the workers on this Ray cluster: auto, HOST:PORT or ray://HOST:PORT.",
        rich_help_panel=SCALE,
    ),
]
AgentModel = Annotated[
    str | None,
    typer.Option(metavar="PROVIDER/MODEL", help="The model that an agent asks, at --base-url.", rich_help_panel=AGENTS),
]
Sandbox = Annotated[
    Literal["auto", "bubblewrap", "apptainer", "none"],
    typer.Option(help="What an agent runs in; auto is bubblewrap, none only by name.", rich_help_panel=AGENTS),
]
Sif = Annotated[Path | None, typer.Option("--sif", metavar="FILE", help="Image for apptainer.", rich_help_panel=AGENTS)]
AgentNetwork = Annotated[
    Literal["endpoint", "host"],
    typer.Option(
        help="What an agent can reach: endpoint is --base-url, and the web by --tools alone; host opens all that this machine can reach, its "
        "own servers on loopback and abstract sockets included.",
        rich_help_panel=AGENTS,
    ),
]


AgentMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory of one sample, its files included: they lie in memory.",
        show_default="2G",
        rich_help_panel=AGENTS,
    ),
]
AgentDisk = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Bytes of all files of one sample.", show_default="1G", rich_help_panel=AGENTS),
]
AgentProcesses = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Processes of one sample at the same time.", show_default="128", rich_help_panel=AGENTS
    ),
]
AgentOpenFiles = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Open files of one sample at the same time.", show_default="2048", rich_help_panel=AGENTS
    ),
]
AgentFiles = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Files and folders that one sample makes.", show_default="65536", rich_help_panel=AGENTS
    ),
]
AgentDepth = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Levels of folders that one sample makes.", show_default="128", rich_help_panel=AGENTS
    ),
]
AgentRequests = Annotated[
    int | None,
    typer.Option(metavar="N", help="Requests of one sample to the model.", show_default="300", rich_help_panel=AGENTS),
]
Tools = Annotated[
    Path | None,
    typer.Option(
        "--tools",
        metavar="FILE",
        help="What the tools of tools:NAME and agents may do; SNELLEN_TOOLS names one too.",
        rich_help_panel=AGENTS,
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(metavar="USD", min=0.0, help="Stop once this much is spent; needs --prices.", rich_help_panel=BUDGET),
]
MaxTokensTotal = Annotated[
    int | None, typer.Option(min=1, help="Stop once so many tokens are used, in and out.", rich_help_panel=BUDGET)
]
PricesOfRun = Annotated[
    Path | None,
    typer.Option("--prices", metavar="FILE", help="TOML or JSON of prices: show what the recorded answers cost."),
]
Prices = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="TOML or JSON: model to US dollars per million tokens.", rich_help_panel=BUDGET),
]
Profiles = Annotated[
    str | None,
    typer.Option(
        help="Scoring profiles of the table, by comma, or all.",
        show_default="the benchmark's first",
        rich_help_panel=SHOWING,
    ),
]
MovedData = Annotated[
    Path | None, typer.Option("--data", help="Where the benchmark's files lie now, if they were moved.")
]
MovedImages = Annotated[Path | None, typer.Option("--images", help="Where its pictures lie now, if they were moved.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Import the code and read the files that the run's folder names. Only for folders whose author you trust.",
    ),
]
WriteReport = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.", rich_help_panel=SHOWING)]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="One JSON object on stdout, JSON lines of progress on stderr.", rich_help_panel=SHOWING
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=SHOWING)]


def generation(
    max_tokens: int | None,
    temperature: float | None,
    top_p: float | None,
    stop: Sequence[str] | None,
    seed: int | None = None,
) -> Generation:
    """The sampling settings of a run. Raises UsageError for an empty text to stop at."""
    if "" in (stop or ()):
        raise UsageError("--stop '' is empty; a text at which replies end was expected", "Omit it, or name a text.")
    return Generation(max_tokens=max_tokens, temperature=temperature, top_p=top_p, seed=seed, stop=tuple(stop or ()))


def media(
    max_long_side: int | None,
    max_pixels: int | None,
    image_format: Format,
    quality: int,
    frames: int | None,
    blank: bool,
    fps: float | None,
    video: Literal["frames", "native"],
    corrupt: Sequence[str] | None = None,
) -> MediaSettings:
    """What a run does to pictures and clips.

    Raises:
        UsageError: options that exclude each other.
    """
    from snellen.media import both_frames_and_fps, check_settings

    if frames is not None and fps is not None:
        raise both_frames_and_fps(frames, fps)
    if frames is not None and video == "native":
        raise UsageError(
            f"--video native sends a video's file, from which the endpoint picks frames; --frames {frames} says nothing "
            "to it.",
            "Give one of them.",
        )
    count = MediaSettings().frames if frames is None else frames
    worse = ",".join(corrupt or ())
    return check_settings(
        MediaSettings(max_long_side, max_pixels, image_format, quality, count, blank, fps, video, worse)
    )


def json_object(given: str | None, option: str) -> dict[str, Any]:
    """The JSON object that an option holds, in itself or as @FILE.

    Raises:
        UsageError: it is not one.
    """
    if given is None:
        return {}
    try:
        text = Path(given[1:]).read_bytes() if given.startswith("@") else given.encode()
        return msgspec.json.decode(text, type=dict[str, Any])
    except OSError as error:
        raise UsageError(f"{option} {given}: cannot read the file: {error.strerror}", FILE_HINT) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(
            f"{option} is not a JSON object: {error}", "Example: '{\"top_k\": 1}', or @body.json."
        ) from None


def pairs(given: Sequence[str] | None) -> dict[str, str]:
    """{key: value} of `-o key=value` options.

    Raises:
        UsageError: one of them has no `=`.
    """
    found: dict[str, str] = {}
    for one in given or ():
        name, sign, value = one.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"-o {one!r} is not of the form key=value")
        found[name.strip()] = value
    return found


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text: str, option: str) -> int:
    """Bytes of a size such as 512M or 2G; a plain number is bytes.

    Raises:
        UsageError: it is no size.
    """
    matched = re.fullmatch(r"([0-9]{1,15})([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if matched is None:
        raise UsageError(f"{option} {text!r} is no size", "Write a number with K, M or G: 512M, 2G.")
    return int(matched[1]) * _UNITS[matched[2].upper()]


def agent_limits(
    memory: str | None,
    disk: str | None,
    processes: int | None,
    open_files: int | None,
    files: int | None,
    depth: int | None,
    requests: int | None,
) -> dict[str, int]:
    """The fields of `ModelOptions` that the --agent-… options set; what is not set keeps its default there."""
    fields = {
        "agent_memory": None if memory is None else size(memory, "--agent-memory"),
        "agent_disk": None if disk is None else size(disk, "--agent-disk"),
        "agent_processes": processes,
        "agent_open_files": open_files,
        "agent_files": files,
        "agent_depth": depth,
        "agent_requests": requests,
    }
    return {name: value for name, value in fields.items() if value is not None}
