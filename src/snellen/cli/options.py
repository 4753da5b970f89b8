"""Option groups that several commands share, and the settings that they become."""

# Annotations are not postponed here: every start would evaluate them again from text.

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import structs

from snellen.cli.option_parsing import option, option_of, values
from snellen.engine.run_folder import RunSpec
from snellen.errors import UsageError
from snellen.models.base import ModelOptions
from snellen.scoring.coordinates import parse_coordinates
from snellen.setting import settings_of
from snellen.types import Generation, MediaSettings

if TYPE_CHECKING:
    from snellen.models.base import ModelSettings

ENDPOINT, WRITING, IMAGES = "Endpoint (api:)", "How the model writes", "Images and videos"
SCALE, DATA, BATCHES = "Several GPUs or hosts", "Data", "Batches"
LOCAL, BUDGET, OUTPUT = "Local models (local:, embedded)", "Limits", "Output"
FILE_HINT = "Check the path: @FILE names a file that holds one JSON object."
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
IdIs = Annotated[str, option_of(ModelOptions, "id_is", panel=DATA)]
Seed = Annotated[int, option_of(ModelOptions, "seed")]
Resume = Annotated[
    bool, option("Accepted until 0.4, without effect: an unfinished run is resumed by its command.", hidden=True)
]
PricesOfRun = Annotated[
    Path | None,
    option("Price file (TOML or JSON): show the cost of the recorded answers.", names=("--prices",), value="FILE"),
]
Profiles = Annotated[
    str | None,
    option("Scoring profiles to print, separated by commas, or all.", said="the benchmark's first", panel=OUTPUT),
]
AcuitySides = Annotated[str | None, option("Sides of the picture, by comma.", value="PIXELS", said="512; 96 for chart")]
Trust = Annotated[
    bool,
    option("Only for folders whose author you trust: import the code and read the files that the run folder names."),
]
WriteReport = Annotated[bool, option("Write report.html.", names=("--report/--no-report",), panel=OUTPUT)]
JsonResult = Annotated[bool, option("One JSON object on stdout.", names=("--json",), panel=OUTPUT)]
Quiet = Annotated[bool, option("No progress and notes.", names=("--quiet", "-q"), panel=OUTPUT)]
ReviewedProfile = Annotated[
    str | None,
    option("Profile whose verdicts were reviewed.", value="PROFILE", said="the benchmark's first"),
]
ShowGold = Annotated[bool, option("Show the gold answers of a restricted benchmark too.")]
IdField = Annotated[str | None, option("Field of the file with the id.", value="NAME")]
ReplyField = Annotated[str | None, option("Field of the file with the reply.", value="NAME")]
Port = Annotated[int, option("Port to listen on; 0 selects a free one.", least=0, most=65535)]
BenchmarkName = Annotated[str, option("Name of the benchmark.", said="the folder's name")]
LogTo = Annotated[
    list[str] | None,
    option(
        "Log metrics with intervals, and settings, to wandb:PROJECT, trackio:PROJECT, mlflow:EXPERIMENT, "
        "tensorboard:DIR, or otel (OpenTelemetry: spans of requests and events of scores); may be repeated.",
        names=("--log",),
        value="KIND:NAME",
        panel=OUTPUT,
    ),
]
ReaderFor = Annotated[
    str,
    option(
        "Replies that the reader is asked about. What the rules read counts as they read it, in either case.",
        value="unread|all",
    ),
]
JudgeUrl = Annotated[
    str | None,
    option(
        "Endpoint of the judge, up to and including /v1.",
        names=("--judge-base-url", "--judge-url", "--judge-api-base"),
        said="JUDGE_BASE_URL",
    ),
]
JudgeKeyEnv = Annotated[
    str | None,
    option("Name of the variable that holds the judge's key.", value="NAME", said="JUDGE_API_KEY, else OPENAI_API_KEY"),
]


