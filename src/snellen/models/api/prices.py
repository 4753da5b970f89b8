"""Prices of tokens: a dated table in the package (prices.toml), and price files of the user's, which come first.

Prices change. Every built-in row names its day and its source, and what shows a cost asks to check it.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from snellen.errors import UsageError
from snellen.models.image_tokens import ImageRule
from snellen.sources.safe_paths import missing_hint
from snellen.types import Usage

PROVIDERS = ("openai", "anthropic", "gemini")
"""Providers with rows in prices.toml. Each is a kind of model too."""
_HOSTS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
}
_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|20\d{6}|latest)$")
_DEAREST = 1_000_000_000
"""Largest number in a price file; a larger one is a slip, and its cost may be no finite number."""
_FORM = "a table per model with input and output, in US dollars per million tokens"


class LongPrompt(Struct, frozen=True, forbid_unknown_fields=True):
    """Prices of a whole request whose input is longer than `above` tokens."""

    above: int
    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens.

    Attributes:
        input, output: of every token; the output holds the thinking.
        cached_input: of input read from the server's cache; None: as `input`.
        cache_write: of input written to the server's cache; None: as `input`.
        cache_write_1h: of input written to it for an hour; None: as `cache_write`.
        batch: share of the price that a batch costs, 0 to 1; None: unknown.
        images: name of the rule for images in prices.toml; None: unknown.
        long: prices of requests with a long input; None: the same.
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    batch: float | None = None
    images: str | None = None
    long: LongPrompt | None = None
    cache_write_1h: float | None = None

    def cost(
        self,
        input_tokens: int,
        output_tokens: int,
        cached_tokens: int = 0,
        written_tokens: int = 0,
        written_1h_tokens: int = 0,
        *,
        batch: bool = False,
    ) -> float:
        """Return US dollars for one request.

        Cached tokens and those written to the cache are part of the input, reasoning tokens part of the output.

        Args:
            input_tokens, output_tokens: of one request.
            cached_tokens, written_tokens: input that the server read from its cache, and wrote to it.
            written_1h_tokens: part of `written_tokens` that it wrote for an hour.
            batch: the request was part of a batch; without a known factor it costs the full price.
        """
        price = self.long if self.long is not None and input_tokens > self.long.above else self
        cached = min(cached_tokens, input_tokens)
        written = min(written_tokens, input_tokens - cached)
        cached_price = price.input if price.cached_input is None else price.cached_input
        write_price = price.input if price.cache_write is None else price.cache_write
        hour = min(written_1h_tokens, written)
        hour_price = write_price if price.cache_write_1h is None else price.cache_write_1h
        plain, brief = input_tokens - cached - written, written - hour
        dollars = plain * price.input + cached * cached_price + brief * write_price + hour * hour_price
        dollars += output_tokens * price.output
        return dollars / 1e6 * (1.0 if not batch or self.batch is None else self.batch)

    def usage_cost(self, usage: Usage, *, batch: bool = False) -> float:
        """Return US dollars for the recorded usage of one request."""
        cached, written, hour = usage.cached_tokens, usage.cache_write_tokens, usage.cache_write_1h_tokens
        return self.cost(usage.input_tokens, usage.output_tokens, cached, written, hour, batch=batch)

    def cache_saved(self, usage: Usage, *, batch: bool = False) -> float | None:
        """Return US dollars that the server's cache saved of a request; None where it was not used, or has no price here."""
        price = self.long if self.long is not None and usage.input_tokens > self.long.above else self
        if price.cached_input is None or not (usage.cached_tokens or usage.cache_write_tokens):
            return None
        plain = self.cost(usage.input_tokens, usage.output_tokens, batch=batch)
        return plain - self.usage_cost(usage, batch=batch)

    def image_rule(self, detail: str | None = None) -> ImageRule | None:
        """Return the rule for images at this `--detail`; None: unknown."""
        rule = None if self.images is None else _table().images.get(self.images)
        if rule is None or detail is None or detail not in rule.details:
            return rule
        return _table().images.get(rule.details[detail])


class PriceSource(Struct, frozen=True):
    """Origin of a price.

    Attributes:
        model: the name under which the row stands.
        day: when it was read; None for a file of the user's.
        source: the address it was read from, or the file.
        confirmed: read from the provider's own page, or written by the user.
        until: the last day on which it holds, where the provider named one.
    """

    model: str
    source: str
    day: dt.date | None = None
    confirmed: bool = True
    until: dt.date | None = None

    @property
    def text(self) -> str:
        """Format for a reader: where the price comes from, and what to think of it."""
        if self.day is None:
            return f"price of {self.model} from {self.source}"
        words = f"price of {self.model} as read on {self.day} from {self.source}"
        if not self.confirmed:
            words += ", not confirmed on the provider's own page"
        if self.until is not None:
            ended = "ended" if self.until < dt.datetime.now(tz=dt.UTC).date() else "ends"
            words += f"; it {ended} on {self.until}"
        return words


class FoundPrice(Struct, frozen=True):
    """A price and its origin."""

    price: Price
    origin: PriceSource


class _PriceRow(Struct, frozen=True, forbid_unknown_fields=True):
    provider: str
    model: str
    input: float
    output: float
    day: dt.date
    source: str
    confirmed: bool
    cached_input: float | None = None
    cache_write: float | None = None
    images: str | None = None
    long: LongPrompt | None = None
    until: dt.date | None = None


