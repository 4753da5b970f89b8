"""Option groups that several commands share, and the settings that they become."""

# Annotations are not postponed here: every start would evaluate them again from text.

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer
from msgspec import structs

from snellen.cli.option_text import parse_json_object, parse_pairs
from snellen.errors import UsageError
from snellen.types import Generation, MediaSettings

if TYPE_CHECKING:
    from snellen.models.base import ModelSettings

ENDPOINT, WRITING, IMAGES = "Endpoint (api:)", "How the model writes", "Images and videos"
SCALE, DATA, BATCHES = "Several GPUs or hosts", "Data", "Batches"
LOCAL, BUDGET, OUTPUT = "Local models (local:, embedded)", "Limits", "Output"

MAX_CONCURRENCY, MAX_REPEATS, MAX_WORKERS = 65_536, 1_000_000, 65_536
MAX_SECONDS = 31_536_000.0  # a year

IdIs = Annotated[
    str,
    typer.Option(
        metavar="id|position|ordinal|META",
        help="What the ids in a replayed file are: sample ids, positions from 0, numbers from 1, or a meta field of the "
        "samples.",
        rich_help_panel=DATA,
    ),
]
PATIENCE = typer.Option(
    metavar="SECONDS",
    min=0.0,
    max=604_800.0,
    help="Maximum time that a sample waits for a server that refuses it (429, 503) or cannot be reached, and that a run "
    "waits at its start for a server that is down. Without it: 900 s, and 30 s at the start.",
    rich_help_panel=ENDPOINT,
)
Seed = Annotated[int, typer.Option(help="Seed of the benchmark's random draws and of a local model's sampling.")]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", hidden=True, help="Accepted until 0.4, without effect: an unfinished run is resumed by its command."
    ),
]
PricesOfRun = Annotated[
    Path | None,
    typer.Option("--prices", metavar="FILE", help="Price file (TOML or JSON): show the cost of the recorded answers."),
]
Profiles = Annotated[
    str | None,
    typer.Option(
        help="Scoring profiles to print, separated by commas, or all.",
        show_default="the benchmark's first",
        rich_help_panel=OUTPUT,
    ),
]
AcuitySides = Annotated[
    str | None,
    typer.Option(metavar="PIXELS", help="Sides of the picture, by comma.", show_default="512; 96 for chart"),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Import the code and read the files that the run folder names. Only for folders whose author you trust.",
    ),
]
WriteReport = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.", rich_help_panel=OUTPUT)]
JsonResult = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.", rich_help_panel=OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=OUTPUT)]


@dataclass(frozen=True)
class DataOptions:
    """The data of a benchmark."""

    data: Annotated[Path | None, typer.Option(help="Folder or file of the benchmark's data.")] = None
    images: Annotated[Path | None, typer.Option(help="Folder or archive of its images.")] = None
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", "-o", metavar="KEY=VALUE", help="A setting of the benchmark, also --KEY VALUE; may be repeated."
        ),
    ] = None
    column_map: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="ROLE=COLUMN,…",
            help="Columns of your own questions: question=prompt,answer=label,options=choices,category=topic.",
        ),
    ] = None

    as_kit: Annotated[
        bool,
        typer.Option(
            "--as-kit",
            help="Read a table of questions as VLMEvalKit does: `None` and `NA` are empty cells.",
            rich_help_panel=DATA,
        ),
    ] = False

    def benchmark_options(self) -> dict[str, str]:
        """Return the benchmark's settings by name, --map among them; raise UsageError for one that is no pair."""
        pairs = (parse_pairs(self.option) if self.option else {}) | ({"as_kit": "true"} if self.as_kit else {})
        mapped = [*filter(None, [pairs.get("map")]), *(self.column_map or ())]
        return {**pairs, "map": ",".join(mapped)} if mapped else pairs


