"""What a plug-in declares and returns, checked by type: a benchmark's fields, and the metrics of its summary."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from snellen.benchmarks.plugin_samples import checked_samples, described
from snellen.errors import PluginError
from snellen.plugin_errors import is_foreign
from snellen.types import IntervalMethod, Metric, Sample

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark

_MAPPINGS = {
    "profiles": "{'strict': 'what it reads'}",
    "options": "{'top': 'the largest number'}",
    "about": "{'licence': 'MIT'}",
    "variables": "{'DATA_ZIP': 'data'}",
    "places": "{'data': ('data/*.jsonl',)}",
    "study": "{}",
    "exports": "{'sheet': write}",
}
_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "summarize": ("scores", "profile"),
    "size": ("data",),
    "digest": ("data",),
    "files": ("data",),
    "reading": ("data",),
    "notices": ("data",),
    "headline": ("metrics",),
    "details": ("scores", "profile", "model"),
    "tables": ("fields",),
    "rubric": ("sample",),
    "judged_text": ("sample", "reply"),
    "ruled_correct": ("sample", "reply"),
    "gold": ("data", "digest"),
    "grow": ("data", "answers"),
    "sample": ("data", "id"),
    "forecast": ("data",),
    "groups": ("data",),
    "with_media": ("data", "media"),
    "gold_reply": ("sample",),
    "results": ("path", "data", "problems"),
}
_OPTIONAL = {"headline", "details", "tables", "rubric", "judged_text", "ruled_correct", "grow", "sample", "forecast"}
_OPTIONAL |= {"groups", "with_media", "gold_reply", "results"}
_TEXTS = ("cluster", "examples", "unanswered")


def require_declared(benchmark: Benchmark) -> None:
    """Raise TypeError for a field of a plug-in's declaration that has a wrong type."""
    name = benchmark.name
    for field, example in _MAPPINGS.items():
        value = getattr(benchmark, field)
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise TypeError(f"{name}: {field} is {value!r}; a dict was expected: write {field}={example}")
    for field in ("profiles", "options"):
        for key, text in getattr(benchmark, field).items():
            if not isinstance(text, str):
                raise TypeError(f"{name}: {field}[{key!r}] is {text!r}; a text was expected")
    for profile, scorer in benchmark.score.items():
        if scorer is not None:  # the first reply that is scored names it
            _require_function(name, f"score[{profile!r}]", scorer, ("sample", "reply"))
    for field, arguments in _FUNCTIONS.items():
        value = getattr(benchmark, field)
        if value is not None or field not in _OPTIONAL:
            _require_function(name, field, value, arguments)
    for field in _TEXTS:
        if not isinstance(value := getattr(benchmark, field), str):
            raise TypeError(f"{name}: {field} is {value!r}; a text was expected")
    if not isinstance(benchmark.restricted, bool):
        raise TypeError(f"{name}: restricted is {benchmark.restricted!r}; True or False was expected")