@dataclass(frozen=True)
class DataOptions:
    """The data of a benchmark."""

    data: Path | None = option("Folder or file of the benchmark's data.")
    images: Path | None = option("Folder or archive of its images.")
    pairs: list[str] | None = option(
        "A setting of the benchmark, also --KEY VALUE; may be repeated.", names=("--option", "-o"), value="KEY=VALUE"
    )
    column_map: list[str] | None = option(
        "Columns of your own questions: question=prompt,answer=label,options=choices,category=topic.",
        names=("--map",),
        value="ROLE=COLUMN,…",
    )

    coordinates: str | None = option(
        "Space, and order, in which replies write boxes and points: unit, percent, thousand, pixel, sent-pixel; xyxy, xywh, "
        "cxcywh, yxyx.",
        value="SPACE[:ORDER]",
        said="the benchmark's, the model family's, else the prompt asks for thousand",
        panel=DATA,
    )
    gold_space: str | None = option(
        "Space and order of the gold boxes and points.",
        value="SPACE[:ORDER]",
        said="recognised from the column",
        panel=DATA,
    )
    as_kit: bool = option(
        "Read a table of questions as VLMEvalKit does: `None` and `NA` are empty cells.", False, panel=DATA
    )

    def benchmark_options(self) -> dict[str, str]:
        """Return the benchmark's settings by name, --map among them; raise UsageError for one that is no pair."""
        settings = (parse_pairs(self.pairs) if self.pairs else {}) | ({"as_kit": "true"} if self.as_kit else {})
        if self.coordinates is not None:
            settings |= {"coordinates": str(parse_coordinates(self.coordinates)), "coordinates_by": "--coordinates"}
        if self.gold_space is not None:
            settings["gold-space"] = str(parse_coordinates(self.gold_space, "--gold-space"))
        mapped = [*filter(None, [settings.get("map")]), *(self.column_map or ())]
        return {**settings, "map": ",".join(mapped)} if mapped else settings


@dataclass(frozen=True)
class MovedOptions:
    """The place of a recorded run's data, and the trust in its folder."""

    data: Path | None = option("Folder or file of the benchmark's data, if it was moved.")
    images: Path | None = option("Folder or archive of its images, if they were moved.")
    trust: Trust = False


_PARSED = ("stop", "chat_template_kwargs", "sampling")


@dataclass(frozen=True)
class GenerationOptions:
    """Sampling settings of a run."""

    PANEL: ClassVar[str] = WRITING

    max_tokens: int | None = option_of(Generation, "max_tokens")
    temperature: float | None = option_of(Generation, "temperature")
    top_p: float | None = option_of(Generation, "top_p")
    top_k: int | None = option_of(Generation, "top_k")
    min_p: float | None = option_of(Generation, "min_p")
    repetition_penalty: float | None = option_of(Generation, "repetition_penalty")
    presence_penalty: float | None = option_of(Generation, "presence_penalty")
    frequency_penalty: float | None = option_of(Generation, "frequency_penalty")
    stop: list[str] | None = option_of(Generation, "stop", default=None)
    chat_template_kwargs: str | None = option_of(Generation, "chat_template_kwargs", default=None)
    sampling: str | None = option_of(ModelOptions, "sampling")

    def settings(self) -> Generation:
        """Build the sampling settings; raise UsageError for an empty stop text, and template arguments that are no object."""
        if "" in (self.stop or ()):
            raise UsageError(
                "--stop '' is empty; a text at which replies end was expected", "Omit --stop, or name a text."
            )
        arguments, option = self.chat_template_kwargs, "--chat-template-kwargs"
        return Generation(
            **{
                field.name: getattr(self, field.name)
                for field in fields(GenerationOptions)
                if field.name not in _PARSED
            },
            stop=tuple(self.stop or ()),
            chat_template_kwargs={} if arguments is None else parse_json_object(arguments, option),
        )


@dataclass(frozen=True)
class StudyOptions(GenerationOptions):
    """Sampling settings of a run, what its prompts show before each question, and probabilities of tokens."""

    system: str | None = option_of(RunSpec, "system", default=None)
    schema: str | None = option_of(RunSpec, "schema")
    few_shot: int = option_of(RunSpec, "few_shot")
    few_shot_from: str | None = option_of(RunSpec, "few_shot_from")
    few_shot_draw: Literal["fixed", "each"] = option_of(RunSpec, "few_shot_draw")
    logprobs: int | None = option_of(Generation, "logprobs")

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

    base_url: str | None = option_of(ModelOptions, "base_url")
    key_env: str | None = option_of(ModelOptions, "key_env")
    concurrency: int = option_of(ModelOptions, "concurrency")
    timeout: float = option_of(ModelOptions, "timeout_s")
    max_attempts: int = option_of(RunSpec, "max_attempts")
    retry_empty: int = option_of(RunSpec, "retry_empty")
    patience: float | None = option_of(ModelOptions, "patience_s")
    rpm: float | None = option_of(ModelOptions, "rpm")
    tpm: float | None = option_of(ModelOptions, "tpm")
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = option_of(
        ModelOptions, "effort"
    )
    detail: Literal["auto", "low", "high", "original"] = option_of(ModelOptions, "detail")
    prompt_cache: Literal["off", "auto", "5m", "30m", "1h", "12h"] = option_of(ModelOptions, "prompt_cache")
    responses: bool = option_of(ModelOptions, "responses")
    stream: bool = option_of(ModelOptions, "stream")
    extra_body: str | None = option_of(ModelOptions, "extra_body", default=None)

    def body(self) -> dict[str, Any]:
        """Return the object of --extra-body; raise UsageError if it is not one."""
        return {} if self.extra_body is None else parse_json_object(self.extra_body, "--extra-body")


