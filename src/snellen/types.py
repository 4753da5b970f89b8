"""Types shared by all packages. They check what a benchmark's author gives them; no input or output lives here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeAlias, get_args

from msgspec import Meta, Struct, field, structs

from snellen.setting import Setting

Kind: TypeAlias = str
"""A kind of answer: one of `KINDS`, or one that a plug-in registers under the entry-point group `snellen.answers`."""
Status: TypeAlias = Literal["ok", "error", "timeout", "refused"]
TurnRole: TypeAlias = Literal["user", "assistant"]
Verdict: TypeAlias = Literal["correct", "wrong", "partial", "invalid", "error", "unscored"]
KINDS = (
    *(
        "truth",
        "choice",
        "choice_text",
        "multi-choice",
        "count",
        "number",
        "quantity",
        "date",
        "time",
        "text",
        "short",
        "name",
    ),
    *("list", "box", "boxes", "point", "points", "region", "moment", "formula", "json", "judged", "open"),
)
VERDICTS: tuple[str, ...] = get_args(Verdict)


class Blob(Protocol):
    """Bytes that are read when needed: a file, a zip member, a parquet cell, a drawing.

    Two blobs with equal keys hold equal bytes; the key is what caches go by. It never reaches a prompt.
    """

    @property
    def key(self) -> str: ...

    def read(self) -> bytes: ...


class Text(Struct, frozen=True, tag="text"):
    """A piece of text in a prompt."""

    text: str


DECODED_SUFFIXES = (
    ".jpg",
    ".jpeg",
    ".png",
    ".webp",
    ".gif",
    ".bmp",
    ".tif",
    ".tiff",
    ".heic",
    ".heif",
    ".avif",
    ".jxl",
    ".dcm",
)
"""Endings of the names of images that are decoded."""


class Image(Struct, frozen=True, tag="image"):
    """One image, referred to and not yet read."""

    blob: Blob


class Pick(Struct, frozen=True):
    """Frames of a clip that a benchmark shows, where that is part of its question.

    Attributes:
        name: what the rule is called; it stands in the fingerprint, and two rules of one name pick alike.
        numbers: from how many frames there are to the numbers of those that are shown, from 0, in the order in which
            they are shown; a number may come more than once. Picklable: a function of a module, or a partial of one.
        most: how many it names at most.
        by_rate: `numbers` is told the clip's average frames a second too, as its second argument.
        label: a text before each frame, with {k} for its number from 1; empty: none. It belongs to the name of the rule.
    """

    name: str
    numbers: Callable[..., Sequence[int]]
    most: int
    by_rate: bool = False
    label: str = ""

    def text_before(self, number: int) -> Text | None:
        """Return the label of a frame, numbered from 0; None without labels."""
        return Text(self.label.replace("{k}", str(number + 1))) if self.label else None


class Subtitles(Struct, frozen=True):
    """Subtitles of a clip, as a model reads them beside its frames.

    Attributes:
        blob: the file: SubRip, WebVTT, or JSON.
        show: `frames` lists the lines that are spoken at the frames shown, `full` all lines, `between` writes those of
            `frames` between the frames, `intervals` behind each frame what is spoken until the next, with its seconds.
        before, after: texts around the list.
        begins: second of the subtitles at which the clip begins.
        absent: the text in place of the list where no line is shown.
    """

    blob: Blob | None
    show: Literal["frames", "full", "between", "intervals"] = "frames"
    before: str = ""
    after: str = ""
    absent: str = ""
    begins: float = 0.0


class Video(Struct, frozen=True, tag="video"):
    """A clip: either an encoded file (`blob`) or frames in order (`frames`), shown at `fps` frames a second.

    `pick` takes the place of the frames that MediaSettings asks for, and excludes settings that ask for others.

    Attributes:
        blob: the encoded file.
        frames: frames in order, in place of a file.
        fps: rate of `frames`.
        pick: a rule of the benchmark that picks the frames.
        start, end: seconds of the file between which frames are taken; None: its beginning and its end.
        times: seconds of the file whose frames are shown, in this order, in place of a rule.
        subtitles: what is said in the clip, and how much of it is shown.
        usual: the benchmark's settings of frames, for a user who gives none.
    """

    blob: Blob | None = None
    frames: tuple[Image, ...] = ()
    fps: float = 1.0
    pick: Pick | None = None
    start: float | None = None
    end: float | None = None
    times: tuple[float, ...] = ()
    subtitles: Subtitles | None = None
    usual: MediaSettings | None = None


Part: TypeAlias = Text | Image | Video


class Generation(Struct, frozen=True, omit_defaults=True):
    """Sampling settings of the model. None leaves a setting to the model's own default."""

    max_tokens: Annotated[
        int | None, Setting("Maximum new tokens per reply.", 1, options=("--max-tokens", "--max-new-tokens"))
    ] = None
    temperature: Annotated[float | None, Setting("Sampling temperature.", 0.0)] = None
    top_p: Annotated[float | None, Setting("Nucleus sampling.", 0.0, 1.0)] = None
    seed: int | None = None
    stop: Annotated[tuple[str, ...], Setting("Text at which the reply ends; may be repeated.", value="TEXT")] = ()
    extra: Annotated[Mapping[str, Any], Setting("Goes verbatim into the request body or the generate call.")] = field(
        default_factory=dict
    )
    logprobs: Annotated[
        int | None,
        Setting(
            "Record the probabilities of the answer's tokens with N alternatives each (5 without a number): option "
            "probabilities and calibration.",
            1,
            20,
            value="[N]",
        ),
    ] = None
    top_k: Annotated[int | None, Setting("Draw from the K likeliest tokens.", 1, value="K")] = None
    min_p: Annotated[
        float | None, Setting("Draw from tokens of at least this share of the likeliest one's probability.", 0.0, 1.0)
    ] = None
    repetition_penalty: Annotated[
        float | None,
        Setting("Divide the scores of tokens of the prompt and the reply by this; 1: no penalty.", 0.01, 10.0),
    ] = None
    presence_penalty: Annotated[
        float | None, Setting("Subtract this from the scores of tokens that the reply has.", -2.0, 2.0)
    ] = None
    frequency_penalty: Annotated[
        float | None, Setting("Subtract this for each time that the reply has a token.", -2.0, 2.0)
    ] = None
    chat_template_kwargs: Annotated[
        Mapping[str, Any],
        Setting("Arguments of the chat template, such as enable_thinking, as a JSON object or @FILE.", value="JSON"),
    ] = field(default_factory=dict)
    reply_schema: Mapping[str, Any] | None = None
    """JSON Schema of the reply; `RunSpec.schema` sets it for each question (snellen.benchmarks.structured)."""

    def more_sampling(self) -> dict[str, Any]:
        """Return the settings by name, among those that not every server and model has, that are set."""
        named = {name: getattr(self, name) for name in MORE_SAMPLING}
        return {name: value for name, value in named.items() if value not in (None, {})}


