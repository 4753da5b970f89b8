"""Stage 3, evidence: check that web pages support the answer.

Every link is fetched once and kept as a snapshot under its digest, with the time that its server gave. A page supports an
answer by rule where its text names the answer or an alias in whole words; where a judge is asked as well, it has to agree.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.atomic_write import replacing
from snellen.benchmarks.base import Benchmark
from snellen.curation.workspace import Candidate, StageDecision, Work
from snellen.engine import journal
from snellen.errors import DataError
from snellen.models.tools.html_text import decoded, read_page, tidy
from snellen.scoring import metrics
from snellen.scoring.class_names import find
from snellen.scoring.rubric import Rubric, fill, gold_text, nonce, parse_rubric, score_verdict, shortened
from snellen.scoring.scores import Scores
from snellen.sources import digest as content_digest
from snellen.sources import rows
from snellen.sources.safe_paths import within
from snellen.types import Generation, Metric, Prompt, Sample, Score, Text

PROFILE = "supports"
SHOWN_CHARACTERS = 12_000
HTML = ("text/html", "application/xhtml+xml")
LASTING = frozenset({401, 403, 404, 405, 410, 451})
"""Answers of a server that asking again will hardly change."""


class Unavailable(Exception):
    """A page that cannot be fetched; `lasting` if a retry will hardly help (404, a forbidden address)."""

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


class EvidencePage(Struct, frozen=True):
    """The response for an address. `date` is the server's Date or Last-Modified header, unchanged."""

    body: bytes
    content_type: str = ""
    status: int = 200
    final_url: str = ""
    date: str = ""


Fetch = Callable[[str], Awaitable[EvidencePage]]
"""`fetch(url)`: the page, whatever its status; raises Unavailable, OSError or ValueError where there is none."""


class FetchedPage(Struct, frozen=True, omit_defaults=True):
    """One line of evidence/fetched.jsonl. `sha256` names the snapshot; if it is empty, `problem` gives the reason.

    `collection` is the place and the content of the local collection that it came from; empty: of none.
    """

    url: str
    sha256: str = ""
    content_type: str = ""
    status: int = 0
    final_url: str = ""
    date: str = ""
    size: int = 0
    problem: str = ""
    lasting: bool = False
    collection: str = ""

    @property
    def settled(self) -> bool:
        """True if fetching again would hardly change the result."""
        return bool(self.sha256) or self.lasting or self.status in LASTING


@dataclass(frozen=True)
class CollectionFetch:
    """Pages of a local collection, by `fetch`; a page is asked for again when the content of its collection has changed."""

    fetch: Fetch
    collection: str

    async def __call__(self, url: str) -> EvidencePage:
        """Return the page of an address."""
        return await self.fetch(url)


def collection_of(folder: Path) -> str:
    """Return what names a local collection: its place, and its content."""
    return f"{blake2b(str(folder.absolute()).encode(), digest_size=8).hexdigest()} {content_digest(folder)}"


class EvidenceCheck(Struct, frozen=True, omit_defaults=True):
    """The support that one page gives one candidate.

    Attributes:
        supports: yes, no, or None where that is not known.
        form, quote: the name that was found, and its sentence.
        judged: what the judge said; None: not asked, or no verdict.
        problem: why the page could not be used.
    """

    url: str
    sha256: str = ""
    date: str = ""
    status: int = 0
    supports: bool | None = None
    form: str = ""
    quote: str = ""
    judged: bool | None = None
    problem: str = ""


def fetched(work: Work) -> dict[str, FetchedPage]:
    """Read the last response for each address."""
    return {line.url: line for line in journal.read(work.folder("evidence") / "fetched.jsonl", FetchedPage)}


def snapshot(work: Work, digest: str) -> Path:
    """Return the path of a snapshot. Raises DataError for an invalid digest: it comes from a journal or a browser."""
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise DataError(f"{digest[:80]!r} is not a snapshot digest")
    return work.folder("evidence") / "snapshots" / digest


