"""Caveats about a run's scores, for its page and for files made from it, in one wording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark
from snellen.engine.run_folder import RunMeta
from snellen.engine.subset import ESTIMATE, asked_text
from snellen.media.sampling import frames_rule
from snellen.models.api.prices import provider_of
from snellen.models.api.reply import CALLS, MEMBER, THOUGHTS
from snellen.models.api.services import PROVIDERS, service
from snellen.runs.coordinates import coordinates_line
from snellen.runs.status import ENDED
from snellen.types import NOWHERE, THINKING_ALONE, Generation, MediaSettings

DIGEST_SHOWN = len("sha256:") + 12
GOLD_HELD_BACK = "The gold answers of this benchmark are restricted and not shown."


class Caveat(NamedTuple):
    """One caveat, without a capital and a full stop, and its subject, for places with room for a few."""

    about: Literal["part", "state", "lost", "cut", "empty", "pictures", "repeats", "version", "origin", "data", "space"]
    text: str


def caveats(meta: RunMeta, benchmark: Benchmark | None = None, *, state: str, name: str = "run") -> Iterator[Caveat]:
    """Yield the caveats in a run's meta; none for a complete run with usual settings.

    Args:
        meta: the run's.
        benchmark: the one that scores it now; None: its version is not looked at.
        state: how the run stands now (runs.status.present_state); a killed run's meta still says `running`.
        name: what the run is called beside another one.
    """
    coverage, totals, media = meta.coverage, meta.totals, meta.spec.options.media
    if not coverage.full:
        yield Caveat("part", f"{coverage.part} were run")
    if (subset := meta.spec.subset) is not None:
        chosen = asked_text(meta.spec, totals.recorded, ended=state == "complete")
        yield Caveat("part", f"{chosen}: {ESTIMATE} estimates the score on all from {len(subset.models)} other models")
    if meta.not_there:
        size = coverage.of or 0
        subject = "replies were available to judge" if meta.judges else "samples could be read from the data"
        yield Caveat("part", f"only {size - meta.not_there:,} of {size:,} {subject}")
    if meta.truncated is not None:
        there, known = meta.truncated
        yield Caveat("part", f"the data has only {there:,} of the {known:,} rows that are known of the set")
    if state not in ENDED:
        yield Caveat("state", f"the {name} is incomplete ({state})")
    if lost := totals.error + totals.timeout:
        yield Caveat(
            "lost",
            f"{lost:,} samples of the {name} have no answer"
            + ("" if benchmark is None else f" and {benchmark.unanswered}"),
        )
    if text := cut_off(meta):
        yield Caveat("cut", text)
    if text := empty_replies(meta):
        yield Caveat("empty", text)
    if media.blank:
        yield Caveat("pictures", "blind control: every image was replaced by a grey one")
    elif scaled := _scaled_by_service(meta):
        yield Caveat("pictures", scaled)
    if media.corrupt:
        yield Caveat("pictures", f"every image was corrupted ({media.corrupt})")
    if meta.spec.repeats > 1:
        yield Caveat("repeats", f"each sample was asked {meta.spec.repeats} times; scores are means over the replies")
    if meta.imported is not None:
        digest = str(meta.imported.get("digest"))[:DIGEST_SHOWN]
        how = "a person gave them" if meta.human else "how the model was asked is unknown"
        yield Caveat("origin", f"the answers were imported from {meta.imported.get('file')} ({digest}…): {how}")
    if line := coordinates_line(meta.spec):
        yield Caveat("space", line)
    if meta.reading:
        yield Caveat("data", meta.reading)
    made_with = meta.identity.get("benchmark_version")
    if benchmark is not None and made_with is not None and made_with != benchmark.version:
        yield Caveat(
            "version", f"the run was made with version {made_with} of {benchmark.name}; this is {benchmark.version}"
        )


def cut_off(meta: RunMeta, *, with_remedy: bool = True) -> str:
    """Return how many replies were cut off at the limit of their tokens, and the option of `run`; "" without any.

    `with_remedy` adds the option of `snellen run` that raises the limit; plans and `easi` set it elsewhere.
    """
    totals, limit = meta.totals, meta.spec.options.generation.max_tokens
    if not totals.cut_off:
        return ""
    current = "" if limit is None else f" (--max-tokens {limit})"
    remedy = "" if meta.imported or not with_remedy else "; raise it in a new run: --max-tokens N --out NAME"
    return f"{totals.cut_off:,} of {totals.done:,} replies were cut off at the token limit{current}{remedy}"


def reply_faults(meta: RunMeta, *, with_remedy: bool = True) -> list[str]:
    """List what is wrong with a run's replies before they are read: those that were cut off, and those that say nothing."""
    return [text for tell in (cut_off, empty_replies) if (text := tell(meta, with_remedy=with_remedy))]