@dataclass(frozen=True)
class MovedOptions:
    """The place of a recorded run's data, and the trust in its folder."""

    data: Annotated[
        Path | None, typer.Option("--data", help="Folder or file of the benchmark's data, if it was moved.")
    ] = None
    images: Annotated[
        Path | None, typer.Option("--images", help="Folder or archive of its images, if they were moved.")
    ] = None
    trust: Trust = False


@dataclass(frozen=True)
class GenerationOptions:
    """Sampling settings of a run."""

    PANEL: ClassVar[str] = WRITING

    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", "--max-new-tokens", min=1, help="Maximum new tokens per reply.")
    ] = None
    temperature: Annotated[float | None, typer.Option(min=0.0, help="Sampling temperature.")] = None
    top_p: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="Nucleus sampling.")] = None
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Text at which the reply ends; may be repeated.")
    ] = None

    def settings(self) -> Generation:
        """Build the sampling settings; raise UsageError for an empty stop text."""
        if "" in (self.stop or ()):
            raise UsageError(
                "--stop '' is empty; a text at which replies end was expected", "Omit --stop, or name a text."
            )
        return Generation(
            max_tokens=self.max_tokens, temperature=self.temperature, top_p=self.top_p, stop=tuple(self.stop or ())
        )


@dataclass(frozen=True)
class StudyOptions(GenerationOptions):
    """Sampling settings of a run, what its prompts show before each question, and probabilities of tokens."""

    system: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Text that the model reads before each prompt; it stands before a benchmark's own system text.",
        ),
    ] = None
    few_shot: Annotated[
        int,
        typer.Option(
            "--few-shot",
            "--num-fewshot",
            metavar="N",
            min=0,
            max=64,
            help="Show N answered examples before each question; never tested samples.",
        ),
    ] = 0
    few_shot_from: Annotated[
        str | None,
        typer.Option(
            metavar="POOL",
            help="Pool of the examples: a file or folder of questions, or KEY=VALUE for another setting of the benchmark "
            "(split=dev).",
            show_default="the pool that the benchmark declares",
        ),
    ] = None
    few_shot_draw: Annotated[
        Literal["fixed", "each"],
        typer.Option(help="The same examples before every question (fixed), or drawn for each question."),
    ] = "fixed"
    logprobs: Annotated[
        int | None,
        typer.Option(
            metavar="[N]",
            min=1,
            max=20,
            help="Record the probabilities of the answer's tokens with N alternatives each (5 without a number): option "
            "probabilities and calibration.",
        ),
    ] = None

    def settings(self) -> Generation:
        """Build the sampling settings; raise UsageError for an empty stop text."""
        return structs.replace(super().settings(), logprobs=self.logprobs)

    def study(self) -> "dict[str, Any]":
        """Return the settings of system text and examples; raise UsageError for a pool without a number of examples."""
        if self.few_shot == 0 and (self.few_shot_from is not None or self.few_shot_draw != "fixed"):
            raise UsageError(
                "--few-shot-from and --few-shot-draw are about examples, and none are shown.",
                "Add the number of examples: --few-shot 4",
            )
        return {
            "system": self.system or "",
            "few_shot": self.few_shot,
            "few_shot_from": self.few_shot_from,
            "few_shot_draw": self.few_shot_draw,
        }


