"""Stage 2, leak audit: check whether the web ties an image to its answer.

Each image is searched for by a reverse image search, and the hits are written down as they came. A candidate leaks where a
hit names the answer in its title, its address or a file name; it is a copy where a hit, or another candidate, shows the very
same image by its hash, and alike where an encoder says so and the hash does not. With `page` the pages of such hits are fetched,
and one whose text names the answer is a finding too. Which of these drop a candidate is
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
from msgspec import Struct, field, structs

from snellen.curation import near_duplicates
from snellen.curation.evidence import FetchedPage, text_of
from snellen.curation.workspace import Candidate, StageDecision, Work
from snellen.engine import journal
from snellen.errors import DataError, MediaError, UsageError
from snellen.scoring.class_names import find, in_address

Search = Callable[[bytes, int], Awaitable[Sequence[Mapping[str, Any]]]]
"""`search(image, k)`: up to k hits, each a mapping with url, title, thumbnail, similarity and source."""

KINDS = ("named", "copy", "alike", "page", "twin")
DROPPING = ("named", "twin")
MAX_THUMBNAIL_CHARACTERS = 8 << 20
FAR = 128
"""In so many of 256 bits the hashes of unrelated images differ."""


class SearchHit(Struct, frozen=True, omit_defaults=True):
    """One hit of a reverse image search, as received.

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
    """One line of leaks/searches.jsonl: the hits of one search. `at` is seconds since the epoch, UTC."""

    sha256: str
    engine: str
    k: int
    hits: tuple[SearchHit, ...]
    at: float


class Leak(Struct, frozen=True):
    """A finding about a hit: `kind` is named, copy, alike or page, `where` title, address, thumbnail, picture or text, `form` the name.

    `distance` is that of the hashes, in bits of 256; `cosine` that of the encoder's vectors.
    """

    kind: str
    where: str
    hit: SearchHit
    form: str = ""
    quote: str = ""
    distance: int | None = None
    cosine: float | None = None


class LeakRule(Struct, frozen=True):
    """Settings of the leak audit.

    Attributes:
        k: hits that are asked for.
        drop: which findings drop a candidate: named (a hit names the answer), copy (a hit shows the same image by its
            hash), alike (a hit, or an earlier candidate with the same question and answer, looks the same to the encoder),
            page (the text of a page that shows a copy, or an image alike, names the answer),
            twin (an earlier candidate with the same question and answer shows the same image by its hash).
        near: copies differ in at most so many of 256 bits of their hashes. A similarity that a search gives is read as the
            local search gives it: 1 for no bit, 0 for 128.
        alike: images look the same where the cosine of their vectors is at least this.
        encoder: which one said so; empty: none was asked.
    """

    k: int = 20
    drop: tuple[str, ...] = DROPPING
    near: int = near_duplicates.NEAR
    alike: float = near_duplicates.ALIKE
    encoder: str = ""

    def checked(self) -> LeakRule:
        """Return the rule. Raises UsageError for an unknown finding."""
        for kind in self.drop:
            if kind not in KINDS:
                raise UsageError(f"there is no finding {kind!r}", f"Findings: {', '.join(KINDS)}.")
        return self


def recorded(work: Work, engine: str, k: int) -> dict[str, Searched]:
    """Read the last search of an engine for at least k hits, by image digest."""
    path = work.folder("leaks") / "searches.jsonl"
    return {line.sha256: line for line in journal.read(path, Searched) if line.engine == engine and line.k >= k}


async def search_all(
    work: Work,
    candidates: Sequence[Candidate],
    search: Search,
    engine: str,
    k: int,
    *,
    notify: Callable[[str], None] = lambda line: None,
) -> dict[str, Searched]:
    """Search for every image without a recorded search; each result is on disk before the next search.

    Args:
        engine: what it is called; goes into the record.
        notify: gets one line for a search that failed; its candidate stays undecided and is searched for again.

    Returns:
        What is known, by the digest of the image.
    """
    known = recorded(work, engine, k)
    pending = {candidate.sha256: candidate for candidate in candidates if candidate.sha256 not in known}
    if not pending:
        return known
    book = journal.Journal(work.folder("leaks") / "searches.jsonl")
    try:
        for sha256, candidate in pending.items():
            try:
                answer = await search(work.image(candidate).read_bytes(), k)
                hits = tuple(msgspec.convert([_plain(hit) for hit in answer[:k]], tuple[SearchHit, ...], strict=False))
            except (OSError, ValueError, TypeError, msgspec.ValidationError) as error:
                notify(f"{candidate.id}: the search failed: {type(error).__name__}: {error}")
                continue
            line = Searched(sha256, engine, k, hits, round(time.time(), 3))
            book.append(line)
            known[sha256] = line
    finally:
        book.close()
    return known