async def fetch_all(
    work: Work,
    urls: Iterable[str],
    fetch: Fetch,
    *,
    notify: Callable[[str], None] = lambda line: None,
) -> dict[str, FetchedPage]:
    """Fetch every link without a snapshot; temporary failures (a 5xx, no response) are retried on each call.

    So is each page of a local collection that has changed since.
    """
    known = fetched(work)
    now = fetch.collection if isinstance(fetch, CollectionFetch) else ""

    def stands(line: FetchedPage) -> bool:
        changed = line.collection != now and line.collection[:16] == now[:16]
        return line.settled and not changed

    pending = [url for url in dict.fromkeys(urls) if url not in known or not stands(known[url])]
    if not pending:
        return known
    book = journal.Journal(work.folder("evidence") / "fetched.jsonl")
    try:
        for url in pending:
            line = structs.replace(await _fetch_one(work, url, fetch), collection=now)
            if line.problem:
                notify(f"{url}: {line.problem}")
            book.append(line)
            known[url] = line
    finally:
        book.close()
    return known


async def _fetch_one(work: Work, url: str, fetch: Fetch) -> FetchedPage:
    try:
        page = await fetch(url)
    except Unavailable as error:
        return FetchedPage(url, problem=str(error)[:300], lasting=error.lasting)
    except (OSError, ValueError) as error:
        return FetchedPage(url, problem=f"no answer: {type(error).__name__}: {error}"[:300])
    answer = FetchedPage(
        url,
        content_type=page.content_type,
        status=page.status,
        final_url=page.final_url,
        date=page.date,
        size=len(page.body),
    )
    if page.status != 200:
        return structs.replace(answer, problem=f"the server answered {page.status}")
    digest = sha256(page.body).hexdigest()
    path = snapshot(work, digest)
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        with replacing(path) as part:
            part.write_bytes(page.body)
    return structs.replace(answer, sha256=digest)


def text_of(work: Work, line: FetchedPage) -> str:
    """Read the text of a snapshot. Raises DataError if it has none, or was changed since."""
    path = snapshot(work, line.sha256)
    try:
        body = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    if sha256(body).hexdigest() != line.sha256:
        raise DataError(f"{path} was changed after fetching", "Delete it and its line in fetched.jsonl.")
    return readable(body, line.content_type, line.final_url or line.url)


def readable(body: bytes, content_type: str, url: str = "") -> str:
    """Extract title and text from HTML or plain text.

    Raises:
        DataError: it is of another kind (a PDF, an image); the message names the kind.
    """
    kind, _, parameters = content_type.partition(";")
    kind = kind.strip().lower()
    charset = parameters.partition("charset=")[2].strip(" \"'") or None
    markup = kind in HTML or (not kind and b"<html" in body[:2000].lower())
    if kind and not markup and not kind.startswith("text/"):
        raise DataError(f"a page of type {kind} is not supported", "Give a page of HTML or plain text.")
    text = decoded(body, charset)
    if not markup:
        return tidy(text)
    page = read_page(text, url)
    return f"{page.title}\n{page.text}"


def check(
    work: Work, candidate: Candidate, known: Mapping[str, FetchedPage], judged: Mapping[str, bool | None] | None = None
) -> list[EvidenceCheck]:
    """Check each page of a candidate by rule, and by the judge's verdicts (by sample name) if given."""
    checks = []
    for url in candidate.evidence:
        line = known.get(url)
        if line is None or not line.sha256:
            settled = line is not None and line.settled
            status, problem = (0, "not fetched") if line is None else (line.status, line.problem)
            checks.append(EvidenceCheck(url, status=status, supports=False if settled else None, problem=problem))
            continue
        base = EvidenceCheck(url, line.sha256, line.date, line.status)
        try:
            mention = find(text_of(work, line), candidate.forms)
        except DataError as error:
            checks.append(structs.replace(base, supports=False, problem=error.message))
            continue
        if mention is None:
            checks.append(structs.replace(base, supports=False, problem="its text does not mention the answer"))
            continue
        named = structs.replace(base, supports=True, form=mention.form, quote=mention.quote)
        if judged is not None:
            verdict = judged.get(pair_name(candidate, line))
            problem = {True: "", False: "the judge found no support", None: "the judge gave no verdict"}[verdict]
            named = structs.replace(named, supports=verdict, judged=verdict, problem=problem)
        checks.append(named)
    return checks