MORE_SAMPLING = (
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "chat_template_kwargs",
)


class MediaSettings(Struct, frozen=True, omit_defaults=True):
    """Processing of images and videos on their way to the model. The defaults send the original bytes untouched.

    Which of these exclude each other: snellen.media.check_settings.
    """

    max_long_side: Annotated[int | None, Setting("Maximum long side in pixels; larger images are shrunk.", 1)] = None
    max_pixels: Annotated[int | None, Setting("Maximum width x height; larger images are shrunk.", 1)] = None
    format: Annotated[
        Literal["original", "jpeg", "png", "webp"],
        Setting("Format in which images are sent; original: untouched bytes.", options=("--image-format",)),
    ] = "original"
    quality: Annotated[int, Setting("Quality of JPEG and WebP.", 1, 100)] = 90
    frames: Annotated[
        int | None,
        Setting("Maximum frames per video, evenly spaced.", 1, 1_000_000, default="8, or what the benchmark declares"),
    ] = None
    blank: Annotated[
        bool, Setting("Blind control: send grey images of the same size.", options=("--blank-images",))
    ] = False
    fps: Annotated[
        float | None,
        Setting("Frames per second of video, at most 768 per video; instead of --frames.", value="NUMBER"),
    ] = None
    min_frames: Annotated[int | None, Setting("Minimum frames per video under --fps.", 1)] = None
    max_frames: Annotated[int | None, Setting("Maximum frames per video under --fps; 768 without it.", 1)] = None
    frame_places: Annotated[
        Literal["ends", "middle", "inside"] | None,
        Setting(
            "Places of --frames: evenly from the first frame to the last (ends), in the middle of equal segments "
            "(middle), or at i x length / (N + 1) (inside).",
            default="ends, or what the benchmark declares",
        ),
    ] = None
    timestamps: Annotated[
        bool | None,
        Setting(
            "Write the time before each frame of a video: <12.3 seconds>.",
            options=("--timestamps/--no-timestamps",),
            default="no, or what the benchmark declares",
        ),
    ] = None
    video: Annotated[
        Literal["frames", "native"],
        Setting("How videos are sent: frames, or native: the file itself, to an endpoint that accepts video."),
    ] = "frames"
    min_pixels: Annotated[
        int | None,
        Setting(
            "Minimum width x height; smaller images are enlarged as Qwen2.5-VL's processor does, to multiples of 28.", 1
        ),
    ] = None
    resize: Annotated[
        str, Setting("Exact size in pixels of every image, whatever its shape; 448x448.", value="WIDTHxHEIGHT")
    ] = ""
    corrupt: Annotated[
        str,
        Setting(
            "Degrade images: blur:K (K pixels, odd), salt-pepper:P (P per cent of the pixels), grey, jitter:S (S up to 1), "
            "downscale:N (both sides divided by N), remove; with @object or @background within "
            "the masks of --mask, or around them; separated by commas or repeated, applied in that order.",
            value="OPERATION",
        ),
    ] = ""
    mask: Annotated[
        str,
        Setting(
            "Masks of the objects, for --corrupt, light on the object: a folder of pictures under the images' names, or the "
            "column of a table.",
            value="FOLDER|COLUMN",
        ),
    ] = ""
    window: Annotated[
        str,
        Setting(
            "Values shown as black to white in images of more than 8 bits: WIDTH/CENTRE (400/40); file, the window that a "
            "DICOM file names, else its lowest to highest value; full, always the latter.",
            value="WINDOW",
        ),
    ] = "file"
    bands: Annotated[
        str,
        Setting("Bands of a TIFF shown as grey, or as red, green and blue; 4,3,2.", value="NUMBERS", default="1,2,3"),
    ] = ""