@dataclass(frozen=True)
class JudgeEndpointOptions(EndpointOptions):
    """Address and pace of requests to a judge, where the command has no other endpoint."""

    base_url: str | None = option(
        "OpenAI-compatible endpoint of the judge, up to and including /v1.",
        names=("--judge-base-url", "--base-url", "--judge-url", "--judge-api-base"),
        said="JUDGE_BASE_URL",
    )
    key_env: str | None = option(
        "Name of the environment variable (or line of .env) that holds the judge's key. The key cannot be an "
        "argument: other users could read it with ps.",
        names=("--judge-key-env", "--key-env"),
        value="NAME",
        said="JUDGE_API_KEY, else OPENAI_API_KEY",
    )


@dataclass(frozen=True)
class ReaderEndpointOptions(EndpointOptions):
    """Address and pace of requests to a reader, where the command has no other endpoint."""

    base_url: str | None = option(
        "OpenAI-compatible endpoint of the reader, up to and including /v1.",
        names=("--reader-base-url", "--base-url"),
        said="JUDGE_BASE_URL",
    )
    key_env: str | None = option(
        "Name of the environment variable (or line of .env) that holds the reader's key.",
        names=("--reader-key-env", "--key-env"),
        value="NAME",
        said="JUDGE_API_KEY, else OPENAI_API_KEY",
    )


@dataclass(frozen=True)
class MediaOptions:
    """Preparation of images and videos on their way to a model."""

    PANEL: ClassVar[str] = IMAGES

    max_long_side: int | None = option_of(MediaSettings, "max_long_side")
    max_pixels: int | None = option_of(MediaSettings, "max_pixels")
    min_pixels: int | None = option_of(MediaSettings, "min_pixels")
    resize: str = option_of(MediaSettings, "resize")
    image_format: Literal["original", "jpeg", "png", "webp"] = option_of(MediaSettings, "format")
    quality: int = option_of(MediaSettings, "quality")
    frames: int | None = option_of(MediaSettings, "frames")
    fps: float | None = option_of(MediaSettings, "fps")
    min_frames: int | None = option_of(MediaSettings, "min_frames")
    max_frames: int | None = option_of(MediaSettings, "max_frames")
    frame_places: Literal["ends", "middle", "inside"] | None = option_of(MediaSettings, "frame_places")
    timestamps: bool | None = option_of(MediaSettings, "timestamps")
    video: Literal["frames", "native"] = option_of(MediaSettings, "video")
    blank_images: bool = option_of(MediaSettings, "blank")
    corrupt: list[str] | None = option_of(MediaSettings, "corrupt", default=None)
    mask: str = option_of(MediaSettings, "mask")
    window: str = option_of(MediaSettings, "window")
    bands: str = option_of(MediaSettings, "bands")

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
        mask = Path(self.mask).expanduser()
        return check_settings(
            MediaSettings(
                **values(self, but=("image_format", "blank_images", "corrupt", "mask")),
                format=self.image_format,
                blank=self.blank_images,
                corrupt=",".join(self.corrupt or ()),
                mask=str(mask.absolute()) if self.mask and mask.exists() else self.mask,
            )
        )


@dataclass(frozen=True)
class LocalOptions:
    """Loading and batching of a local model."""

    PANEL: ClassVar[str] = LOCAL

    dtype: str = option_of(ModelOptions, "dtype")
    device: str = option_of(ModelOptions, "device")
    batch_size: int = option_of(ModelOptions, "batch_size")
    kv_cache: str = option_of(ModelOptions, "kv_cache")
    compile: bool = option_of(ModelOptions, "compile")
    stop_after_first_json: bool = option_of(ModelOptions, "stop_after_first_json")
    revision: str | None = option_of(ModelOptions, "revision")
    adapter: str | None = option_of(ModelOptions, "adapter")
    engine_args: str | None = option_of(ModelOptions, "engine_args", default=None)

    def arguments(self) -> dict[str, Any]:
        """Return the object of --engine-args; raise UsageError if it is not one."""
        return {} if self.engine_args is None else parse_json_object(self.engine_args, "--engine-args")


