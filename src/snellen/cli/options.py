"""Option groups that several commands share, and the settings that they become."""

# Annotations are not postponed here: every start would evaluate them again from text.

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import typer
from msgspec import structs

from snellen.cli.option_parsing import option
from snellen.cli.option_text import parse_json_object, parse_pairs
from snellen.engine.run_folder import RunSpec
from snellen.errors import UsageError
from snellen.models.base import ModelOptions
from snellen.setting import settings_of
from snellen.types import Generation, MediaSettings

ENDPOINT, WRITING, IMAGES = "Endpoint (api:)", "How the model writes", "Images and videos"
SCALE, DATA, BATCHES = "Several GPUs or hosts", "Data", "Batches"
LOCAL, BUDGET, OUTPUT = "Local models (local:, embedded)", "Limits", "Output"

MAX_SECONDS = 31_536_000.0  # a year

IdIs = Annotated[str, option(ModelOptions, "id_is", panel=DATA)]
PATIENCE = option(ModelOptions, "patience_s", panel=ENDPOINT)
Seed = Annotated[int, option(ModelOptions, "seed")]
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
        help="Only for folders whose author you trust: import the code and read the files that the run folder names.",
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

    max_tokens: Annotated[int | None, option(Generation, "max_tokens")] = None
    temperature: Annotated[float | None, option(Generation, "temperature")] = None
    top_p: Annotated[float | None, option(Generation, "top_p")] = None
    stop: Annotated[list[str] | None, option(Generation, "stop")] = None

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

    system: Annotated[str | None, option(RunSpec, "system")] = None
    few_shot: Annotated[int, option(RunSpec, "few_shot")] = 0
    few_shot_from: Annotated[str | None, option(RunSpec, "few_shot_from")] = None
    few_shot_draw: Annotated[Literal["fixed", "each"], option(RunSpec, "few_shot_draw")] = "fixed"
    logprobs: Annotated[int | None, option(Generation, "logprobs")] = None

    def settings(self) -> Generation:
        """Build the sampling settings; raise UsageError for an empty stop text, and a pool without a number of examples."""
        if self.few_shot == 0 and (self.few_shot_from is not None or self.few_shot_draw != "fixed"):
            raise UsageError(
                "--few-shot-from and --few-shot-draw are about examples, and none are shown.",
                "Add the number of examples: --few-shot 4",
            )
        return structs.replace(super().settings(), logprobs=self.logprobs)


@dataclass(frozen=True)
class EndpointOptions:
    """Address and pace of requests to an endpoint."""

    PANEL: ClassVar[str] = ENDPOINT

    base_url: Annotated[str | None, option(ModelOptions, "base_url")] = None
    key_env: Annotated[str | None, option(ModelOptions, "key_env")] = None
    concurrency: Annotated[int, option(ModelOptions, "concurrency")] = 16
    timeout: Annotated[float, option(ModelOptions, "timeout_s")] = 300.0
    max_attempts: Annotated[int, option(RunSpec, "max_attempts")] = 6
    retry_empty: Annotated[int, option(RunSpec, "retry_empty")] = 0
    patience: Annotated[float | None, PATIENCE] = None
    rpm: Annotated[float | None, option(ModelOptions, "rpm")] = None
    tpm: Annotated[float | None, option(ModelOptions, "tpm")] = None
    effort: Annotated[
        Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None, option(ModelOptions, "effort")
    ] = None
    detail: Annotated[Literal["auto", "low", "high", "original"], option(ModelOptions, "detail")] = "auto"
    responses: Annotated[bool, option(ModelOptions, "responses")] = False
    stream: Annotated[bool, option(ModelOptions, "stream")] = False
    extra_body: Annotated[str | None, option(ModelOptions, "extra_body")] = None

    def body(self) -> dict[str, Any]:
        """Return the object of --extra-body; raise UsageError if it is not one."""
        return {} if self.extra_body is None else parse_json_object(self.extra_body, "--extra-body")