class _Factor(Struct, frozen=True, forbid_unknown_fields=True):
    factor: float
    day: dt.date
    source: str
    confirmed: bool


class _PriceTable(Struct, frozen=True, forbid_unknown_fields=True):
    models: tuple[_PriceRow, ...]
    batch: Mapping[str, _Factor]
    cache_write_1h: Mapping[str, _Factor]
    images: Mapping[str, ImageRule]


def find_price(provider: str | None, model: str, prices: str | Path | None = None) -> FoundPrice | None:
    """Return the price of a model: from the user's file, else from the table of the package; None if neither has it.

    Args:
        provider: openai, anthropic or gemini; None: another service, of which the table has no prices.
        model: its name, without kind and provider.
        prices: a price file; its rows come before those of the table.

    Raises:
        UsageError: there is no such file, it is not of that form, or nothing has a price for the model.
    """
    built_in = None if provider is None else _built_in(provider, model)
    if prices is None:
        return built_in
    table = _read_file(Path(prices))
    if model not in table and built_in is not None:
        return built_in
    price = _named(table, Path(prices), model)
    if built_in is not None:  # the user wrote prices; the rules of the service are not theirs
        price = msgspec.structs.replace(
            price, images=price.images or built_in.price.images, batch=_or(price.batch, built_in.price.batch)
        )
    return FoundPrice(price, PriceSource(model, str(prices)))


def load_price(path: str | Path, model: str) -> Price:
    """Return the price of one model from a TOML or JSON file of {model: {input, output, cached_input, ...}}.

    Raises:
        UsageError: no such file, not of that form, a price that is none, or the model is not in it.
    """
    return _named(_read_file(Path(path)), Path(path), model)


def provider_of(kind: str, base_url: str | None) -> str | None:
    """Return the provider whose prices hold: that of the kind of model, or of the host that an `api:` or `tools:` model asks; None: another.

    Args:
        kind: what stands before the colon in `--model`.
        base_url: the address that is asked; None: unknown.
    """
    if kind in PROVIDERS:
        return kind
    if kind not in ("api", "tools") or base_url is None:
        return None
    try:
        return _HOSTS.get(urlsplit(base_url).hostname or "")
    except ValueError:
        return None


def known_models(provider: str) -> list[str]:
    """Return the models of a provider that the table has prices of, by name."""
    return sorted(row.model for row in _table().models if row.provider == provider)


def _built_in(provider: str, model: str) -> FoundPrice | None:
    rows = {row.model: row for row in _table().models if row.provider == provider}
    row = rows.get(model) or rows.get(_DATED.sub("", model))
    if row is None:
        return None
    batch, hour = _table().batch.get(provider), _table().cache_write_1h.get(provider)
    price = Price(
        row.input,
        row.output,
        row.cached_input,
        row.cache_write,
        None if batch is None else batch.factor,
        row.images,
        row.long,
        None if hour is None else row.input * hour.factor,
    )
    return FoundPrice(price, PriceSource(row.model, row.source, row.day, row.confirmed, row.until))


LARGEST_FILE = 8 << 20
"""Bytes of a price file: a device or a wrong file must not fill memory."""


@cache
def _table() -> _PriceTable:
    text = resources.files("snellen.models").joinpath("prices.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _PriceTable)


def _read_file(path: Path) -> dict[str, Price]:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise ValueError(f"it is larger than {LARGEST_FILE:,} bytes")
        if path.suffix == ".json":
            return msgspec.json.decode(data, type=dict[str, Price])
        from snellen.toml_text import parse_toml

        return msgspec.convert(parse_toml(data.decode()), dict[str, Price])
    except OSError as error:
        raise UsageError(f"cannot read the price file {path}: {error.strerror}", missing_hint(path)) from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f"the price file {path} is not as expected: {error}", f"It must hold {_FORM}.") from None


def _named(table: Mapping[str, Price], path: Path, model: str) -> Price:
    price = table.get(model)
    if price is None:
        suggestions = get_close_matches(model, table, n=3)
        hint = f"It knows {', '.join(suggestions)}." if suggestions else f"It must hold {_FORM}."
        raise UsageError(f"the price file {path} has no price for {model!r}.", hint)
    long = price.long
    numbers = [price.input, price.output, price.cached_input, price.cache_write, price.cache_write_1h, price.batch]
    if long is not None:
        numbers += [long.above, long.input, long.output, long.cached_input, long.cache_write, long.cache_write_1h]
    if not all(number is None or 0 <= number <= _DEAREST for number in numbers):
        raise UsageError(
            f"the price file {path} has a price for {model!r} that is not from 0 to {_DEAREST:,}.",
            f"It must hold {_FORM}.",
        )
    if price.batch is not None and price.batch > 1:
        raise UsageError(
            f"the price file {path} has batch = {price.batch:g} for {model!r}.",
            "Write the share of the price that a batch costs, 0 to 1, such as 0.5.",
        )
    if price.images is not None and price.images not in _table().images:
        raise UsageError(
            f"the price file {path} names the image rule {price.images!r} for {model!r}, which does not exist.",
            f"Rules: {', '.join(_table().images)}.",
        )
    return price


def _or(value: float | None, other: float | None) -> float | None:
    return other if value is None else value