class Turn(Struct, frozen=True):
    """An earlier turn of a conversation: what the user or the model (`assistant`) said. The model's turns are text."""

    role: TurnRole
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            raise ValueError(f"a Turn has the role {self.role!r}; expected 'user' or 'assistant'")
        _require_parts(self.parts, f"Turn({self.role!r}, (Text('...'),))")
        if self.role == "assistant" and not all(isinstance(part, Text) for part in self.parts):
            raise TypeError("a Turn of the assistant holds an image or video: models answer in text; write Text('...')")


class Prompt(Struct, frozen=True):
    """Content of one request: text, images and video in the order in which the model reads them.

    `history` holds the turns before `parts`: user and assistant in turn, from the user's first to the assistant's last.
    `system` is read before them.
    """

    parts: tuple[Part, ...]
    system: str = ""
    generation: Generation | None = None
    history: tuple[Turn, ...] = ()

    def __post_init__(self) -> None:
        _require_parts(self.parts, "Prompt((Image(...), Text('...')))")
        if self.history:
            for turn in self.history:
                if not isinstance(turn, Turn):
                    raise TypeError(f"{turn!r} is no turn of a Prompt's history: write Turn('user', (Text('...'),))")
            roles = [turn.role for turn in self.history]
            if len(roles) % 2 or roles != ["user", "assistant"] * (len(roles) // 2):
                raise ValueError(
                    f"the history of a Prompt has the roles {', '.join(roles)}; expected user and assistant in turn, "
                    "from the user's first to the assistant's last"
                )

    @property
    def words(self) -> str:
        """The texts of the question, one a line."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def conversation_parts(self) -> tuple[Part, ...]:
        """All parts that the model reads, those of earlier turns first."""
        return (*(part for turn in self.history for part in turn.parts), *self.parts) if self.history else self.parts


def _require_parts(parts: object, form: str) -> None:
    if not isinstance(parts, (tuple, list)):
        raise TypeError(f"{parts!r} is no tuple of parts: write {form}")
    for part in parts:
        if not isinstance(part, (Text, Image, Video)):
            raise TypeError(f"{part!r} is no part of a Prompt: write Text('...'), Image(...) or Video(...)")


class Sample(Struct, frozen=True):
    """One question with its gold answer.

    Attributes:
        id: unique in its benchmark, stable from version to version.
        prompt: what is sent.
        target: the gold answer: bool for truth, option letter for choice, option text for choice_text, a tuple of letters for
            multi-choice, int for count, float or text for number, str or a tuple of accepted str for texts and names, the text of
            the cell for the other kinds, anything or None for open.
        kind: which family of extractors reads the reply.
        options: letter to text, in the order shown; empty where there are none.
        group: the cluster for statistics (an image, a pair, a target); empty: the sample stands alone.
        meta: what results are broken down by (level, category, form, unit, aliases …).
    """

    id: str
    prompt: Prompt
    target: Any
    kind: Kind
    options: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str):
            raise TypeError(f"the id {self.id!r} of a Sample is no str: write str({self.id!r})")
        if not isinstance(self.prompt, Prompt):
            raise TypeError(f"the prompt of sample {self.id!r} is no Prompt: write Prompt((Image(...), Text('...')))")
        plain = type(self.options) is dict and type(self.meta) is dict
        mappings: tuple[tuple[str, object], ...] = () if plain else (("options", self.options), ("meta", self.meta))
        for name, fields in mappings:
            if not isinstance(fields, Mapping):
                example = "{'A': 'red', 'B': 'green'}" if name == "options" else "{'type': 'colour'}"
                raise TypeError(f"the {name} of sample {self.id!r} are no dict: write {name}={example}")
        if self.kind not in KINDS and self.kind not in _plugin_kinds():
            known = (*KINDS, *_plugin_kinds())
            raise ValueError(f"sample {self.id!r} has the kind {self.kind!r}; expected one of {', '.join(known)}")


@cache
def _plugin_kinds() -> tuple[str, ...]:
    """Return the kinds of answers that plug-ins register."""
    from importlib.metadata import entry_points  # only for a kind that is no built-in one

    return tuple(sorted(point.name for point in entry_points(group="snellen.answers")))


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens as the server counts them; `cost` in US dollars, None where no price is known.

    `reasoning_tokens` are part of the output; `cached_tokens` (read from the server's cache), `cache_write_tokens` and
    `image_tokens` are parts of the input; `cache_write_1h_tokens` were written for an hour, as a part of all written.
    `cache_saved` is what the service's cache of prompts saved, in US dollars: below 0 where writing cost more than reading
    saved, None where no price of cached input is known. `lacks` names the half that the server did not count: the cost is then a part.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    image_tokens: int = 0
    lacks: Literal["", "input", "output"] = ""
    cache_write_1h_tokens: int = 0
    cache_saved: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """Add up the tokens of two requests; the cost is known where both are. Usage() is that of no request."""
        if Usage() in (self, other):
            return other if self == Usage() else self
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        saved = sum(part for part in (self.cache_saved, other.cache_saved) if part is not None)
        known = self.cache_saved is not None or other.cache_saved is not None
        return Usage(**counts, cost=cost, lacks=self.lacks or other.lacks, cache_saved=saved if known else None)


_COUNTS = tuple(name for name in Usage.__struct_fields__ if name.endswith("_tokens"))


class TokenLogprob(Struct, frozen=True, array_like=True):
    """One token of an answer with natural logarithms of probabilities, as the server gives them.

    A record holds it as [text, logprob, [[text, logprob], …]].

    Attributes:
        text: the token's text, cut to 64 characters.
        logprob: that of the token, 0 or less; None where the server gave none, or no finite one.
        alternatives: (text, logprob) of the likeliest tokens at this place, likeliest first; the token itself is among
            them where the server lists it.
    """

    text: str
    logprob: float | None = None
    alternatives: tuple[tuple[str, float], ...] = ()


CUT_OFF = "length"
EASI_PAPER = "easi-paper"
"""The protocol of EASI's paper: a system text asks for a chain of thought, and replies that were cut off are wrong."""
"""The `finish_reason` of a reply that ended at the limit of its tokens."""
NOWHERE, THINKING_ALONE = "nowhere", "<think>"
"""Places of the text of a reply that has none at all, and of one that holds thinking and no answer."""


class Response(Struct, frozen=True, omit_defaults=True):
    """Reply of a model.

    `latency_s` is seconds from sending to the last byte, `first_token_s` to the first piece of text of a streamed reply.
    `finish_reason` of an API model is `stop`, `length` (cut off) or `refused`; `request_id` is the provider's. `trace` is
    the raw exchange (images by digest), which the engine moves into traces/ and never into results.jsonl. `logprobs` are
    the answer's first tokens, without its thinking (snellen.logprobs.answer_tokens makes them); None where none were
    requested or given. `batch` is the service's id of the batch by which the reply came; empty: it was asked by
    itself. `cached_answer` names the entry of `--cache` that the answer was taken from; "": it was sent. `oversized_images`
    counts the images of the request that are larger than the service takes without scaling them down; None: not known.
    `empty` says where the text of a reply stands that says nothing: the member of the message (`reasoning`, `tool_calls`),
    THINKING_ALONE, else NOWHERE; "": the reply says something.
    """

    text: str
    usage: Usage = Usage()
    latency_s: float = 0.0
    finish_reason: str = ""
    reasoning: str = ""
    model: str = ""
    trace: Any = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    request_id: str = ""
    first_token_s: float = 0.0
    batch: str = ""
    cached_answer: str = ""
    oversized_images: int | None = None
    empty: str = ""


class ProcessedImage(Struct, frozen=True, omit_defaults=True):
    """Size of an image before and after a model's own processor, in pixels.

    Attributes:
        sent_width, sent_height: as it was sent.
        width, height: as the model got it; None: unknown.
        patch: side of one patch (of merged ones: of their square) in pixels after the processor; None: unknown.
        tiles: how many pieces it was cut into; 1: none.
    """

    sent_width: int
    sent_height: int
    width: int | None = None
    height: int | None = None
    patch: int | None = None
    tiles: int = 1


class Failure(Struct, frozen=True):
    """Reason why a sample has no answer: `kind` is one of the error kinds of `snellen --help errors`."""

    kind: str
    message: str


_Number: TypeAlias = Annotated[int, Meta(ge=0, lt=2**31)]
"""What a column of 32 bits takes; a line with another number is no record."""


class Record(Struct, frozen=True, omit_defaults=True):
    """One line of results.jsonl. Times are seconds since the epoch, UTC."""

    sample_id: str
    status: Status
    repeat: _Number = 0
    response: Response | None = None
    error: Failure | None = None
    attempts: _Number = 1
    started_at: float = 0.0
    finished_at: float = 0.0


class Score(Struct, frozen=True, omit_defaults=True):
    """Score of one reply under one profile.

    `value` is 0 to 1, None where it is not scored; `extracted` is what was read from the reply, None where nothing
    was; `reason` says why nothing was read, or why the verdict is what it is; `detail` holds what else a profile
    found on its way (every number in the reply, the raw difference), for the file of scores.
    """

    value: float | None
    extracted: Any = None
    verdict: Verdict = "wrong"
    reason: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"a Score has the verdict {self.verdict!r}; expected one of {', '.join(VERDICTS)}")
        if self.value == 1.0 and self.verdict == "wrong":
            raise ValueError("a Score of 1.0 has the verdict 'wrong': write Score(1.0, extracted, 'correct')")


