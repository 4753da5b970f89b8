"""Stage 3, evidence: is there a page that supports the answer?

Every link is fetched once and kept as a snapshot under its digest, with the time that its server gave. A page supports an
answer by rule where its text names the answer or an alias in whole words; where a judge is asked as well, it has to agree.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from hashlib import blake2b, sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.atomic_write import replacing
from snellen.benchmarks.base import Benchmark
from snellen.curation.answer_mentions import find
from snellen.curation.candidates import Candidate
from snellen.curation.workspace import Decision, Work
from snellen.engine import journal
from snellen.errors import DataError
from snellen.models.tools.html_text import decoded, read_page, tidy
from snellen.scoring import metrics
from snellen.scoring.rubric import Rubric, fill, gold_text, nonce, parse_rubric, score_verdict, shortened
from snellen.scoring.scores import Scores
from snellen.sources import rows
from snellen.sources.safe_paths import within
from snellen.types import Generation, Metric, Prompt, Sample, Score, Text

PROFILE = "supports"
SHOWN_CHARACTERS = 12_000
HTML = ("text/html", "application/xhtml+xml")
LASTING = frozenset({401, 403, 404, 405, 410, 451})
"""Answers of a server that asking again will hardly change."""


class Unavailable(Exception):
    """A page cannot be had; `lasting` where asking again will hardly change that (404, an address that is not allowed)."""

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


class Page(Struct, frozen=True):
    """What came back for an address. `date` is the server's Date or Last-Modified header, as it stood there."""

    body: bytes
    content_type: str = ""
    status: int = 200
    final_url: str = ""
    date: str = ""


Fetch = Callable[[str], Awaitable[Page]]
"""`fetch(url)`: the page, whatever its status; raises Unavailable, OSError or ValueError where there is none."""


class Fetched(Struct, frozen=True, omit_defaults=True):
    """One line of evidence/fetched.jsonl. `sha256` names the snapshot; empty where there is none, `problem` says why."""

    url: str
    sha256: str = ""
    content_type: str = ""
    status: int = 0
    final_url: str = ""
    date: str = ""
    size: int = 0
    problem: str = ""
    lasting: bool = False

    @property
    def settled(self) -> bool:
        """Whether fetching it again would hardly give something else."""
        return bool(self.sha256) or self.lasting or self.status in LASTING