@dataclass(frozen=True)
class EndpointOptions:
    """Address and pace of requests to an endpoint."""

    PANEL: ClassVar[str] = ENDPOINT

    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint, up to and including /v1.")] = None
    key_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the environment variable (or line of .env) that holds the key; by default OPENAI_API_KEY. "
            "The key cannot be an argument: other users could read it with ps.",
        ),
    ] = None
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency",
            "-c",
            min=1,
            max=MAX_CONCURRENCY,
            help="Maximum concurrent requests; lowered while the server rate-limits (429) or is too slow.",
        ),
    ] = 16
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.001, max=MAX_SECONDS, help="Maximum wait for a reply.")
    ] = 300.0
    max_attempts: Annotated[
        int,
        typer.Option(
            min=1, help="Maximum attempts per sample; waiting for a rate limit or an unreachable server is not counted."
        ),
    ] = 6
    retry_empty: Annotated[
        int, typer.Option(metavar="N", min=0, help="Ask up to N times again for a reply that says nothing.")
    ] = 0
    patience: Annotated[float | None, PATIENCE] = None
    rpm: Annotated[
        float | None,
        typer.Option(
            "--rpm", metavar="NUMBER", min=0.001, max=1e9, help="Maximum requests per minute.", show_default="unlimited"
        ),
    ] = None
    tpm: Annotated[
        float | None,
        typer.Option(
            "--tpm",
            metavar="NUMBER",
            min=1.0,
            max=1e12,
            help="Maximum tokens per minute, input and output.",
            show_default="unlimited",
        ),
    ] = None
    effort: Annotated[
        Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None,
        typer.Option(
            help="How much the model thinks; a provider refuses what it does not have.", show_default="the model's own"
        ),
    ] = None
    detail: Annotated[
        Literal["auto", "low", "high", "original"],
        typer.Option(help="Size at which the service reads images; original: never scaled down."),
    ] = "auto"
    responses: Annotated[
        bool, typer.Option("--responses", help="openai:MODEL: use the Responses API, not chat completions.")
    ] = False
    stream: Annotated[
        bool, typer.Option("--stream", help="Read replies while they are written; records the time to the first token.")
    ] = False
    extra_body: Annotated[
        str | None, typer.Option(metavar="JSON", help="JSON object merged into every request body, or @FILE.")
    ] = None

    def body(self) -> dict[str, Any]:
        """Return the object of --extra-body; raise UsageError if it is not one."""
        return {} if self.extra_body is None else parse_json_object(self.extra_body, "--extra-body")


@dataclass(frozen=True)
class MediaOptions:
    """Preparation of images and videos on their way to a model."""

    PANEL: ClassVar[str] = IMAGES

    max_long_side: Annotated[
        int | None, typer.Option(min=1, help="Maximum long side in pixels; larger images are shrunk.")
    ] = None
    max_pixels: Annotated[int | None, typer.Option(min=1, help="Maximum width x height; larger images are shrunk.")] = (
        None
    )
    image_format: Annotated[
        Literal["original", "jpeg", "png", "webp"],
        typer.Option(help="Format in which images are sent; original: untouched bytes."),
    ] = "original"
    quality: Annotated[int, typer.Option(min=1, max=100, help="Quality of JPEG and WebP.")] = 90
    frames: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Maximum frames per video, evenly spaced.",
            show_default=str(MediaSettings().frames),
        ),
    ] = None
    fps: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Frames per second of video, at most 768 per video; instead of --frames."),
    ] = None
    video: Annotated[
        Literal["frames", "native"],
        typer.Option(
            "--video",
            help="How videos are sent: frames, or native: the file itself, to an endpoint that accepts video.",
        ),
    ] = "frames"
    blank_images: Annotated[
        bool, typer.Option("--blank-images", help="Blind control: send grey images of the same size.")
    ] = False
    corrupt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPERATION",
            help="Degrade images: blur:K (K pixels, odd), salt-pepper:P (P per cent of the pixels), grey, jitter:S (S up to 1); "
            "separated by commas or repeated, applied in that order.",
        ),
    ] = None

    def settings(self) -> MediaSettings:
        """Build the media settings; raise UsageError for options that exclude each other."""
        from snellen.media import both_frames_and_fps, check_settings

        if self.frames is not None and self.fps is not None:
            raise both_frames_and_fps(self.frames, self.fps)
        if self.frames is not None and self.video == "native":
            raise UsageError(
                "--video native sends a video's file, from which the endpoint picks frames; "
                f"--frames {self.frames} has no effect on it.",
                "Omit one of them.",
            )
        return check_settings(
            MediaSettings(
                max_long_side=self.max_long_side,
                max_pixels=self.max_pixels,
                format=self.image_format,
                quality=self.quality,
                frames=MediaSettings().frames if self.frames is None else self.frames,
                blank=self.blank_images,
                fps=self.fps,
                video=self.video,
                corrupt=",".join(self.corrupt or ()),
            )
        )