def _plain(hit: Any) -> dict[str, Any]:
    """Convert a hit to a mapping of its known fields; accepts mappings, structs and objects with these attributes."""
    names = SearchHit.__struct_fields__
    if isinstance(hit, Mapping):
        return {name: hit[name] for name in names if hit.get(name) is not None}
    return {name: value for name in names if (value := getattr(hit, name, None)) is not None}


class LeakAudit(Struct, frozen=True):
    """The findings about one candidate. `twin` and `alike` are ids of earlier candidates; `unread` says which page is missing."""

    leaks: tuple[Leak, ...] = ()
    twin: str = ""
    hits: int = 0
    engine: str = ""
    at: float | None = None
    shown: tuple[SearchHit, ...] = field(default_factory=tuple)
    alike: str = ""
    unread: str = ""

    def pages(self) -> dict[str, SearchHit]:
        """Return the hits that show the image, by the address of their page."""
        shown = [leak.hit for leak in self.leaks if leak.kind in ("copy", "alike")]
        return {hit.url: hit for hit in shown if hit.url.startswith(("http://", "https://"))}


def audit(
    candidate: Candidate,
    picture: bytes,
    searched: Searched,
    twin: str,
    rule: LeakRule,
    encoder: near_duplicates.ImageEncoder | None = None,
    alike: str = "",
) -> LeakAudit:
    """Compare hits with the candidate's names and image hash, and with an encoder by similarity."""
    own: near_duplicates.Hashes = None
    looks: near_duplicates.Vectors | None = None
    leaks: list[Leak] = []
    for hit in searched.hits[: rule.k]:
        if hit.cosine is not None and hit.cosine < rule.alike:
            continue  # found by its looks, and not near enough: what it is called says nothing about this image
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
                    looks = encoder.encode_query(picture) if looks is None else looks
                    cosine = float(near_duplicates.cosines(looks, encoder.encode_collection([thumbnail]))[0])
            except MediaError:
                bits = None  # a thumbnail that is no image says nothing
        elif hit.similarity is not None:
            reported = round((1 - hit.similarity) * FAR)
            bits = reported if reported <= rule.near else None
        if bits is not None:
            leaks.append(Leak("copy", "picture", hit, distance=bits))
        elif cosine is not None and cosine >= rule.alike:
            leaks.append(Leak("alike", "picture", hit, cosine=round(cosine, 4)))
    hits = tuple(searched.hits[: rule.k])
    return LeakAudit(tuple(leaks), twin, len(hits), searched.engine, searched.at, hits, alike)


def _named(forms: Sequence[str], hit: SearchHit) -> Leak | None:
    mention = find(hit.title, forms)
    if mention is not None:
        return Leak("named", "title", hit, mention.form, mention.quote)
    addresses = {"address": hit.url}
    if not hit.thumbnail.startswith("data:"):
        addresses["thumbnail"] = hit.thumbnail
    for where, address in addresses.items():
        mention = in_address(address, forms) if address else None
        if mention is not None:
            return Leak("named", where, hit, mention.form, mention.quote)
    return None


def _embedded(thumbnail: str) -> bytes | None:
    if not thumbnail.startswith("data:image/") or len(thumbnail) > MAX_THUMBNAIL_CHARACTERS:
        return None
    try:
        return base64.b64decode(thumbnail.partition(",")[2], validate=True)
    except (binascii.Error, ValueError):
        return None