class Check(Struct, frozen=True, omit_defaults=True):
    """What one page says about one candidate.

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


def fetched(work: Work) -> dict[str, Fetched]:
    """The last answer to each address."""
    return {one.url: one for one in journal.read(work.folder("evidence") / "fetched.jsonl", Fetched)}


def snapshot(work: Work, digest: str) -> Path:
    """Where a page is kept. Raises DataError for what is no digest: the name comes from a journal or a browser."""
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise DataError(f"{digest[:80]!r} is not the digest of a snapshot")
    return work.folder("evidence") / "snapshots" / digest


async def fetch_all(
    work: Work,
    candidates: Sequence[Candidate],
    fetch: Fetch,
    *,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Fetched]:
    """Fetch every link that has no snapshot yet; what failed for a while (a 5xx, no answer) is tried again each time."""
    known = fetched(work)
    urls = dict.fromkeys(url for one in candidates for url in one.evidence)
    left = [url for url in urls if url not in known or not known[url].settled]
    if not left:
        return known
    book = journal.Journal(work.folder("evidence") / "fetched.jsonl")
    try:
        for url in left:
            line = await _fetch_one(work, url, fetch)
            if line.problem:
                tell(f"{url}: {line.problem}")
            book.append(line)
            known[url] = line
    finally:
        book.close()
    return known


async def _fetch_one(work: Work, url: str, fetch: Fetch) -> Fetched:
    try:
        page = await fetch(url)
    except Unavailable as error:
        return Fetched(url, problem=str(error)[:300], lasting=error.lasting)
    except (OSError, ValueError) as error:
        return Fetched(url, problem=f"no answer: {type(error).__name__}: {error}"[:300])
    answer = Fetched(
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


def text_of(work: Work, line: Fetched) -> str:
    """The readable text of a snapshot. Raises DataError where it has none, or was changed since."""
    path = snapshot(work, line.sha256)
    try:
        body = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    if sha256(body).hexdigest() != line.sha256:
        raise DataError(f"{path} was changed since it was fetched", "Remove it and its line in fetched.jsonl.")
    return readable(body, line.content_type, line.final_url or line.url)


def readable(body: bytes, content_type: str, url: str = "") -> str:
    """Title and text of a page of HTML or plain text, as a reader sees it.

    Raises:
        DataError: it is of another kind (a PDF, a picture); the message names the kind.
    """
    kind, _, parameters = content_type.partition(";")
    kind = kind.strip().lower()
    charset = parameters.partition("charset=")[2].strip(" \"'") or None
    markup = kind in HTML or (not kind and b"<html" in body[:2000].lower())
    if kind and not markup and not kind.startswith("text/"):
        raise DataError(f"a page of type {kind} has no text that is read here", "Give a page of HTML or plain text.")
    text = decoded(body, charset)
    if not markup:
        return tidy(text)
    page = read_page(text, url)
    return f"{page.title}\n{page.text}"


def check(
    work: Work, candidate: Candidate, known: Mapping[str, Fetched], judged: Mapping[str, bool | None] | None = None
) -> list[Check]:
    """What each page of a candidate says, by rule, and by the judge where its verdicts (by sample name) are given."""
    found = []
    for url in candidate.evidence:
        line = known.get(url)
        if line is None or not line.sha256:
            settled = line is not None and line.settled
            status, problem = (0, "not fetched") if line is None else (line.status, line.problem)
            found.append(Check(url, status=status, supports=False if settled else None, problem=problem))
            continue
        base = Check(url, line.sha256, line.date, line.status)
        try:
            mention = find(text_of(work, line), candidate.forms)
        except DataError as error:
            found.append(structs.replace(base, supports=False, problem=error.message))
            continue
        if mention is None:
            found.append(structs.replace(base, supports=False, problem="its text does not name the answer"))
            continue
        named = structs.replace(base, supports=True, form=mention.form, quote=mention.quote)
        if judged is not None:
            said = judged.get(pair_name(candidate, line))
            problem = {True: "", False: "the judge finds no support in it", None: "the judge gave no verdict"}[said]
            named = structs.replace(named, supports=said, judged=said, problem=problem)
        found.append(named)
    return found


def decide(candidate: Candidate, checks: Sequence[Check], least: int) -> Decision:
    """Keep where at least `least` pages support the answer; undecided while the unknown ones could still do."""
    detail = {"links": [msgspec.to_builtins(one) for one in checks], "least": least}
    good = sum(one.supports is True for one in checks)
    unknown = [one for one in checks if one.supports is None]
    if good >= least:
        return Decision(candidate.id, "keep", "", detail)
    if good + len(unknown) >= least:
        return Decision(candidate.id, "undecided", f"{unknown[0].url}: {unknown[0].problem}", detail)
    if not checks:
        return Decision(candidate.id, "drop", "no evidence is given", detail)
    why = next((f"{one.url}: {one.problem}" for one in checks if one.problem), "too few pages")
    return Decision(candidate.id, "drop", f"{good} of {least} supporting pages; {why}", detail)


def rubric_of(path: Path | None) -> Rubric:
    """The judge's rubric: the package's, or a file of the same form as those of `snellen judge`."""
    if path is None:
        return parse_rubric(files(__package__).joinpath("supports.toml").read_text("utf-8"), "supports")
    try:
        return parse_rubric(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"rubric {path}: cannot be read: {error}", "Check the path; it is a TOML file.") from error


def pair_name(candidate: Candidate, line: Fetched) -> str:
    """What a candidate and a snapshot go by in the judge's run."""
    return f"{candidate.id}@{line.sha256[:16]}"


def benchmark(work: Work, candidates: Sequence[Candidate], known: Mapping[str, Fetched], rubric: Rubric) -> Benchmark:
    """ "Does this page support this answer?", for every page that names the answer. The judge sees the text alone."""
    samples = list(_pairs(work, candidates, known, rubric))
    print_ = blake2b(rubric.digest.encode(), digest_size=16)
    for one in samples:
        print_.update(msgspec.json.encode([one.id, [part.text for part in one.prompt.parts if isinstance(part, Text)]]))
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
    work: Work, candidates: Sequence[Candidate], known: Mapping[str, Fetched], rubric: Rubric
) -> Iterator[Sample]:
    seen: set[str] = set()
    for one in candidates:
        for url in one.evidence:
            line = known.get(url)
            if line is None or not line.sha256 or (name := pair_name(one, line)) in seen:
                continue
            try:
                text = text_of(work, line)
            except DataError:
                continue  # `check` says so
            if find(text, one.forms) is None:
                continue
            seen.add(name)
            yield _asked(name, one, text, rubric)


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
    """Pages from a folder, for work without a network: pages.jsonl with url, file, and content_type and date if known."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, Any]] = {}
        for row in rows(folder / "pages.jsonl"):
            if not isinstance(row.get("url"), str) or not isinstance(row.get("file"), str):
                raise DataError(f"{folder / 'pages.jsonl'}: a row without url or file: {str(row)[:120]}")
            self._known[row["url"]] = row

    async def __call__(self, url: str) -> Page:
        """The page that lies there for an address; 404 where there is none."""
        row = self._known.get(url)
        if row is None:
            return Page(b"", status=404)
        body = within(self._folder, row["file"]).read_bytes()
        return Page(body, str(row.get("content_type") or ""), 200, url, str(row.get("date") or ""))