def empty_replies(meta: RunMeta, *, with_remedy: bool = True) -> str:
    """Return how many replies say nothing, where their text stands, and what to set; "" without any.

    `with_remedy` adds the option of `snellen run` that begins a new run, as for `cut_off`.
    """
    empty = meta.totals.empty
    if empty is None or not empty.count or meta.judges:
        return ""
    places = sorted(((-n, place) for place, n in empty.places.items() if place != NOWHERE))[:3]
    named = [f"{-n:,} of them {'has' if n == -1 else 'have'} text in {_named(place)}" for n, place in places]
    named += [f"{empty.cut_off:,} of them ended at the token limit"] if empty.cut_off else []
    remedies = ["raise --max-tokens or lower --effort"] if empty.cut_off else []
    remedies += [_remedy(place, meta) for _, place in places if empty.cut_off < empty.count]
    if empty.places.get(NOWHERE, 0) > empty.cut_off:
        own = (
            ""
            if meta.spec.model.partition(":")[0] in PROVIDERS
            else " and the server's log (chat template, stop words)"
        )
        remedies.append(f"read one in traces/{own}, or ask again: --retry-empty 3")
    where = f"; {', '.join(named)}" if named else ", with text nowhere"
    anew = "" if meta.imported or not with_remedy else "; then run anew: --out NAME"
    return (
        f"{empty.count:,} of {meta.totals.done:,} replies were empty{where}: {'; '.join(dict.fromkeys(remedies))}{anew}"
    )


_NO_THINKING = """--extra-body '{"chat_template_kwargs": {"enable_thinking": false}}'"""


def _named(place: str) -> str:
    """Return the place of a text as a reader may see it; servers name it."""
    return place if place == THINKING_ALONE or MEMBER.fullmatch(place) else "another member"


def _remedy(place: str, meta: RunMeta) -> str:
    """Return what to set so that a text comes as the answer."""
    kind = meta.spec.model.partition(":")[0]
    if CALLS.search(place):
        return "let no tools be called (`tools` and `tool_choice` in --extra-body, the server's tool-call parser)"
    if THOUGHTS.search(place) and kind in ("api", "tools"):
        return f"check the server's reasoning parser or chat_template_kwargs ({_NO_THINKING}), or raise --max-tokens"
    if THOUGHTS.search(place):
        return "raise --max-tokens" + (" or let it think less: --effort low" if kind in PROVIDERS else "")
    return "only the text of the message is read, so look at one in traces/ and at the server's settings"


def _scaled_by_service(meta: RunMeta) -> str:
    """Return that a provider may have scaled images down; "" where it cannot have, or where the server is not known.

    `api:` at a provider's own address is that provider. Its images are counted where their sizes were recorded.
    """
    options, kind = meta.spec.options, meta.spec.model.partition(":")[0]
    provider = kind if kind in PROVIDERS else _provider_at_address(meta)
    if provider is None:
        return ""
    row, side, count = service(provider), options.media.max_long_side, meta.totals.oversized_images
    # Anthropic's and Google's layers for requests in OpenAI's form ignore the detail.
    original_helps = row.original and (kind == provider or provider == "openai")
    if options.detail == "original" and original_helps:
        return ""
    if count == 0 or (side and row.unscaled_side and side <= row.unscaled_side):
        return ""
    level = f"detail {options.detail}"
    if not row.original:
        return f"{row.title} reads large images at a size of its own ({level})"
    remedy = "; --detail original prevents it" if original_helps else ""
    if count is None:
        return f"{row.title} may have scaled large images down ({level}), and their number is not recorded{remedy}"
    images = "1 image that was" if count == 1 else f"{count:,} images that were"
    return f"{row.title} may have scaled {images} larger than its limit down ({level}){remedy}"


def _provider_at_address(meta: RunMeta) -> str | None:
    """Return the provider at whose own address an `api:` model was asked; None for any other."""
    identity = meta.identity.get("model")
    address = identity.get("base_url") if isinstance(identity, Mapping) else None
    kind = meta.spec.model.partition(":")[0]
    return provider_of(kind, address) if kind == "api" and isinstance(address, str) else None


def sentence(text: str) -> str:
    """Format a caveat's text as a sentence."""
    begins_with_file = "." in text.split(" ", 1)[0].rstrip(".")  # a file is called as it is on disk
    return f"{text[:1] if begins_with_file else text[:1].upper()}{text[1:].rstrip('.')}."