def read_pages(work: Work, candidate: Candidate, audit: LeakAudit, known: Mapping[str, FetchedPage]) -> LeakAudit:
    """Return the audit with a finding for each page that shows the image and whose text names the answer."""
    found, unread = [], ""
    for url, hit in audit.pages().items():
        page = known.get(url)
        if page is None or not page.settled:
            unread = unread or f"{url}: {'not fetched' if page is None else page.problem}"
            continue
        try:
            mention = find(text_of(work, page), candidate.forms) if page.sha256 else None
        except DataError:  # a page of another kind, such as the picture itself
            continue
        if mention is not None:
            found.append(Leak("page", "text", hit, mention.form, mention.quote))
    return structs.replace(audit, leaks=(*audit.leaks, *found), unread=unread)


def twins(work: Work, candidates: Sequence[Candidate], near: int) -> dict[str, str]:
    """Map candidates to the earlier candidate with the same question about a copy of the image, by id."""
    copies = near_duplicates.copies([work.image(candidate).read_bytes() for candidate in candidates], near)
    pairs = ((candidates[late], candidates[early]) for late, before in copies.items() for early in before)
    twins: dict[str, str] = {}
    for late, early in pairs:
        if (late.question, late.answer) == (early.question, early.answer):
            twins.setdefault(late.id, early.id)
    return twins


def decide(candidate: Candidate, audit: LeakAudit | None, rule: LeakRule) -> StageDecision:
    """Decide keep, drop or undecided; the whole audit goes into the detail."""
    if audit is None:
        return StageDecision(candidate.id, "undecided", "no search for its picture succeeded")
    detail = msgspec.to_builtins(audit)
    reasons = []
    for leak in audit.leaks:
        if leak.kind in rule.drop:
            action = {"copy": "shows the same picture", "alike": "looks the same"}.get(
                leak.kind, f"names {leak.form!r}"
            )
            reasons.append(f"{leak.where} of {leak.hit.url or leak.hit.source or 'a hit'} {action}")
    if audit.twin and "twin" in rule.drop:
        reasons.append(f"the same picture and question as {audit.twin}")
    if audit.alike and "alike" in rule.drop:
        reasons.append(f"looks the same as {audit.alike}, and the same question")
    if reasons:
        rest = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return StageDecision(candidate.id, "drop", reasons[0] + rest, detail)
    if audit.unread:
        return StageDecision(candidate.id, "undecided", audit.unread, detail)
    earlier = {name for name, of in (("twin", audit.twin), ("alike", audit.alike)) if of}
    flags = sorted({leak.kind for leak in audit.leaks} | earlier)
    return StageDecision(candidate.id, "keep", f"flagged: {', '.join(flags)}" if flags else "", detail)


def lookalikes(
    work: Work,
    candidates: Sequence[Candidate],
    encoder: near_duplicates.ImageEncoder,
    alike: float,
    but: Collection[str],
) -> dict[str, str]:
    """Map candidates to the most similar earlier one by the encoder, as `twins`; ids in `but` are skipped."""
    asking: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in candidates:
        asking.setdefault((candidate.question, candidate.answer), []).append(candidate)
    pairs: dict[str, str] = {}
    for group in asking.values():
        pictures = [work.image(candidate).read_bytes() for candidate in group] if len(group) > 1 else []
        collection = encoder.encode_collection(pictures)
        for at, candidate in enumerate(group[1:], 1):
            if candidate.id not in but and (
                matches := near_duplicates.nearest(encoder.encode_query(pictures[at]), collection[:at], 1, alike)
            ):
                pairs[candidate.id] = group[matches[0][0]].id
    return pairs


def audit_all(
    work: Work,
    candidates: Sequence[Candidate],
    searched: Mapping[str, Searched],
    rule: LeakRule,
    encoder: near_duplicates.ImageEncoder | None = None,
) -> list[LeakAudit | None]:
    """Audit all candidates from the recorded searches; None for one whose search is missing."""
    same = twins(work, candidates, rule.near)
    alike = {} if encoder is None else lookalikes(work, candidates, encoder, rule.alike, same)
    audits: list[LeakAudit | None] = []
    for candidate in candidates:
        line = searched.get(candidate.sha256)
        if line is None:
            audits.append(None)
            continue
        own = work.image(candidate).read_bytes()
        twin, looks = same.get(candidate.id, ""), alike.get(candidate.id, "")
        audits.append(audit(candidate, own, line, twin, rule, encoder, looks))
    return audits
