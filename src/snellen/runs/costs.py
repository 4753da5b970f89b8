"""Costs: the estimate for a run, made without a request, and the cost of a finished run from its recorded usage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark
from snellen.engine.final_records import final_records
from snellen.engine.fingerprint import require_same, settings_identity
from snellen.engine.resume import samples_of
from snellen.engine.retry import checked_reply
from snellen.engine.run_folder import RunFolder, RunSpec, Totals
from snellen.errors import SnellenError, UsageError
from snellen.media.decode import fitted, read_header
from snellen.media.sampling import shown_at_most
from snellen.models.api.endpoint import parse_endpoint
from snellen.models.api.prices import FoundPrice, Price, PriceSource, find_price, provider_of
from snellen.models.base import effective
from snellen.models.image_tokens import TOKENS_OF_UNKNOWN_SIZE, ImageRule, rough_tokens
from snellen.types import Generation, Image, MediaSettings, Metric, Prompt, Text, Video

CHARACTERS = 4
"""Characters of English text in a token, roughly."""


class Estimate(Struct, frozen=True):
    """Estimate for one benchmark and model, before any request.

    Attributes:
        benchmark, model, folder: of the run.
        questions: requests in all, repeats included.
        answered: of these, how many the run's folder has an answer to.
        images, videos: in the prompts of the questions that are left.
        input_tokens: estimated, of the questions that are left.
        output_tokens: at most, where replies are limited; None where they are not.
        cost: in US dollars, with every reply at its limit, or without any output where there is no limit; None without a
            price.
        unreadable: questions whose images cannot be read.
        grows: further questions follow from the answers, and are not counted.
        image_tokens: part of `input_tokens` that images and frames take.
        batch_cost: as `cost`, sent as a batch; None where no price of batches is known.
        price: origin of the price; None without one.
        image_rule: how the service counts images; None where only a rough figure is known.
        expected, most: questions that are expected in all, and at most; None where nothing tells.
    """

    benchmark: str
    model: str
    folder: str
    questions: int
    answered: int
    images: int
    videos: int
    input_tokens: int
    output_tokens: int | None
    cost: float | None
    unreadable: int
    grows: bool = False
    image_tokens: int = 0
    batch_cost: float | None = None
    price: PriceSource | None = None
    image_rule: ImageRule | None = None
    expected: int | None = None
    most: int | None = None


class Cost(Struct, frozen=True):
    """Cost of recorded answers: US dollars and number of answers; `without` have no recorded usage.

    `uncounted` answers have half of it, as `Totals.uncounted` counts them.
    """

    dollars: float
    answers: int
    without: int
    uncounted: Mapping[str, int] = {}

    @property
    def whole(self) -> bool:
        return not (self.without or self.uncounted)


ImageSize: TypeAlias = Callable[[Image], tuple[tuple[int, int] | None, bool]]
"""Returns the pixels of an image, None where they are unknown; and whether it can be read."""


def image_size(image: Image) -> tuple[tuple[int, int] | None, bool]:
    """Read the header of an image; see ImageSize."""
    if getattr(image.blob, "url", None):
        return None, True
    try:
        if (pixels := getattr(image.blob, "pixels", None)) is not None:
            return pixels, True
        header = read_header(image.blob.read())
    except SnellenError:
        return None, False
    return (None, True) if header is None else (header.upright_size, True)


class PromptTotals:
    """Totals over prompts before they are sent: images, videos, estimated tokens, and their cost.

    Args:
        generation, media: settings of the model.
        size: reads the size of an image.
        price: of the model's tokens, with the rule by which it counts images; None: unknown.
        detail: `--detail` of the run, which changes the rule at some services.

    Attributes:
        images, videos, input_tokens: of all requests.
        image_tokens: part of the input tokens that images and frames take.
        output_tokens: at most, where replies are limited; None where they are not.
        unreadable: samples with an image that cannot be read.
        cost: US dollars with every reply at its limit, or without output where there is no limit; None without a price.
        batch_cost: the same, sent as a batch; None where no price of batches is known.
    """

    def __init__(
        self,
        generation: Generation,
        media: MediaSettings,
        size: ImageSize = image_size,
        *,
        price: Price | None = None,
        detail: str | None = None,
    ) -> None:
        self._generation, self._media, self._image_size = generation, media, size
        self._price = price
        self._rule = None if price is None else price.image_rule(detail)
        self.images = self.videos = self.input_tokens = self.image_tokens = self.unreadable = 0
        self.output_tokens: int | None = 0
        self._usual, self._long = (
            [0, 0],
            [0, 0],
        )  # input and output tokens, of requests at the usual price and of long ones

    @property
    def cost(self) -> float | None:
        """Return the cost; None without a price."""
        if self._price is None:
            return None
        usual, long = structs.replace(self._price, long=None), self._price.long
        return usual.cost(*self._usual) + (0.0 if long is None else Price(long.input, long.output).cost(*self._long))

    @property
    def batch_cost(self) -> float | None:
        """Return the cost as a batch; None where no price of batches is known."""
        cost = self.cost
        return None if self._price is None or self._price.batch is None or cost is None else cost * self._price.batch

    def add(self, prompt: Prompt, requests: int = 1) -> None:
        """Add a prompt that is sent this many times."""
        characters, tokens, readable = len(prompt.system), 0, True
        for part in prompt.conversation_parts:
            if isinstance(part, Text):
                characters += len(part.text)
            elif isinstance(part, Video):
                tokens += self._tokens_of(None) * shown_at_most(part, self._media)
                self.videos += requests
            else:
                size, can_read = self._image_size(part)
                readable &= can_read
                tokens += self._tokens_of(None if size is None else fitted(*size, self._media))
                self.images += requests
        input_tokens = tokens + -(-characters // CHARACTERS)
        self.input_tokens += requests * input_tokens
        self.image_tokens += requests * tokens
        self.unreadable += not readable
        limit = effective(self._generation, prompt.generation).max_tokens
        if limit is None or self.output_tokens is None:
            self.output_tokens = None
        else:
            self.output_tokens += requests * limit
        long = None if self._price is None else self._price.long
        group = self._usual if long is None or input_tokens <= long.above else self._long
        group[0] += requests * input_tokens
        group[1] += requests * (limit or 0)

    def _tokens_of(self, size: tuple[int, int] | None) -> int:
        if self._rule is None:
            return TOKENS_OF_UNKNOWN_SIZE if size is None else rough_tokens(*size)
        return self._rule.count(*size) if size is not None else self._rule.tokens or TOKENS_OF_UNKNOWN_SIZE


def estimated(spec: RunSpec, benchmark: Benchmark, folder: RunFolder) -> Estimate:
    """Estimate a run: make its prompts, read the headers of its images, send nothing.

    Raises:
        SnellenError: the data cannot be read, or the price file has no price for the model.
        FingerprintError: the folder holds a run with other settings, which the run itself would refuse too.
    """
    if folder.exists():
        require_same(folder, {**folder.meta().identity, **settings_identity(spec, benchmark)})
    known = price_of(spec.model, spec.options.base_url, spec.options.prices)
    price = None if known is None else known.price
    done = _answered(folder)
    questions = answered = 0
    totals = PromptTotals(spec.options.generation, spec.options.media, price=price, detail=spec.options.detail)
    for sample in samples_of(benchmark, spec):
        unanswered = sum((sample.id, repeat) not in done for repeat in range(spec.repeats))
        questions += spec.repeats
        answered += spec.repeats - unanswered
        if unanswered:
            totals.add(sample.prompt, unanswered)
    forecast = None if benchmark.forecast is None else benchmark.forecast(spec.data)
    return Estimate(
        benchmark.name,
        spec.model,
        str(folder.path),
        questions,
        answered,
        totals.images,
        totals.videos,
        totals.input_tokens,
        totals.output_tokens,
        totals.cost,
        totals.unreadable,
        benchmark.grow is not None,
        totals.image_tokens,
        totals.batch_cost,
        None if known is None else known.origin,
        None if price is None else price.image_rule(spec.options.detail),
        *(() if forecast is None else (_limited(forecast.expected, spec.limit), _limited(forecast.most, spec.limit))),
    )


def _limited(questions: int, limit: int | None) -> int:
    return questions if limit is None else min(questions, limit)


def price_of(model: str, base_url: str | None = None, prices: str | Path | None = None) -> FoundPrice | None:
    """Return the price of a model, from a price file or the table of the package; None: unknown.

    Args:
        model: KIND:NAME.
        base_url: the address of an `api:` model; None: that of the environment, else OpenAI's.
        prices: a price file.

    Raises:
        UsageError: the price file cannot be used, or has no price for the model and the table has none either.
    """
    kind = model.partition(":")[0]
    address = str(parse_endpoint(base_url)) if kind in ("api", "tools") else None
    return find_price(provider_of(kind, address), priced_name(model), prices)


def recorded(folder: RunFolder, prices: str | Path) -> Cost:
    """Compute the cost of a run's recorded answers at these prices; of answers by batch, at the price of a batch.

    As before a run, a file without the share that a batch costs has that of the model's provider.

    Raises:
        UsageError: the price file has no price for the run's model and the table has none either, or no answer has
            recorded usage.
    """
    meta = folder.meta()
    model, identity = meta.spec.model, meta.identity.get("model")
    address = identity.get("base_url") if isinstance(identity, Mapping) else None
    provider = provider_of(model.partition(":")[0], address if isinstance(address, str) else None)
    known = find_price(provider, priced_name(model), prices)
    if known is None:
        raise UsageError(f"no price is known for {model!r}", "Add the model to the price file.")
    price = known.price
    dollars, answers, without = 0.0, 0, 0
    uncounted: Counter[str] = Counter()
    for record in final_records(folder.results):
        if record.response is None:
            continue
        usage = checked_reply(record.response).usage  # an older version did not look for a missing half
        answers += 1
        if record.response.cached_answer:  # nothing was sent for it
            continue
        if usage.input_tokens or usage.output_tokens:
            dollars += price.usage_cost(usage, batch=bool(record.response.batch))
            uncounted[usage.lacks] += bool(usage.lacks)
        else:
            without += 1
    if answers and without == answers:
        raise UsageError(
            f"{folder.path}: no answer has recorded usage, so that its cost is unknown",
            "Omit --prices. Answers of other programs and of some servers come without token counts.",
        )
    return Cost(dollars, answers, without, +uncounted)


def sentence(cost: Cost, per_correct: float | None = None) -> str:
    """Format the cost for a reader of a score, with that of a correct answer where it is known."""
    if cost.uncounted:
        lacks = {**cost.uncounted, **({"cost": cost.without} if cost.without else {})}
        return f"cost at least ${dollars_text(cost.dollars)}: {_lacks_text(lacks)}"
    omitted = f"; {cost.without:,} more have no recorded usage" if cost.without else ""
    share = "" if per_correct is None else f"; ${dollars_text(per_correct)} per correct answer"
    return (
        f"cost ${cost.dollars:.4f}, from the recorded usage of {cost.answers - cost.without:,} answers{omitted}{share}"
    )


def saved_text(totals: Totals) -> str:
    """Format what the service's cache of prompts saved, for the end of a cost; "" where that is not known."""
    if not totals.cache_saved:
        return ""
    verb = "saved" if totals.cache_saved > 0 else "added"
    return f", ${dollars_text(abs(totals.cache_saved))} {verb} by the service's cache"