@dataclass(frozen=True)
class MediaOptions:
    """Preparation of images and videos on their way to a model."""

    PANEL: ClassVar[str] = IMAGES

    max_long_side: Annotated[int | None, option(MediaSettings, "max_long_side")] = None
    max_pixels: Annotated[int | None, option(MediaSettings, "max_pixels")] = None
    image_format: Annotated[Literal["original", "jpeg", "png", "webp"], option(MediaSettings, "format")] = "original"
    quality: Annotated[int, option(MediaSettings, "quality")] = 90
    frames: Annotated[int | None, option(MediaSettings, "frames")] = None
    fps: Annotated[float | None, option(MediaSettings, "fps")] = None
    video: Annotated[Literal["frames", "native"], option(MediaSettings, "video")] = "frames"
    blank_images: Annotated[bool, option(MediaSettings, "blank")] = False
    corrupt: Annotated[list[str] | None, option(MediaSettings, "corrupt")] = None

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

    dtype: Annotated[str, option(ModelOptions, "dtype")] = "auto"
    device: Annotated[str, option(ModelOptions, "device")] = "auto"
    batch_size: Annotated[int, option(ModelOptions, "batch_size")] = 32
    kv_cache: Annotated[str, option(ModelOptions, "kv_cache")] = "auto"
    compile: Annotated[bool, option(ModelOptions, "compile")] = False
    stop_after_first_json: Annotated[bool, option(ModelOptions, "stop_after_first_json")] = False
    revision: Annotated[str | None, option(ModelOptions, "revision")] = None
    engine_args: Annotated[str | None, option(ModelOptions, "engine_args")] = None

    def arguments(self) -> dict[str, Any]:
        """Return the object of --engine-args; raise UsageError if it is not one."""
        return {} if self.engine_args is None else parse_json_object(self.engine_args, "--engine-args")


@dataclass(frozen=True)
class WorkerOptions:
    """Workers on several GPUs or hosts."""

    PANEL: ClassVar[str] = SCALE

    nproc: Annotated[int | None, option(RunSpec, "nproc")] = None
    ray: Annotated[str | None, option(RunSpec, "ray")] = None


@dataclass(frozen=True)
class BudgetOptions:
    """Budget at which a run stops."""

    PANEL: ClassVar[str] = BUDGET

    max_cost: Annotated[float | None, option(RunSpec, "max_cost")] = None
    max_tokens_total: Annotated[int | None, option(RunSpec, "max_tokens_total")] = None
    prices: Annotated[Path | None, option(ModelOptions, "prices")] = None


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


_NAMES = {"timeout": "timeout_s", "patience": "patience_s", "poll": "poll_s"}
"""Fields of groups to the settings that they are, where the names differ."""
_KNOWN = settings_of(RunSpec).keys() | settings_of(ModelOptions).keys()


def run_settings(*groups: Any) -> Any:
    """Return the settings of a run that groups of options hold, by name (RunSettings).

    Raises:
        UsageError: options exclude each other, or one has no such value.
    """
    values: dict[str, Any] = {}
    for group in groups:
        for each in fields(group):
            name = _NAMES.get(each.name, each.name)
            if name in _KNOWN:
                values[name] = getattr(group, each.name)
        match group:
            case GenerationOptions():
                values["generation"] = group.settings()
            case MediaOptions():
                values["media"] = group.settings()
            case EndpointOptions():
                values["extra_body"] = group.body()
            case LocalOptions():
                values["engine_args"] = group.arguments()
            case BudgetOptions():
                values["prices"] = None if group.prices is None else str(group.prices)
            case DataOptions():
                options = group.benchmark_options()
                values |= {"data": group.data, "images": group.images, "benchmark_options": options}
    return values


def model_options(*groups: Any) -> ModelOptions:
    """Return the options of a model that groups of options hold. Raises as `run_settings`."""
    values = run_settings(*groups)
    return ModelOptions(**{name: value for name, value in values.items() if name in ModelOptions.__struct_fields__})