def _require_function(name: str, field: str, function: Any, arguments: tuple[str, ...]) -> None:
    """Raise TypeError for what cannot be called with these arguments; what has no signature is left to the call."""
    if not callable(function):
        raise TypeError(
            f"{name}: {field} is {function!r}; a function was expected: def function({', '.join(arguments)})"
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        called = getattr(function, "__qualname__", repr(function))
        raise TypeError(
            f"{name}: {field} is {called}{signature}, which cannot be called as {field}({', '.join(arguments)}): {error}"
        ) from None


_TYPE_NAMES: dict[type, str] = {type(None): "None", Sequence: "a list", str: "a text", int: "a whole number"}


class CheckedHook:
    """A function that a plug-in declares: it returns what the plug-in's does, and raises PluginError for a wrong type."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        types: tuple[type, ...],
        check: Callable[[Sample], None] | None = None,
    ) -> None:
        """Take the function, its name for messages, the types that it may return, and a check of each sample in that."""
        self.function = function
        self._name, self._types, self._check = name, types, check

    def __call__(self, *arguments: Any) -> Any:
        value: Any = self.function(*arguments)
        if not isinstance(value, self._types) or (isinstance(value, str) and str not in self._types):
            raise PluginError(
                f"{self._name} returned {described(value)}",
                f"Return {' or '.join(_TYPE_NAMES.get(each, each.__name__) for each in self._types)}.",
            )
        if self._check is not None:
            samples: Sequence[Any] = [value] if isinstance(value, Sample) else value  # type: ignore[assignment]
            for sample in samples:
                if isinstance(sample, Sample):
                    self._check(sample)
        return value


def checked_hooks(benchmark: Benchmark, types: Mapping[str, type]) -> dict[str, CheckedHook]:
    """Return the functions of a plug-in's declaration, each with a check of what it returns; `types` are those of `base`."""
    from snellen.scoring.rubric import Rubric

    nothing = type(None)
    returned: dict[str, tuple[type, ...]] = {
        "size": (int, nothing),
        "digest": (str,),
        "reading": (types["reading"], nothing),
        "headline": (types["headline"], nothing),
        "details": (types["details"],),
        "gold": (str,),
        "forecast": (types["forecast"],),
        "groups": (int,),
        "files": (Sequence,),
        "notices": (Sequence,),
        "tables": (Sequence,),
        "rubric": (Rubric, nothing),
        "judged_text": (types["judged_text"], nothing),
        "gold_reply": (str, nothing),
        "grow": (Sequence,),
        "sample": (Sample,),
    }
    check = checked_samples(benchmark).check
    hooks = {field: getattr(benchmark, field) for field in returned}
    return {
        field: CheckedHook(
            hook, f"{benchmark.name}: {field}", returned[field], check if field in ("grow", "sample") else None
        )
        for field, hook in hooks.items()
        if hook is not None and not isinstance(hook, CheckedHook) and is_foreign(hook)
    }


_FIELDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "value": (float, int, type(None)),
    "n": (int,),
    "unit": (str,),
    "coverage": (float, int),
    "chance": (float, int, type(None)),
    "interval": (IntervalMethod, type(None)),
    "lower_is_better": (bool,),
}


def require_metrics(benchmark: Benchmark, profile: str, metrics: Any) -> list[Metric]:
    """Return the metrics that a benchmark's `summarize` returned, with numpy's numbers as Python's.

    Raises:
        PluginError: something else was returned, or a field of a metric has a wrong type.
    """
    who = f"{benchmark.name}: {getattr(benchmark.summarize, '__qualname__', 'summarize')}"
    if metrics is None or isinstance(metrics, Metric | str | Mapping) or not hasattr(metrics, "__iter__"):
        raise PluginError(
            f"{who} returned {described(metrics)}, for the profile {profile!r}; a list of Metric was expected",
            "Return [Metric('accuracy', value, n)], or declare summarize=accuracy().",
        )
    return [_plain_metric(who, metric) for metric in metrics]


def _plain_metric(who: str, metric: Any) -> Metric:
    if not isinstance(metric, Metric):
        raise PluginError(
            f"{who} returned a list with {described(metric)}; a Metric was expected",
            "Return [Metric('accuracy', value, n)].",
        )
    plain: dict[str, Any] = {}
    for field, types in _FIELDS.items():
        value = getattr(metric, field)
        number = plain_number(value)
        if number is not value:
            plain[field] = value = number
        if not isinstance(value, types):
            wanted = " or ".join("None" if each is type(None) else each.__name__ for each in types)
            raise PluginError(
                f"{who} returned a Metric {metric.name!r} whose {field} is {value!r}; expected {wanted}",
                "Return [Metric('accuracy', value, n)].",
            )
    ends: Any = metric.ci95
    if ends is not None:
        usable = isinstance(ends, tuple | list) and len(ends) == 2
        numbers = [plain_number(end) for end in ends] if usable else []
        if not usable or not all(isinstance(end, int | float) for end in numbers):
            raise PluginError(
                f"{who} returned a Metric {metric.name!r} whose ci95 is {ends!r}; expected (low, high)",
                "Return Metric('accuracy', value, n, ci95=(low, high)), or omit ci95.",
            )
        if any(type(end) is not type(number) for end, number in zip(ends, numbers, strict=True)):
            plain["ci95"] = (numbers[0], numbers[1])
    return structs.replace(metric, **plain) if plain else metric


def plain_number(value: Any) -> Any:
    """Return a number of numpy's as Python's own; anything else as it is."""
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    return value