class IntervalMethod(Struct, frozen=True):
    """Method of a confidence interval.

    Attributes:
        method: `Wilson`, `cluster-robust Wilson`, `cluster bootstrap` ... (`snellen --help statistics`).
        level: its level, 0 to 1.
        cluster: what the rows of one cluster share (`image`, `question`, `class` ...); None where every row stands alone.
        clusters: how many independent units there are; None where that was not counted.
        effective: their effective number, (sum of sizes)^2 / sum of squared sizes; None where that was not computed.
    """

    NONE: ClassVar[str] = "no interval"

    method: str
    level: float = 0.95
    cluster: str | None = None
    clusters: int | None = None
    effective: float | None = None

    @property
    def is_none(self) -> bool:
        """True if there is no interval; the method then gives the reason."""
        return self.method.startswith(self.NONE)

    @property
    def text(self) -> str:
        """Format as `cluster-robust Wilson by image`, or `no interval: too few clusters (effective number 2.1)`."""
        if self.is_none and self.effective is not None:
            return f"{self.method} (effective number {self.effective:.1f})"
        return self.method if self.cluster is None else f"{self.method} by {self.cluster}"


class Interval(tuple[float, float]):
    """Both ends of an interval, equal to a plain pair; `about` says how it was made."""

    about: IntervalMethod

    def __new__(cls, low: float, high: float, about: IntervalMethod) -> Interval:
        made = super().__new__(cls, (low, high))
        made.about = about
        return made

    def map(self, change: Callable[[float], float]) -> Interval:
        """Change both ends alike, smaller end first."""
        low, high = sorted((change(self[0]), change(self[1])))
        return Interval(low, high, self.about)

    def cut(self, low: float, high: float) -> Interval:
        """Return the part from `low` to `high`."""
        return Interval(max(low, self[0]), min(high, self[1]), self.about)


class Metric(Struct, frozen=True):
    """One number of a summary.

    Attributes:
        name: e.g. `accuracy`, or `accuracy/short/species` for a part of the samples.
        value: a fraction (0 to 1) unless `unit` says otherwise; None where nothing could be scored.
        n: how many samples stand behind it.
        ci95: 95 % confidence interval (low, high), None where there is none.
        unit: `fraction`, or a name such as `seconds`.
        coverage: scored samples / samples that the benchmark has for this number, 0 to 1.
        chance: what guessing reaches, where that is known.
        interval: how `ci95` was made; filled in from an `Interval`, or why there is none; None where an old file does not say.
        lower_is_better: True for errors, thresholds and the like: a smaller value means a better model.
    """

    name: str
    value: float | None
    n: int
    ci95: tuple[float, float] | None = None
    unit: str = "fraction"
    coverage: float = 1.0
    chance: float | None = None
    interval: IntervalMethod | None = None
    lower_is_better: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.ci95, Interval):
            structs.force_setattr(self, "interval", self.ci95.about)
            structs.force_setattr(self, "ci95", (self.ci95[0], self.ci95[1]))
        elif self.ci95 is None and self.interval is not None and not self.interval.is_none:
            structs.force_setattr(self, "interval", None)