def decide(candidate: Candidate, checks: Sequence[EvidenceCheck], least: int) -> StageDecision:
    """Keep if at least `least` pages support the answer; undecided while pages of unknown support could decide it."""
    detail = {"links": [msgspec.to_builtins(check) for check in checks], "least": least}
    good = sum(check.supports is True for check in checks)
    unknown = [check for check in checks if check.supports is None]
    if good >= least:
        return StageDecision(candidate.id, "keep", "", detail)
    if good + len(unknown) >= least:
        return StageDecision(candidate.id, "undecided", f"{unknown[0].url}: {unknown[0].problem}", detail)
    if not checks:
        return StageDecision(candidate.id, "drop", "no evidence given", detail)
    why = next((f"{check.url}: {check.problem}" for check in checks if check.problem), "too few pages")
    return StageDecision(candidate.id, "drop", f"{good} of {least} supporting pages; {why}", detail)


def rubric_of(path: Path | None) -> Rubric:
    """Load the judge's rubric: the package's, or a file in the format of `snellen judge`."""
    if path is None:
        return parse_rubric(files(__package__).joinpath("supports.toml").read_text("utf-8"), "supports")
    try:
        return parse_rubric(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"rubric {path}: cannot be read: {error}", "Check the path; it is a TOML file.") from error


def pair_name(candidate: Candidate, line: FetchedPage) -> str:
    """Return the sample id of a candidate and a snapshot in the judge's run."""
    return f"{candidate.id}@{line.sha256[:16]}"


def benchmark(
    work: Work, candidates: Sequence[Candidate], known: Mapping[str, FetchedPage], rubric: Rubric
) -> Benchmark:
    """Build the judge's benchmark: one sample for each page that names the answer; text only."""
    samples = list(_pairs(work, candidates, known, rubric))
    print_ = blake2b(rubric.digest.encode(), digest_size=16)
    for sample in samples:
        print_.update(
            msgspec.json.encode([sample.id, [part.text for part in sample.prompt.parts if isinstance(part, Text)]])
        )
    fingerprint = print_.hexdigest()

    def score(sample: Sample, reply: str) -> Score:
        return score_verdict(reply, rubric.verdict)

    def summarize(scores: Scores, profile: str) -> list[Metric]:
        return [metrics.accuracy(scores, "supported")]

    return Benchmark(
        name=f"curation/{work.state.name}/evidence",
        version="1",
        samples=lambda data: iter(samples),
        score={PROFILE: score},
        summarize=summarize,
        profiles={PROFILE: rubric.about},
        size=lambda data: len(samples),
        digest=lambda data: fingerprint,
        restricted=True,
        about={"description": f"pages and answers in {work.path}"},
    )


def _pairs(
    work: Work, candidates: Sequence[Candidate], known: Mapping[str, FetchedPage], rubric: Rubric
) -> Iterator[Sample]:
    names: set[str] = set()
    for candidate in candidates:
        for url in candidate.evidence:
            line = known.get(url)
            if line is None or not line.sha256 or (name := pair_name(candidate, line)) in names:
                continue
            try:
                text = text_of(work, line)
            except DataError:
                continue  # `check` says so
            if find(text, candidate.forms) is None:
                continue
            names.add(name)
            yield _asked(name, candidate, text, rubric)


def _asked(name: str, candidate: Candidate, text: str, rubric: Rubric) -> Sample:
    about = Sample(
        name, Prompt((Text(candidate.question),)), candidate.answer, "short", meta={"aliases": candidate.aliases}
    )
    excerpt = shortened(text, SHOWN_CHARACTERS)
    values = {
        "question": candidate.question,
        "options": "",
        "gold": gold_text(about),
        "reply": excerpt,
        "nonce": nonce(0, name, excerpt),
        "shape": rubric.shape,
    }
    settings = None if rubric.max_tokens is None else Generation(max_tokens=rubric.max_tokens)
    prompt = Prompt((Text(fill(rubric.template, values)),), fill(rubric.system, values), settings)
    return Sample(name, prompt, None, "open", group=candidate.id)


class PagesFolder:
    """Pages from a folder, for offline work: pages.jsonl with url, file, and optional content_type and date."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, Any]] = {}
        for row in rows(folder / "pages.jsonl"):
            if not isinstance(row.get("url"), str) or not isinstance(row.get("file"), str):
                raise DataError(f"{folder / 'pages.jsonl'}: a row without url or file: {str(row)[:120]}")
            self._known[row["url"]] = row

    async def __call__(self, url: str) -> EvidencePage:
        """Return the page of an address; status 404 if the folder has none."""
        row = self._known.get(url)
        if row is None:
            return EvidencePage(b"", status=404)
        body = within(self._folder, row["file"]).read_bytes()
        return EvidencePage(body, str(row.get("content_type") or ""), 200, url, str(row.get("date") or ""))