@dataclass(frozen=True)
class AgentOptions:
    """Model, sandbox and limits of an agent."""

    PANEL: ClassVar[str] = "Agents (agent:)"

    agent_model: str | None = option_of(ModelOptions, "agent_model")
    agent_config: Path | None = option_of(ModelOptions, "agent_config")
    agent_bin: str | None = option_of(ModelOptions, "agent_bin")
    sandbox: Literal["auto", "bubblewrap", "apptainer", "none"] = option_of(ModelOptions, "sandbox")
    sif: Path | None = option_of(ModelOptions, "sif")
    tools: Path | None = option_of(ModelOptions, "tools")
    agent_network: Literal["endpoint", "web", "host"] = option_of(ModelOptions, "agent_network")
    agent_memory: str | None = option_of(ModelOptions, "agent_memory", default=None)
    agent_disk: str | None = option_of(ModelOptions, "agent_disk", default=None)
    agent_processes: int | None = option_of(ModelOptions, "agent_processes", default=None)
    agent_open_files: int | None = option_of(ModelOptions, "agent_open_files", default=None)
    agent_files: int | None = option_of(ModelOptions, "agent_files", default=None)
    agent_depth: int | None = option_of(ModelOptions, "agent_depth", default=None)
    agent_requests: int | None = option_of(ModelOptions, "agent_requests", default=None)

    def settings(self, sif: Path | None) -> "ModelSettings":
        """Return the agent's settings. `sif`: the image that is used; limits that are not set keep their defaults."""
        chosen: Any = {name: value for name, value in values(replace(self, sif=sif)).items() if value is not None}
        for name in {"agent_memory", "agent_disk"} & chosen.keys():
            chosen[name] = parse_size(chosen[name], f"--{name.replace('_', '-')}")
        settings: Any = {name: str(value) if isinstance(value, Path) else value for name, value in chosen.items()}
        return settings  # type: ignore[no-any-return]


@dataclass(frozen=True)
class WorkerOptions:
    """Workers on several GPUs or hosts."""

    PANEL: ClassVar[str] = SCALE

    nproc: int | None = option_of(RunSpec, "nproc")
    ray: str | None = option_of(RunSpec, "ray")


@dataclass(frozen=True)
class BudgetOptions:
    """Budget at which a run stops."""

    PANEL: ClassVar[str] = BUDGET

    max_cost: float | None = option_of(RunSpec, "max_cost")
    max_tokens_total: int | None = option_of(RunSpec, "max_tokens_total")
    prices: Path | None = option_of(ModelOptions, "prices")


@dataclass(frozen=True)
class OutputOptions:
    """Form of progress and result."""

    as_json: bool = option(
        "One JSON object on stdout, progress as JSON lines on stderr.", False, names=("--json",), panel=OUTPUT
    )
    quiet: Quiet = False


_NAMES = {"timeout": "timeout_s", "patience": "patience_s", "poll": "poll_s"}
"""Fields of groups to the settings that they are, where the names differ."""
_KNOWN = settings_of(RunSpec).keys() | settings_of(ModelOptions).keys()


def run_settings(*groups: Any) -> Any:
    """Return the settings of a run that groups of options hold, by name (RunSettings).

    Raises:
        UsageError: options exclude each other, or one has no such value.
    """
    settings: dict[str, Any] = {}
    for group in groups:
        named = {_NAMES.get(name, name): value for name, value in values(group).items()}
        settings |= {name: value for name, value in named.items() if name in _KNOWN}
        match group:
            case GenerationOptions():
                settings["generation"] = group.settings()
            case MediaOptions():
                settings["media"] = group.settings()
            case EndpointOptions():
                settings["extra_body"] = group.body()
            case LocalOptions():
                settings["engine_args"] = group.arguments()
            case BudgetOptions():
                settings["prices"] = None if group.prices is None else str(group.prices)
            case DataOptions():
                options = group.benchmark_options()
                settings |= {"data": group.data, "images": group.images, "benchmark_options": options}
    return settings


def model_options(*groups: Any) -> ModelOptions:
    """Return the options of a model that groups of options hold. Raises as `run_settings`."""
    settings = run_settings(*groups)
    return ModelOptions(**{name: value for name, value in settings.items() if name in ModelOptions.__struct_fields__})


def parse_json_object(text: str, option: str) -> dict[str, Any]:
    """Return the JSON object that an option holds, inline or as @FILE.

    Raises:
        UsageError: the file cannot be read, or the text is not a JSON object.
    """
    try:
        data = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
        return msgspec.json.decode(data, type=dict[str, Any])
    except OSError as error:
        raise UsageError(f"{option} {text}: cannot read the file: {error.strerror}", FILE_HINT) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(
            f"{option} is not a JSON object: {error}", "Example: '{\"top_k\": 1}', or @body.json."
        ) from None


def parse_pairs(options: Sequence[str] | None, option: str = "-o") -> dict[str, str]:
    """Return {key: value} of options such as `-o key=value`; raise UsageError for one without a key or `=`."""
    values: dict[str, str] = {}
    for text in options or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"{option} {text!r} is not of the form key=value")
        values[name.strip()] = value
    return values


def parse_size(text: str, option: str) -> int:
    """Return the bytes of a size such as 512M or 2G, or of a plain number; raise UsageError for other text."""
    matched = re.fullmatch(r"([0-9]{1,15})([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if matched is None:
        raise UsageError(f"{option} {text!r} is not a size", "Write a number with K, M or G: 512M, 2G.")
    return int(matched[1]) * _UNITS[matched[2].upper()]
