"""Stage 2, leakage audit: is the picture tied to its answer on the web?

Each picture is searched for by a reverse image search, and the hits are written down as they came. A candidate leaks where a
hit names the answer in its title, its address or a file name; it is a copy where a hit, or another candidate, shows the very
same picture by its hash, and alike where an encoder says so and the hash does not. Which of these drop a candidate is
a setting; all are recorded, and shown to the reviewers.

Hits are kept by the picture's digest: with other aliases or settings the decision is made anew without searching again.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from snellen.curation import near_duplicates
from snellen.curation.answer_mentions import find, in_address
from snellen.curation.candidates import Candidate
from snellen.curation.workspace import Decision, Work
from snellen.engine import journal
from snellen.errors import MediaError, UsageError

Search = Callable[[bytes, int], Awaitable[Sequence[Mapping[str, Any]]]]
"""`search(picture, k)`: up to k hits, each a mapping with url, title, thumbnail, similarity and source."""

KINDS = ("named", "copy", "alike", "twin")
DROPPING = ("named", "twin")
MOST_BYTES = 8 << 20
FAR = 128
"""In so many of 256 bits the hashes of unrelated pictures differ."""


class Hit(Struct, frozen=True, omit_defaults=True):
    """One hit of a reverse image search, as it came.

    `thumbnail` is an address or a data URI; `similarity` is 0 to 1, None where the engine gives none; `cosine` is what an
    encoder said, None where none was asked.
    """

    url: str = ""
    title: str = ""
    thumbnail: str = ""
    similarity: float | None = None
    source: str = ""
    cosine: float | None = None


class Searched(Struct, frozen=True):
    """One line of leaks/searches.jsonl: the answer to one search. `at` is seconds since the epoch, UTC."""

    sha256: str
    engine: str
    k: int
    hits: tuple[Hit, ...]
    at: float


class Leak(Struct, frozen=True):
    """Why a hit counts: `kind` is named, copy or alike, `where` title, address, thumbnail or picture, `form` the name found.

    `distance` is that of the hashes, in bits of 256; `cosine` that of the encoder's vectors.
    """

    kind: str
    where: str
    hit: Hit
    form: str = ""
    quote: str = ""
    distance: int | None = None
    cosine: float | None = None


class Rule(Struct, frozen=True):
    """Settings of the audit.

    Attributes:
        k: hits that are asked for.
        drop: which findings drop a candidate: named (a hit names the answer), copy (a hit shows the same picture by its
            hash), alike (a hit, or an earlier candidate with the same question and answer, looks the same to the encoder),
            twin (an earlier candidate with the same question and answer shows the same picture by its hash).
        near: copies differ in at most so many of 256 bits of their hashes. A similarity that a search gives is read as the
            local search gives it: 1 for no bit, 0 for 128.
        alike: pictures look the same where the cosine of their vectors is at least this.
        encoder: which one said so; empty: none was asked.
    """

    k: int = 20
    drop: tuple[str, ...] = DROPPING
    near: int = near_duplicates.NEAR
    alike: float = near_duplicates.ALIKE
    encoder: str = ""

    def checked(self) -> Rule:
        """Raises UsageError for a finding that there is none of."""
        for one in self.drop:
            if one not in KINDS:
                raise UsageError(f"there is no finding {one!r}", f"Findings: {', '.join(KINDS)}.")
        return self


def recorded(work: Work, engine: str, k: int) -> dict[str, Searched]:
    """The last search of this engine for at least k hits, by picture."""
    path = work.folder("leaks") / "searches.jsonl"
    return {one.sha256: one for one in journal.read(path, Searched) if one.engine == engine and one.k >= k}


async def search_all(
    work: Work,
    candidates: Sequence[Candidate],
    search: Search,
    engine: str,
    k: int,
    *,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Searched]:
    """Search for every picture that this engine has not been asked about; each answer is on disk before the next search.

    Args:
        search: the reverse image search.
        engine: what it is called; goes into the record.
        tell: gets one line for a search that failed; its candidate stays undecided and is searched for again.

    Returns:
        What is known, by the digest of the picture.
    """
    known = recorded(work, engine, k)
    left = {one.sha256: one for one in candidates if one.sha256 not in known}
    if not left:
        return known
    book = journal.Journal(work.folder("leaks") / "searches.jsonl")
    try:
        for sha256, one in left.items():
            try:
                found = await search(work.image(one).read_bytes(), k)
                hits = tuple(msgspec.convert([_plain(hit) for hit in found[:k]], tuple[Hit, ...], strict=False))
            except (OSError, ValueError, TypeError, msgspec.ValidationError) as error:
                tell(f"{one.id}: the search failed: {type(error).__name__}: {error}")
                continue
            line = Searched(sha256, engine, k, hits, round(time.time(), 3))
            book.append(line)
            known[sha256] = line
    finally:
        book.close()
    return known


def _plain(hit: Any) -> dict[str, Any]:
    """A hit as a mapping of its known fields; a struct or an object with these attributes will do."""
    names = Hit.__struct_fields__
    if isinstance(hit, Mapping):
        return {name: hit[name] for name in names if hit.get(name) is not None}
    return {name: value for name in names if (value := getattr(hit, name, None)) is not None}


class Audit(Struct, frozen=True):
    """What was found about one candidate. `twin` and `alike` are ids of earlier candidates."""

    leaks: tuple[Leak, ...] = ()
    twin: str = ""
    hits: int = 0
    engine: str = ""
    at: float | None = None
    shown: tuple[Hit, ...] = field(default_factory=tuple)
    alike: str = ""


def audit(
    candidate: Candidate,
    picture: bytes,
    searched: Searched,
    twin: str,
    rule: Rule,
    encoder: near_duplicates.Looks | None = None,
    alike: str = "",
) -> Audit:
    """Hold the hits against the candidate's names and its picture; with an encoder also by how it looks."""
    own: near_duplicates.Hashes = None
    seen: near_duplicates.Vectors | None = None
    leaks: list[Leak] = []
    for hit in searched.hits[: rule.k]:
        if hit.cosine is not None and hit.cosine < rule.alike:
            continue  # found by its looks, and not near enough: what it is called says nothing about this picture
        named = _named(candidate.forms, hit)
        if named is not None:
            leaks.append(named)
        bits, cosine = None, hit.cosine
        thumbnail = _embedded(hit.thumbnail)
        if thumbnail is not None:
            own = near_duplicates.hashes(picture) if own is None else own
            try:
                bits = near_duplicates.distance(own, near_duplicates.hashes(thumbnail), rule.near)
                if encoder is not None and bits is None:
                    seen = encoder.asked(picture) if seen is None else seen
                    cosine = float(near_duplicates.cosines(seen, encoder.held([thumbnail]))[0])
            except MediaError:
                bits = None  # a thumbnail that is no picture says nothing
        elif hit.similarity is not None:
            said = round((1 - hit.similarity) * FAR)
            bits = said if said <= rule.near else None
        if bits is not None:
            leaks.append(Leak("copy", "picture", hit, distance=bits))
        elif cosine is not None and cosine >= rule.alike:
            leaks.append(Leak("alike", "picture", hit, cosine=round(cosine, 4)))
    shown = tuple(searched.hits[: rule.k])
    return Audit(tuple(leaks), twin, len(shown), searched.engine, searched.at, shown, alike)


