"""Samples of a plug-in, checked one by one as they are made: a wrong type is the author's mistake, and is named with its sample.

Snellen's own benchmarks are not checked, and making a Sample costs nothing more: the checks stand around `samples`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import ValidationError, convert, structs

from snellen.errors import PluginError, SampleNote, SnellenError
from snellen.plugin_errors import short_path
from snellen.types import Generation, Image, Pick, Sample, Text, Video

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark, Data

READY = "snellen.scoring.scorers"
_FORM = "def samples(data), which yields each Sample"


class CheckedSamples:
    """The `samples` of a plug-in: it yields the same samples, and raises PluginError for what is none.

    An exception of the plug-in's own is given a note: after which sample it was raised.
    """

    def __init__(self, function: Callable[[Data], Iterator[Sample]], benchmark: str, scorers: Collection[Any]) -> None:
        self.function = function
        self._benchmark = benchmark
        ready = {scorer.__name__ for scorer in scorers if getattr(scorer, "__module__", "") == READY}
        self._reads_names, self._reads_units = "short" in ready, "number" in ready
        self._checked_generation: Generation | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CheckedSamples) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __call__(self, data: Data) -> Iterator[Sample]:
        made: Any = self._made(data)
        if isinstance(made, Mapping | str | bytes | Sample) or not hasattr(made, "__iter__"):
            raise PluginError(
                f"{self._benchmark}: samples returned {described(made)}{self._place}; expected {_FORM}",
                "Is a `yield` missing? Write: yield Sample(...)",
            )
        return self._checked(iter(made))

    def _made(self, data: Data) -> Any:
        try:
            return self.function(data)
        except SnellenError:
            raise
        except TypeError as error:
            frame = error.__traceback__
            if frame is not None and frame.tb_next is None:  # raised by the call itself: no code of the function ran
                raise PluginError(
                    f"{self._benchmark}: samples cannot be called with the data{self._place}: {error}",
                    f"Expected: {_FORM}.",
                ) from error
            raise

    @property
    def _place(self) -> str:
        code = getattr(getattr(self.function, "func", self.function), "__code__", None)
        if code is None:
            return f" ({getattr(self.function, '__qualname__', repr(self.function))})"
        return f" ({short_path(code.co_filename)}:{code.co_firstlineno})"

    def _checked(self, made: Iterator[Any]) -> Iterator[Sample]:
        last: Sample | None = None
        try:
            for sample in made:
                if type(sample) is not Sample and not isinstance(sample, Sample):
                    raise PluginError(
                        f"{self._benchmark}: samples yielded {described(sample)}, {_after(last)}; "
                        f"expected a Sample{self._place}",
                        "Write: yield Sample(id, Prompt((Image(...), Text('...'))), target, kind)",
                    )
                self.check(sample)
                last = sample
                yield sample
        except GeneratorExit as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                error.add_note(SampleNote(_after(last)))
            raise
        except PluginError:
            raise
        except SnellenError as error:
            error.message += f"\n  Raised by the samples of {self._benchmark}, {_after(last)}."
            error.args = (error.message, *error.args[1:])
            raise
        except BaseException as error:
            error.add_note(SampleNote(_after(last)))
            raise

    def check(self, sample: Sample) -> None:
        """Raise PluginError for a field of a wrong type, in the sample, its prompt or its parts."""
        prompt = sample.prompt
        for part in prompt.parts:
            kind = type(part)
            if kind is Text:
                if type(part.text) is not str:  # type: ignore[union-attr]
                    self._part(sample, part)
            elif kind is not Image or type(part.blob) not in _BLOBS:  # type: ignore[union-attr]
                self._part(sample, part)
        if prompt.history:
            for turn in prompt.history:
                for part in turn.parts:
                    self._part(sample, part)
        if type(prompt.system) is not str:
            self._refuse(sample, "the system text in the Prompt", prompt.system, "Write: system='...'")
        if prompt.generation is not None and prompt.generation is not self._checked_generation:
            self._generation(sample, prompt.generation)
            self._checked_generation = prompt.generation  # most samples share one
        if sample.group and type(sample.group) is not str:
            self._refuse(sample, "the group", sample.group, f"Write: group={str(sample.group)!r}")
        for letter, text in sample.options.items():
            if type(letter) is not str or type(text) is not str:
                self._refuse(
                    sample, "an option", text if isinstance(letter, str) else letter, "Write: options={'A': 'red'}"
                )
        for name in sample.meta:
            if type(name) is not str:
                self._refuse(sample, "a name in the meta", name, "Write: meta={'category': 'colour'}")
        if self._reads_names and sample.kind == "short":
            self._texts(sample, "the target", sample.target)
            self._texts(sample, "aliases in the meta", sample.meta.get("aliases"))
        if self._reads_units and not isinstance(sample.meta.get("unit"), str | None):
            self._refuse(sample, "the unit in the meta", sample.meta["unit"], "Write: meta={'unit': 'm'}")

    def _part(self, sample: Sample, part: Any) -> None:
        if isinstance(part, Text) and not isinstance(part.text, str):
            self._refuse(sample, "a Text", part.text, "Write: Text('...'), of lines: Text('\\n'.join(lines))")
        elif isinstance(part, Image):
            self._blob(sample, "an Image", part.blob)
        elif isinstance(part, Video):
            self._video(sample, part)

    def _video(self, sample: Sample, video: Video) -> None:
        if video.blob is not None:
            self._blob(sample, "a Video", video.blob)
        if not isinstance(video.frames, tuple | list):
            self._refuse(
                sample, "the frames of a Video", video.frames, "Write: Video(frames=(Image(...), ...), fps=25)"
            )
        for frame in video.frames:
            if not isinstance(frame, Image):
                self._refuse(sample, "a frame of a Video", frame, "Write: Video(frames=(Image(...), ...), fps=25)")
            self._blob(sample, "an Image", frame.blob)
        if video.blob is None and not video.frames:
            self._refuse(sample, "a Video", None, "Write: Video(blob), or Video(frames=(Image(...), ...), fps=25)")
        if isinstance(video.fps, bool) or not isinstance(video.fps, int | float) or not video.fps > 0:
            self._refuse(sample, "the fps of a Video", video.fps, "Write a number above 0: fps=25")
        if not isinstance(video.pick, Pick | None):
            self._refuse(
                sample, "the pick of a Video", video.pick, "Write: pick=snellen.types.Pick(name, numbers, most)"
            )

    def _blob(self, sample: Sample, holder: str, blob: Any) -> None:
        if type(blob) in _BLOBS:
            return
        if not callable(getattr(blob, "read", None)) or not isinstance(getattr(blob, "key", None), str):
            if isinstance(blob, bytes | bytearray):
                hint = "Write: from snellen.sources import BytesBlob, and Image(BytesBlob('a name', data))"
            elif isinstance(blob, str | PurePath):
                name = holder.split()[1]
                hint = (
                    f"Write: images = open_tree(data.images), and {name}(images.blob({str(blob)!r})), "
                    f"or {name}(FileBlob(Path({str(blob)!r}))); both names are in snellen.sources."
                )
            else:
                hint = "Write: Image(images.blob(NAME)); of bytes in memory: Image(BytesBlob('a name', data))"
            self._refuse(sample, holder, blob, hint, expected="a blob")
        if not isinstance(blob, type):
            _BLOBS.add(type(blob))

    def _generation(self, sample: Sample, generation: Any) -> None:
        if not isinstance(generation, Generation):
            hint = "Write: generation=Generation(max_tokens=64)"
            self._refuse(sample, "the generation in the Prompt", generation, hint)
        try:
            convert(structs.asdict(generation), Generation)
        except ValidationError as error:
            raise PluginError(
                f"{self._benchmark}: the generation of sample {sample.id!r} has a field of a wrong type: {error}",
                "Write: generation=Generation(max_tokens=64)",
            ) from error

    def _texts(self, sample: Sample, field: str, value: Any) -> None:
        if value is None or isinstance(value, str):
            return
        if not isinstance(value, tuple | list | set | frozenset) or not all(isinstance(text, str) for text in value):
            self._refuse(sample, field, value, "Write a text, or a tuple of texts: ('wren', 'winter wren')")

    def _refuse(self, sample: Sample, field: str, value: Any, hint: str, expected: str = "") -> NoReturn:
        wanted = f"; expected {expected}" if expected else ""
        raise PluginError(f"{self._benchmark}: {field} of sample {sample.id!r} is {described(value)}{wanted}", hint)


_BLOBS: set[type] = set()
"""Types of blobs that were looked at: each sample's own is looked up here."""


def checked_samples(benchmark: Benchmark) -> CheckedSamples:
    """Return the `samples` of a plug-in with the checks around them."""
    if isinstance(benchmark.samples, CheckedSamples):
        return benchmark.samples
    return CheckedSamples(benchmark.samples, benchmark.name, list(benchmark.score.values()))


def _after(last: Sample | None) -> str:
    return "before the first sample" if last is None else f"after sample {last.id!r}"


def described(value: Any) -> str:
    """Format a value with its type, cut to 60 characters."""
    text = repr(value)
    short = text if len(text) <= 60 else text[:57] + "..."
    name = type(value).__name__
    return "None" if value is None else f"{short}, {'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