def cost_per_correct(totals: Totals, headline: Metric | None) -> float | None:
    """Return US dollars per correct answer: the cost over the headline's share of all answers, failures included.

    None without a whole cost, without a headline that is a share, and where nothing is correct.
    """
    if totals.cost is None or totals.uncounted or headline is None or headline.unit != "fraction" or not headline.value:
        return None
    return totals.cost / (headline.value * totals.recorded) if totals.recorded else None


def cost_text(totals: Totals, headline: Metric | None) -> str:
    """Format the cost of a run, and of a correct answer; empty without a cost."""
    if totals.cost is None:
        return ""
    if totals.uncounted:
        return f"at least ${dollars_text(totals.cost)}: {_lacks_text(totals.uncounted)}"
    share = cost_per_correct(totals, headline)
    per_correct = "" if share is None else f", ${dollars_text(share)} per correct answer"
    return f"${totals.cost:.4f}{per_correct}{saved_text(totals)}"


def least_mark(totals: Totals) -> str:
    """Return the sign before a cost in a narrow column that is the least it can be: `≥ `; "" for a whole one."""
    return "≥ " if totals.uncounted else ""


def _lacks_text(uncounted: Mapping[str, int]) -> str:
    """Describe what of a cost is not known: `the output tokens of 1 answer are missing`."""
    kinds = {"input": "the input tokens of {} are missing", "output": "the output tokens of {} are missing"}
    return ", ".join(
        kinds.get(part, "the cost of {} is not known").format("1 answer" if count == 1 else f"{count:,} answers")
        for part, count in sorted(uncounted.items(), reverse=True)
    )


def dollars_text(dollars: float) -> str:
    """Format US dollars with three digits that count, never with an exponent: `0.0000224`."""
    return format(Decimal(f"{dollars:.3g}"), "f")


def priced_name(model: str) -> str:
    """Return the model's name as a price file has it."""
    return model.partition(":")[2] or model


def _answered(folder: RunFolder) -> set[tuple[str, int]]:
    if not folder.results.is_file():
        return set()
    return {
        (record.sample_id, record.repeat) for record in final_records(folder.results) if record.response is not None
    }