def _named(forms: Sequence[str], hit: Hit) -> Leak | None:
    found = find(hit.title, forms)
    if found is not None:
        return Leak("named", "title", hit, found.form, found.quote)
    addresses = {"address": hit.url}
    if not hit.thumbnail.startswith("data:"):
        addresses["thumbnail"] = hit.thumbnail
    for where, address in addresses.items():
        found = in_address(address, forms) if address else None
        if found is not None:
            return Leak("named", where, hit, found.form, found.quote)
    return None


def _embedded(thumbnail: str) -> bytes | None:
    if not thumbnail.startswith("data:image/") or len(thumbnail) > MOST_BYTES:
        return None
    try:
        return base64.b64decode(thumbnail.partition(",")[2], validate=True)
    except (binascii.Error, ValueError):
        return None


def twins(work: Work, candidates: Sequence[Candidate], near: int) -> dict[str, str]:
    """Candidates that ask the same about a copy of an earlier candidate's picture: id to the earlier one's id."""
    found = near_duplicates.copies([work.image(one).read_bytes() for one in candidates], near)
    pairs = ((candidates[late], candidates[early]) for late, before in found.items() for early in before)
    twins: dict[str, str] = {}
    for late, early in pairs:
        if (late.question, late.answer) == (early.question, early.answer):
            twins.setdefault(late.id, early.id)
    return twins


def decide(candidate: Candidate, found: Audit | None, rule: Rule) -> Decision:
    """Keep, drop or undecided; the audit itself goes into the detail, flagged or not."""
    if found is None:
        return Decision(candidate.id, "undecided", "no search for its picture has succeeded")
    detail = msgspec.to_builtins(found)
    reasons = []
    for leak in found.leaks:
        if leak.kind in rule.drop:
            what = {"named": f"names {leak.form!r}", "copy": "shows the same picture", "alike": "looks the same"}[
                leak.kind
            ]
            reasons.append(f"{leak.where} of {leak.hit.url or leak.hit.source or 'a hit'} {what}")
    if found.twin and "twin" in rule.drop:
        reasons.append(f"the same picture and question as {found.twin}")
    if found.alike and "alike" in rule.drop:
        reasons.append(f"looks the same as {found.alike}, and the same question")
    if reasons:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return Decision(candidate.id, "drop", reasons[0] + more, detail)
    earlier = {name for name, of in (("twin", found.twin), ("alike", found.alike)) if of}
    flags = sorted({leak.kind for leak in found.leaks} | earlier)
    return Decision(candidate.id, "keep", f"flagged: {', '.join(flags)}" if flags else "", detail)


def lookalikes(
    work: Work, candidates: Sequence[Candidate], encoder: near_duplicates.Looks, alike: float, but: Collection[str]
) -> dict[str, str]:
    """As `twins`, by how pictures look to the encoder: id to the most alike earlier one's, but for the ids in `but`."""
    asking: dict[tuple[str, str], list[Candidate]] = {}
    for one in candidates:
        asking.setdefault((one.question, one.answer), []).append(one)
    found: dict[str, str] = {}
    for group in asking.values():
        pictures = [work.image(one).read_bytes() for one in group] if len(group) > 1 else []
        held = encoder.held(pictures)
        for at, one in enumerate(group[1:], 1):
            if one.id not in but and (
                near := near_duplicates.nearest(encoder.asked(pictures[at]), held[:at], 1, alike)
            ):
                found[one.id] = group[near[0][0]].id
    return found


def audit_all(
    work: Work,
    candidates: Sequence[Candidate],
    searched: Mapping[str, Searched],
    rule: Rule,
    encoder: near_duplicates.Looks | None = None,
) -> list[Decision]:
    """The decisions on all candidates, from what was searched for."""
    same = twins(work, candidates, rule.near)
    alike = {} if encoder is None else lookalikes(work, candidates, encoder, rule.alike, same)
    found = []
    for one in candidates:
        line = searched.get(one.sha256)
        report = None
        if line is not None:
            own = work.image(one).read_bytes()
            report = audit(one, own, line, same.get(one.id, ""), rule, encoder, alike.get(one.id, ""))
        found.append(decide(one, report, rule))
    return found