@dataclass(frozen=True)
class LocalOptions:
    """Loading and batching of a local model."""

    PANEL: ClassVar[str] = LOCAL

    dtype: Annotated[str, typer.Option(help="torch dtype: auto, float32, bfloat16 or float16.")] = "auto"
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto"
    batch_size: Annotated[int, typer.Option(min=1, max=MAX_CONCURRENCY, help="Maximum prompts per batch.")] = 32
    kv_cache: Annotated[str, typer.Option(help="Key-value cache: auto, dynamic or static.")] = "auto"
    compile: Annotated[
        bool, typer.Option("--compile", help="Decode full batches with torch.compile and a static cache.")
    ] = False
    stop_after_first_json: Annotated[
        bool, typer.Option("--stop-after-first-json", help="End a reply after its first complete JSON object.")
    ] = False
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None
    engine_args: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="Arguments of the engine of vllm:NAME or sglang:NAME, as a JSON object or @FILE."
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Return the object of --engine-args; raise UsageError if it is not one."""
        return {} if self.engine_args is None else parse_json_object(self.engine_args, "--engine-args")


@dataclass(frozen=True)
class WorkerOptions:
    """Workers on several GPUs or hosts."""

    PANEL: ClassVar[str] = SCALE

    nproc: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_WORKERS,
            metavar="N",
            help="Number of workers; each loads the local model or the encoder, on a GPU of its own if there are GPUs.",
            show_default="1; with --ray one per GPU, or one per host",
        ),
    ] = None
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Run the workers on this Ray cluster: auto, HOST:PORT or ray://HOST:PORT."
        ),
    ] = None


@dataclass(frozen=True)
class BudgetOptions:
    """Budget at which a run stops."""

    PANEL: ClassVar[str] = BUDGET

    max_cost: Annotated[
        float | None,
        typer.Option(
            metavar="USD",
            min=0.0,
            help="Stop before more than this is spent; the price is taken from --prices or the table of prices.",
        ),
    ] = None
    max_tokens_total: Annotated[
        int | None, typer.Option(min=1, help="Stop once this many tokens are used, input and output.")
    ] = None
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="TOML or JSON: US dollars per million tokens by model; before the table of prices."
        ),
    ] = None


@dataclass(frozen=True)
class OutputOptions:
    """Form of progress and result."""

    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="One JSON object on stdout, progress as JSON lines on stderr.", rich_help_panel=OUTPUT
        ),
    ] = False
    quiet: Quiet = False


def model_settings(
    generation: GenerationOptions,
    endpoint: EndpointOptions,
    media: MediaOptions = MediaOptions(),
    local: LocalOptions = LocalOptions(),
    budget: BudgetOptions = BudgetOptions(),
) -> "ModelSettings":
    """Return a model's settings from groups of options."""
    return {
        "generation": generation.settings(),
        "media": media.settings(),
        "base_url": endpoint.base_url,
        "key_env": endpoint.key_env,
        "extra_body": endpoint.body(),
        "effort": endpoint.effort,
        "detail": endpoint.detail,
        "responses": endpoint.responses,
        "stream": endpoint.stream,
        "timeout_s": endpoint.timeout,
        "patience_s": endpoint.patience,
        "rpm": endpoint.rpm,
        "tpm": endpoint.tpm,
        "concurrency": endpoint.concurrency,
        "dtype": local.dtype,
        "device": local.device,
        "batch_size": local.batch_size,
        "kv_cache": local.kv_cache,
        "compile": local.compile,
        "stop_after_first_json": local.stop_after_first_json,
        "revision": local.revision,
        "engine_args": local.arguments(),
        "prices": None if budget.prices is None else str(budget.prices),
    }