def conditions(meta: RunMeta, benchmark: Benchmark) -> list[str]:
    """List how this run's settings differ from the benchmark's own, for a place beside published figures.

    Values of the benchmark's options that look like a path are not shown: a report is sent around.
    """
    spec, coverage = meta.spec, meta.coverage
    texts = [] if coverage.full else [structs.replace(coverage, of=None).part]
    full_size = max((table.questions or 0 for table in benchmark.published), default=0)
    if coverage.of is not None and coverage.of < full_size:
        texts.append(f"only {coverage.of:,} of the {full_size:,} samples of the full set")
    revision = benchmark.gold(spec.data, str(meta.identity.get("data") or ""))
    published_revisions = dict.fromkeys(
        name for table in benchmark.published for _, name in table.gold if name != revision
    )
    if published_revisions:
        own_revision = revision or "gold answers of an unknown revision"
        texts.append(f"{own_revision}; the published figures rest on {', '.join(published_revisions)}")
    texts += [
        f"{name} = {value}" if not set("/\\") & set(value) else f"own {name}"
        for name, value in spec.data.options.items()
    ]
    if spec.options.media.blank:
        texts.append("blind control")
    if spec.repeats > 1:
        texts.append(f"asked {spec.repeats} times")
    texts += filter(None, [sampling_text(meta)])
    return texts + changed_settings(spec.options.media, spec.options.generation)


def changed_settings(media: MediaSettings, generation: Generation) -> list[str]:
    """List the settings of images and sampling that are not at their default: `temperature = 0.5`."""
    return _changed(media, MediaSettings(), but="blank") + _changed(generation, Generation(), but="seed")


def shown_videos(meta: RunMeta) -> str:
    """Return in words what a run showed of its videos: frames, pixels and subtitles; empty without any, or where nothing says it."""
    media, declared = meta.spec.options.media, meta.identity.get("frames") or ()
    chosen = media.frames is not None or media.fps is not None or media.video == "native"
    if not declared and not chosen:
        return ""
    usual = MediaSettings()
    pixels = structs.replace(
        usual, **{name: getattr(media, name) for name in ("max_long_side", "max_pixels", "resize")}
    )
    subtitles = meta.spec.data.options.get("subtitles")
    frames = "; ".join(declared) or frames_rule(media)
    if media.video == "native":
        frames = "videos as files" + ("" if media.fps is None else f" at {media.fps:g} frames a second")
    return ", ".join([frames, *_changed(pixels, usual, but=""), *([f"subtitles = {subtitles}"] if subtitles else [])])


def sampling_text(meta: RunMeta) -> str:
    """Return in words whose sampling a run had: a recipe's or the checkpoint's own; empty where neither."""
    model, executor = meta.identity.get("model"), meta.environment.get("executor")
    own = model.get("sampling") if isinstance(model, Mapping) else None
    if meta.spec.recipe:
        return f"sampling {meta.spec.recipe}"
    if not isinstance(own, Mapping):
        return ""
    if isinstance(executor, Mapping) and executor.get("declared_temperature"):
        return "temperature of the benchmark"
    chosen = meta.spec.options.generation
    fields = {**own, **{name: value for name in own if (value := getattr(chosen, name, None)) is not None}}
    return f"sampling of the checkpoint ({', '.join(f'{name} {value}' for name, value in fields.items())})"


def title_part(meta: RunMeta) -> str:
    """Return what the title of a run's scores says of its conditions: videos, sampling, schema and repeats."""
    repeats = f"{meta.spec.repeats} repeats" if meta.spec.repeats > 1 else ""
    schema = f"schema {schema_text(meta)}" if meta.spec.schema else ""
    return "".join(f" · {text}" for text in (shown_videos(meta), sampling_text(meta), schema, repeats) if text)


def schema_text(meta: RunMeta) -> str:
    """Return how the schema of replies was made, `auto` or the fields of one of its own; empty without one."""
    schema = meta.spec.schema or ""
    if isinstance(schema, str):
        return schema
    fields = schema.get("properties")
    return f"of {', '.join(map(str, fields))}"[:200] if isinstance(fields, dict) and fields else "of a file"


def _changed(settings: Struct, usual: Struct, but: str) -> list[str]:
    before = structs.asdict(usual)
    return [
        f"{name} = {value}"
        for name, value in structs.asdict(settings).items()
        if name != but and value != before.get(name) and isinstance(value, (str, int, float))
    ]
