"""Token prices from a file of the user's, because prices change and none are built in."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.errors import UsageError
from snellen.sources.safe_paths import missing_hint


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens. `cached_input` is for input read from the server's cache; None: as `input`."""

    input: float
    output: float
    cached_input: float | None = None

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Return US dollars for one request. Cached tokens are part of the input, reasoning tokens part of the output."""
        cached = min(cached_tokens, input_tokens)
        cached_price = self.input if self.cached_input is None else self.cached_input
        return ((input_tokens - cached) * self.input + cached * cached_price + output_tokens * self.output) / 1e6


def load_price(path: str | Path, model: str) -> Price:
    """Return the price of one model from a TOML or JSON file of {model: {input, output, cached_input}}.

    Raises:
        UsageError: no such file, not of that form, a negative price, or the model is not in it.
    """
    path = Path(path)
    form = "a table per model with input and output, in US dollars per million tokens"
    try:
        data = path.read_bytes()
        decode = msgspec.json.decode if path.suffix == ".json" else msgspec.toml.decode
        prices = decode(data, type=dict[str, Price])
    except OSError as error:
        raise UsageError(f"cannot read the price file {path}: {error.strerror}", missing_hint(Path(path))) from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f"the price file {path} is not as expected: {error}", f"It must hold {form}.") from None
    price = prices.get(model)
    if price is None:
        suggestions = get_close_matches(model, prices, n=3)
        hint = f"It knows {', '.join(suggestions)}." if suggestions else f"It must hold {form}."
        raise UsageError(f"the price file {path} has no price for {model!r}.", hint)
    if min(price.input, price.output, price.cached_input or 0.0) < 0:
        raise UsageError(f"the price file {path} has a negative price for {model!r}.", f"It must hold {form}.")
    return price
