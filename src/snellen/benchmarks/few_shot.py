"""Few-shot examples of a run: chosen from a pool by a seed, each as a user's turn and the gold answer as the model's.

Pool of few-shot examples: where it lies, and which of its samples are none of the tested ones.
An example must not be a tested sample. It is excluded by its id, by its group, and by its content.

Samples of a pool that are tested ones, or other samples of the pool, in another form.
An image is the same by its bytes or its pixels. One that was encoded anew with losses is the same if the question and the
gold answer are those of the tested sample too. Questions without images are the same whatever their case, spacing, final
punctuation and order of options.
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct, structs

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data, needs_no_data
from snellen.errors import DataError, MediaError, SnellenError, UsageError
from snellen.media import open_image
from snellen.media.decode import read_header
from snellen.scoring.rubric import gold_forms
from snellen.sources.hub import HUB
from snellen.text import normalized
from snellen.types import Blob, Image, MediaSettings, Prompt, Sample, Text, Turn, Video

if TYPE_CHECKING:  # numpy takes 0.1 s to import, which a run without examples does not need
    import numpy as np
    import numpy.typing as npt


MOST_EXAMPLES = 64
Draw: TypeAlias = Literal["fixed", "each"]
DRAWS: Mapping[str, str] = {
    "fixed": "the same examples, in the same order, before every question",
    "each": "other examples before each question, drawn by the seed and the question's id",
}
_LETTERS = re.compile(r"\bT\s*(?:or|/|\|)\s*F\b|\(T\)|'T'|\"T\"|answer with T\b")
_TRUE_FALSE = re.compile(r"\btrue\b[^.\n]{0,20}\bfalse\b", re.IGNORECASE)
_LOWER_YES = re.compile(r"\byes or no\b")


class ExampleTurns(Struct, frozen=True):
    """One example as turns; `digest` is over its words, images and answer."""

    id: str
    turns: tuple[Turn, ...]
    digest: str


class FewShotExamples(Struct, frozen=True):
    """The examples of a run and how they are drawn.

    Attributes:
        count: examples before each question.
        draw: `fixed` or `each`.
        seed: that of the run.
        gold: the answers of all examples, which a restricted benchmark never writes.
        examples: what is shown (`fixed`), or drawn from (`each`).
        identity: what the run's fingerprint holds of it: count, draw, digests of pool and examples. No gold answer.
    """

    count: int
    draw: Draw
    seed: int
    examples: tuple[ExampleTurns, ...]
    identity: Mapping[str, Any]
    gold: tuple[str, ...] = ()

    def before(self, sample_id: str) -> tuple[Turn, ...]:
        """Return the turns that stand before a question."""
        chosen = self.examples
        if self.draw == "each":
            chosen = tuple(
                heapq.nsmallest(
                    self.count, self.examples, key=lambda each: (draw_order(self.seed, sample_id, each.id), each.id)
                )
            )
        return tuple(turn for example in chosen for turn in example.turns)

    def shown(self, sample: Sample) -> Sample:
        """Return a sample with the examples before its own turns."""
        history = (*self.before(sample.id), *sample.prompt.history)
        return structs.replace(sample, prompt=structs.replace(sample.prompt, history=history))


def choose_examples(
    benchmark: Benchmark, benchmark_name: str, data: Data, *, count: int, named: str | None, draw: Draw
) -> FewShotExamples:
    """Choose the few-shot examples of a run. The same data, pool and seed give the same examples.

    Args:
        count: examples before each question.
        named: the pool; None: the one that the benchmark declares.
        draw: `fixed` or `each`.

    Raises:
        UsageError: no pool, too few examples in it that are no tested samples, an adaptive benchmark.
        DataError: the pool cannot be read.
    """
    if draw not in DRAWS:
        raise UsageError(f"--few-shot-draw {draw}: {' or '.join(DRAWS)} was expected.")
    if not 1 <= count <= MOST_EXAMPLES:
        raise UsageError(f"--few-shot {count}: 1 to {MOST_EXAMPLES} examples were expected.")
    if benchmark.grow is not None:
        raise UsageError(
            f"--few-shot: {benchmark.name} chooses each question by the answers before it, and has no pool of examples.",
            "Omit --few-shot.",
        )
    pool = find_pool(benchmark, benchmark_name, data, named)
    chosen = candidates(benchmark, data, pool, data.seed)
    excluded: Counter[str] = Counter(chosen.excluded)
    examples: list[ExampleTurns] = []
    gold: list[str] = []
    most = count if draw == "fixed" else len(chosen.samples)
    for sample in chosen.samples:
        if len(examples) == most:
            break
        answer = gold_reply(pool.benchmark, sample)
        if answer is None:
            excluded["have no gold answer that can be written as a reply"] += 1
            continue
        turns = (*sample.prompt.history, Turn("user", sample.prompt.parts), Turn("assistant", (Text(answer),)))
        examples.append(ExampleTurns(sample.id, turns, _digest_of(sample.id, turns)))
        gold += [answer, *gold_forms(sample)]
    if len(examples) < count:
        raise _too_few(pool.text, chosen, excluded, len(examples), count)
    identity = {
        "count": count,
        "draw": draw,
        "pool": pool.benchmark.digest(pool.data),
        "examples": blake2b("".join(each.digest for each in examples).encode(), digest_size=8).hexdigest(),
    }
    return FewShotExamples(count, draw, data.seed, tuple(examples), identity, tuple(dict.fromkeys(gold)))


def gold_reply(benchmark: Benchmark, sample: Sample) -> str | None:
    """Return the gold answer of a sample as a model should write it; None if it has none.

    It is the first of the usual forms of its kind that the benchmark's default profile reads as correct. A benchmark that
    wants another form declares `gold_reply`.
    """
    if benchmark.gold_reply is not None:
        return benchmark.gold_reply(sample)
    scorer: Callable[[Sample, str], Any] = next(iter(benchmark.score.values()))
    for form in _forms(sample):
        try:
            verdict = scorer(sample, form).verdict
        except SnellenError:  # this form cannot be scored; the next may be
            continue
        if verdict in ("correct", "unscored"):  # a judge decides about the latter
            return form
    return None


def _forms(sample: Sample) -> Iterator[str]:
    """Yield the usual forms of a gold answer, the one that the question asks for first."""
    target, kind = sample.target, sample.kind
    if kind == "truth" and isinstance(target, bool):
        words = sample.prompt.words
        pairs = [("Yes", "No"), ("True", "False"), ("T", "F")]
        if _LETTERS.search(words):
            pairs.insert(0, ("T", "F"))
        elif _TRUE_FALSE.search(words):
            pairs.insert(0, ("true", "false") if "true or false" in words else ("True", "False"))
        elif _LOWER_YES.search(words):
            pairs.insert(0, ("yes", "no"))
        yield from (pair[0] if target else pair[1] for pair in pairs)
    elif kind in ("count", "number") and isinstance(target, (int, float)):
        yield str(int(target)) if float(target).is_integer() else repr(target)
    elif isinstance(target, str):
        yield target
        if target in sample.options:
            yield f"({target})"
            yield sample.options[target]
    elif isinstance(target, (tuple, list)) and target and isinstance(target[0], str):
        yield ", ".join(target) if kind == "multi-choice" else target[0]


def _digest_of(sample_id: str, turns: tuple[Turn, ...]) -> str:
    total = blake2b(sample_id.encode("utf-8", "surrogatepass"), digest_size=8)
    for turn in turns:
        total.update(f"\0{turn.role}\0".encode())
        for part in turn.parts:
            if isinstance(part, Text):
                total.update(part.text.encode("utf-8", "surrogatepass"))
            else:
                frames = part.frames if isinstance(part, Video) else ()
                blobs = [part.blob, *(frame.blob for frame in frames)]
                for blob in blobs:
                    if blob is not None:
                        total.update(blake2b(blob.read(), digest_size=16).digest())
    return total.hexdigest()


def _too_few(text: str, chosen: PoolCandidates, excluded: Mapping[str, int], usable: int, count: int) -> UsageError:
    reasons = "".join(f"\n  {number:,} {reason}" for reason, number in sorted(excluded.items()))
    return UsageError(
        f"--few-shot {count}: the pool {text} has {usable:,} usable examples among {chosen.total:,} samples.{reasons}",
        "Name a pool that shares no samples with the tested ones: --few-shot-from. No request was sent.",
    )


MOST_CANDIDATES = 256
"""Samples of a pool that are compared with the tested ones by their images; drawn by the seed."""
SEED = "seed"
_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.DOTALL)


class ExamplePool(NamedTuple):
    """A benchmark and data whose samples may be examples; `text` names it as the user did."""

    benchmark: Benchmark
    data: Data
    text: str


class PoolCandidates(Struct, frozen=True):
    """Samples of a pool that may be shown, in an order that the seed decides, and how many were excluded, by reason."""

    samples: tuple[Sample, ...]
    excluded: Mapping[str, int]
    total: int


def find_pool(benchmark: Benchmark, benchmark_name: str, data: Data, named: str | None) -> ExamplePool:
    """Return the pool that the user names, or that the benchmark declares.

    Args:
        benchmark_name: its name as in the run's record.
        named: `KEY=VALUE` is the same benchmark with another setting (`split=train`, `seed=7`); else a file or folder,
            or `hf:owner/name`; None: the pool that the benchmark declares.

    Raises:
        UsageError: there is no pool, or no such setting.
        DataError: there is no such file.
    """
    text = named if named is not None else benchmark.examples
    if not text:
        raise UsageError(
            f"--few-shot: {benchmark.name} declares no pool of examples, and its tested samples are never shown.",
            f"Name one: {_told_forms(benchmark)}",
        )
    plain = {name: value for name, value in data.options.items() if name != "circular"}
    path = Path(text).expanduser()
    setting = _SETTING.fullmatch(text)
    if setting is not None and not path.exists():
        key, value = setting[1], setting[2]
        if key == SEED and needs_no_data(benchmark) and re.fullmatch(r"\d{1,18}", value):
            return ExamplePool(benchmark, structs.replace(data, seed=int(value)), text)
        if key not in benchmark.options:
            known = ", ".join(benchmark.options) or "none"
            raise UsageError(
                f"--few-shot-from {text}: {benchmark.name} has no setting {key!r}.",
                f"Its settings: {known}. Or name a file: {_told_forms(benchmark)}",
            )
        return ExamplePool(benchmark, structs.replace(data, options={**plain, key: value}), text)
    if needs_no_data(benchmark):
        raise UsageError(
            f"--few-shot-from {text}: {benchmark.name} draws its samples and reads no file.",
            "Name another seed: --few-shot-from seed=1000",
        )
    if not text.startswith(HUB) and not path.exists():
        raise DataError(
            f"--few-shot-from {text}: there is no such file or folder, and it is no KEY=VALUE.",
            f"Check the path; relative paths start at {Path.cwd()}. No request was sent.",
        )
    if not text.startswith(HUB) and not (path.is_file() or path.is_dir()):
        raise DataError(
            f"--few-shot-from {text}: this is neither a file nor a folder, but a pipe or a device.",
            f"Name a pool: {_told_forms(benchmark)}",
        )
    options = {name: value for name, value in plain.items() if name != "file"}
    if registry.is_path(benchmark_name) and not benchmark_name.lower().endswith(registry.DECLARATION):
        if not registry.is_path(text):
            raise UsageError(
                f"--few-shot-from {text}: this is no table of questions, nor a folder or archive that holds one.",
                f"Name a pool: {_told_forms(benchmark)}",
            )
        return ExamplePool(registry.find(text), Data(None, data.images, options, data.seed), text)
    return ExamplePool(benchmark, structs.replace(data, path=path, options=options), text)


def _told_forms(benchmark: Benchmark) -> str:
    if needs_no_data(benchmark):
        return "--few-shot-from seed=1000 (the same questions drawn by another seed)."
    split = "--few-shot-from split=NAME, or " if "split" in benchmark.options else ""
    return f"{split}--few-shot-from FILE, with questions in the form of the tested ones."


def candidates(benchmark: Benchmark, data: Data, pool: ExamplePool, seed: int) -> PoolCandidates:
    """Return the samples of a pool that are none of the tested ones, at most 256, in an order that the seed decides.

    All tested samples count, also those beyond `--limit`, so that an extended run shows the same examples.

    Raises:
        SnellenError: the pool or the tested samples cannot be read.
    """
    ids, groups = set[str](), set[str]()
    for sample in benchmark.samples(data):
        ids.add(sample.id)
        if sample.group:
            groups.add(sample.group)
    if not (_has_ids(benchmark, data) and _has_ids(pool.benchmark, pool.data)):
        ids.clear()  # numbers of rows: equal ones say nothing
    excluded: Counter[str] = Counter()
    total = 0

    def others() -> Iterator[Sample]:
        nonlocal total
        for sample in pool.benchmark.samples(pool.data):
            total += 1
            if sample.id in ids:
                excluded["have the id of a tested sample"] += 1
            elif sample.group and sample.group in groups:
                excluded["are of the group of a tested sample"] += 1
            else:
                yield sample

    drawn = heapq.nsmallest(MOST_CANDIDATES, others(), key=lambda sample: (draw_order(seed, sample.id), sample.id))
    same = same_content(drawn, benchmark.samples(data))
    samples = []
    for number, sample in enumerate(drawn):
        if number in same:
            excluded[same[number]] += 1
        else:
            samples.append(sample)
    return PoolCandidates(tuple(samples), dict(excluded), total)


def draw_order(seed: int, *names: str) -> bytes:
    """Return the key by which names are drawn under a seed: the smallest ones are taken."""
    return blake2b("\0".join((str(seed), *names)).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _has_ids(benchmark: Benchmark, data: Data) -> bool:
    """Return False for a table without a column of ids, whose ids are numbers of rows."""
    return benchmark.table is None or benchmark.table.survey(data).rules.spec("id") is not None


CELLS = 32
"""Cells along each side of an image in which the mean colours are compared."""
LARGEST_CHANGE = 16.0
"""Of 255: JPEG at quality 30 moves the mean colour of a cell by less; another picture moves at least one cell by more."""
_LABEL = re.compile(r"^\(?[a-z0-9]{1,2}[.):]")
_END = " .,:;!?"


class _Pixels(NamedTuple):
    """Size of an image, a digest of its RGB pixels, and the mean colours of its cells."""

    size: tuple[int, int]
    digest: bytes
    cells: npt.NDArray[np.float32]


class _PoolImages:
    """Images of the drawn samples, by their bytes, by their pixels, and by size and question."""

    def __init__(self) -> None:
        self.by_bytes: dict[bytes, list[int]] = {}
        self.by_pixels: dict[bytes, list[int]] = {}
        self.sizes: set[tuple[int, int]] = set()
        self.cells: dict[tuple[tuple[int, int], bytes], list[tuple[int, npt.NDArray[np.float32]]]] = {}

    def add(self, number: int, content: bytes) -> None:
        """Take the bytes of an image or clip of the sample `number`."""
        self.by_bytes.setdefault(_digest(content), []).append(number)

    def add_pixels(self, number: int, asked: bytes, pixels: _Pixels) -> None:
        """Take the pixels of an image; `asked` names question and gold answer."""
        self.by_pixels.setdefault(pixels.digest, []).append(number)
        self.sizes.add(pixels.size)
        self.cells.setdefault((pixels.size, asked), []).append((number, pixels.cells))

    def same(self, blob: Blob, is_image: bool, asked: bytes) -> list[int]:
        """Return the samples that show an image or clip of a tested sample; an unreadable one equals nothing."""
        try:
            content = blob.read()
        except (DataError, MediaError):  # it is recorded as failed in its turn
            return []
        numbers = self.by_bytes.get(_digest(content), [])
        header = read_header(content) if is_image else None
        if numbers or header is None or header.upright_size not in self.sizes:
            return numbers
        pixels = _pixels(blob)
        if pixels is None:
            return []
        near = (
            number
            for number, cells in self.cells.get((pixels.size, asked), ())
            if abs(cells - pixels.cells).max() <= LARGEST_CHANGE
        )
        return [*self.by_pixels.get(pixels.digest, []), *near]


def same_content(drawn: list[Sample], tested: Iterable[Sample]) -> dict[int, str]:
    """Return the positions of samples that are tested ones, or that repeat an earlier one, with the reason.

    Tested images are decoded only where an image of the pool has their size.

    Args:
        drawn: samples of the pool, in the order in which they may be shown.
    """
    reasons: dict[int, str] = {}
    texts: dict[bytes, list[int]] = {}
    images = _PoolImages()
    seen: set[bytes] = set()
    for number, sample in enumerate(drawn):
        blobs = list(_blobs(sample.prompt))
        asked = _asked(sample)
        content = [_question(sample)]
        if not blobs:
            texts.setdefault(content[0], []).append(number)
        for blob, is_image in blobs:
            try:
                data = blob.read()
            except (DataError, MediaError):
                reasons[number] = "cannot be read"
                continue
            images.add(number, data)
            pixels = _pixels(blob) if is_image else None
            if pixels is not None:
                images.add_pixels(number, asked, pixels)
            elif is_image:
                reasons[number] = "cannot be read"
            content.append(_digest(data) if pixels is None else pixels.digest)
        whole = b"".join(content)
        if whole in seen:
            reasons.setdefault(number, "repeat another sample of the pool")
        seen.add(whole)
    compared: set[tuple[str, bytes]] = set()
    for sample in tested:
        blobs = list(_blobs(sample.prompt))
        asked = _asked(sample)
        if not blobs:
            for number in texts.get(_question(sample), ()):
                reasons.setdefault(number, "ask the question of a tested sample")
        for blob, is_image in blobs if images.by_bytes else ():
            if (blob.key, asked) in compared:
                continue
            compared.add((blob.key, asked))
            for number in images.same(blob, is_image, asked):
                reasons.setdefault(number, "show an image of a tested sample")
    return reasons


def _blobs(prompt: Prompt) -> Iterator[tuple[Blob, bool]]:
    """Yield the images, clips and frames of a prompt; True for an image."""
    for part in prompt.conversation_parts:
        if isinstance(part, Image):
            yield part.blob, True
        elif isinstance(part, Video):
            if part.blob is not None:
                yield part.blob, False
            yield from ((frame.blob, True) for frame in part.frames)


def _question(sample: Sample) -> bytes:
    """Return a digest of a question's lines, in the same order whatever the order of the options."""
    words = sample.prompt.words
    lines = [_plain(line) for line in words.splitlines()]
    if sample.options:
        lines = sorted(_LABEL.sub("", line) for line in lines)
    return _digest("\n".join(filter(None, lines)).encode("utf-8", "surrogatepass"))


def _plain(line: str) -> str:
    """Return a line without case, spaces, invisible characters and final punctuation."""
    folded = normalized("NFKC", line).casefold().rstrip(_END)
    return "".join(char for char in folded if not char.isspace() and unicodedata.category(char) != "Cf")


def _asked(sample: Sample) -> bytes:
    """Return a digest of question and gold answer; of a letter, the option that it stands for."""
    target = sample.target
    gold = sample.options.get(target, target) if isinstance(target, str) and sample.options else target
    return _question(sample) + _digest(_plain(str(gold)).encode("utf-8", "surrogatepass"))


def _pixels(blob: Blob) -> _Pixels | None:
    """Decode an image; None if it cannot be decoded."""
    import numpy as np
    from PIL import Image as Pillow

    try:
        opened = open_image(Image(blob), MediaSettings())
    except SnellenError:
        return None
    colours = opened.convert("RGB")
    small = colours.resize((min(CELLS, colours.width), min(CELLS, colours.height)), Pillow.Resampling.BOX)
    digest = _digest(f"{opened.size}".encode() + colours.tobytes())
    return _Pixels(opened.size, digest, np.asarray(small, dtype=np.float32))


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
