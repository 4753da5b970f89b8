"""The review page: one candidate at a time, for reviewers who see others' opinions only after their own.

Plain pages and forms, no script. Served on loopback to whoever has the key of the printed address; every form carries a
token (CSRF), the pages may load nothing but their own images and style (CSP), and images and snapshots are looked up by
number and digest, so that no path of a request reaches the disk.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any, cast, get_args
from urllib.parse import parse_qs, quote, unquote

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from snellen.curation import evidence
from snellen.curation.candidates import Candidate
from snellen.curation.evidence import EvidenceCheck
from snellen.curation.leaks import LeakAudit
from snellen.curation.model_filter import Tries
from snellen.curation.reviews import (
    Opinion,
    OpinionKind,
    agreement,
    checked,
    disputed,
    edited,
    latest,
    path_of,
    read_all,
    settled,
)
from snellen.curation.workspace import Work
from snellen.engine.journal import Journal
from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError, PreflightError, UsageError
from snellen.local_server import LOOPBACK, LOOPBACK_NAMES, address_of, bind, run_until_interrupted

COOKIE = "snellen_review"
MAX_BODY_BYTES = 64 << 10
REASONS = (
    "the answer is wrong",
    "the picture does not show enough to tell",
    "several answers are right",
    "the picture names the answer",
    "the evidence does not support the answer",
    "found too easily by its picture",
    "private or offensive",
)
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; style-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_TYPES = {".jpg": "image/jpeg", ".png": "image/png"}


class Queue(Struct, frozen=True):
    """The candidates under review by number, with the findings of earlier stages."""

    candidates: Mapping[int, Candidate]
    leaks: Mapping[str, LeakAudit]
    links: Mapping[str, Sequence[EvidenceCheck]]
    tries: Mapping[str, Sequence[Tries]]


class ReviewSession:
    """The state of one review: queue, opinions so far, and their journal."""

    def __init__(self, work: Work, queue: Queue, opinions: Sequence[Opinion], journal: Journal, reviewers: int) -> None:
        self.work = work
        self.queue = queue
        self.opinions = list(opinions)
        self.journal = journal
        self.reviewers = reviewers
        self.key = secrets.token_urlsafe(24)

    def add(self, opinion: Opinion) -> None:
        """Write an opinion to the journal, then count it."""
        self.journal.append(opinion)
        self.opinions.append(opinion)

    def sign(self, text: str) -> str:
        return hmac.new(self.key.encode(), text.encode(), sha256).hexdigest()

    def cookie(self, reviewer: str) -> str:
        return f"{quote(reviewer, safe='')}.{self.sign(f'reviewer {reviewer}')}"

    def reviewer(self, request: Request) -> str | None:
        """Return the reviewer's name: empty if none was given yet, None without a valid key."""
        name, _, mark = request.cookies.get(COOKIE, "").rpartition(".")
        reviewer = unquote(name)
        return reviewer if hmac.compare_digest(mark.encode(), self.sign(f"reviewer {reviewer}").encode()) else None

    def token(self, reviewer: str) -> str:
        return self.sign(f"form {reviewer}")


def build_app(session: ReviewSession, clock: Callable[[], float] = time.time) -> Starlette:
    """Build the web application of a review."""
    pages = Environment(
        loader=PackageLoader("snellen.curation", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = files("snellen.curation").joinpath("assets", "review.css").read_bytes()

    def page(name: str, reviewer: str, status: int = 200, **values: Any) -> Response:
        html = pages.get_template(name).render(
            reviewer=reviewer, token=session.token(reviewer), name=session.work.state.name, **values
        )
        return HTMLResponse(html, status, headers=_HEADERS)

    def reviewer_of(request: Request) -> str:
        """Return the reviewer's name. Raises HTTPException if the key or the name is missing."""
        reviewer = session.reviewer(request)
        if reviewer is None:
            raise HTTPException(403, "Open the address printed by the command; it contains the key.")
        return reviewer

    async def form(request: Request) -> tuple[str, dict[str, str]]:
        """Read reviewer and fields of a submitted form."""
        reviewer = reviewer_of(request)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise HTTPException(413, f"A form has at most {MAX_BODY_BYTES:,} bytes.")
        sent = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
        fields = {name: values[0].replace("\r\n", "\n").strip() for name, values in sent.items()}
        if not hmac.compare_digest(fields.get("token", "").encode(), session.token(reviewer).encode()):
            raise HTTPException(403, "This form was not sent by the page. Reload the page and submit it again.")
        return reviewer, fields

    def candidate_of(request: Request) -> Candidate:
        match = session.queue.candidates.get(request.path_params["number"])
        if match is None:
            raise HTTPException(404, "There is no such candidate in this review.")
        return match

    async def home(request: Request) -> Response:
        key = request.query_params.get("key")
        if key is not None and hmac.compare_digest(key.encode(), session.key.encode()):
            answer = RedirectResponse("/", 303, headers=_HEADERS)
            named = session.reviewer(request) or ""
            answer.set_cookie(COOKIE, session.cookie(named), httponly=True, samesite="strict", path="/")
            return answer
        reviewer = reviewer_of(request)
        if not reviewer:
            return page("name.html.jinja", reviewer, fault="")
        opinions = latest(session.opinions)
        rows = [
            _row(session, candidate, opinions.get(candidate.id, {}), reviewer)
            for candidate in session.queue.candidates.values()
        ]
        open_rows = [row for row in rows if not row["mine"]]
        disputes = [row for row in rows if row["disputed"]]
        agreements = agreement(
            session.opinions, [candidate.id for candidate in session.queue.candidates.values()], session.reviewers
        )
        return page("queue.html.jinja", reviewer, rows=rows, left=open_rows, disputes=disputes, agreement=agreements)

    async def name(request: Request) -> Response:
        _, fields = await form(request)
        chosen = " ".join(fields.get("reviewer", "").split())
        if not chosen or len(chosen) > 80 or not chosen.isprintable():
            return page("name.html.jinja", "", 400, fault="Give a name of 1 to 80 characters.")
        answer = RedirectResponse("/", 303, headers=_HEADERS)
        answer.set_cookie(COOKIE, session.cookie(chosen), httponly=True, samesite="strict", path="/")
        return answer

    async def show(request: Request) -> Response:
        reviewer = reviewer_of(request)
        if not reviewer:
            return RedirectResponse("/", 303, headers=_HEADERS)
        return candidate_page(candidate_of(request), reviewer, "", {})

    def candidate_page(candidate: Candidate, reviewer: str, fault: str, fields: Mapping[str, str]) -> Response:
        opinions = latest(session.opinions).get(candidate.id, {})
        own = opinions.get(reviewer)
        wanted = candidate if own is None else edited(candidate, own)
        values = {"question": wanted.question, "answer": wanted.answer, "aliases": "\n".join(wanted.aliases)}
        in_dispute = disputed(candidate, opinions, session.reviewers) and own is not None
        return page(
            "candidate.html.jinja",
            reviewer,
            400 if fault else 200,
            candidate=candidate,
            audit=session.queue.leaks.get(candidate.id),
            links=session.queue.links.get(candidate.id, [EvidenceCheck(url) for url in candidate.evidence]),
            tries=session.queue.tries.get(candidate.id, ()),
            mine=own,
            others=[opinion for who, opinion in opinions.items() if who != reviewer] if in_dispute else [],
            fields={**values, "reason": "" if own is None else own.reason, **fields},
            fault=fault,
            reasons=REASONS,
            total=len(session.queue.candidates),
            place=list(session.queue.candidates).index(candidate.number) + 1,
            edit_open=bool(fields.get("say") == "edit") or (own is not None and own.say == "edit"),
        )

    async def judge(request: Request) -> Response:
        reviewer, fields = await form(request)
        candidate = candidate_of(request)
        if not reviewer:
            return RedirectResponse("/", 303, headers=_HEADERS)
        say = fields.get("say", "")
        if say not in get_args(OpinionKind):
            raise HTTPException(400, "The form must contain accept, reject or edit.")
        aliases = tuple(" ".join(line.split()) for line in fields.get("aliases", "").split("\n") if line.strip())
        wanted: dict[str, Any] = {}
        if say == "edit":
            answer = " ".join(fields.get("answer", "").split())
            wanted = {"question": fields.get("question", ""), "answer": answer, "aliases": aliases}
        opinion = Opinion(
            id=candidate.id,
            reviewer=reviewer,
            say=cast(OpinionKind, say),
            reason=fields.get("reason", ""),
            at=round(clock(), 3),
            **wanted,
        )
        try:
            session.add(checked(opinion, candidate))
        except UsageError as error:
            return candidate_page(candidate, reviewer, error.message[0].upper() + error.message[1:] + ".", fields)
        return RedirectResponse(_next(session, reviewer, candidate), 303, headers=_HEADERS)

    async def image(request: Request) -> Response:
        reviewer_of(request)
        path = session.work.image(candidate_of(request))
        return Response(path.read_bytes(), media_type=_TYPES[path.suffix], headers=_HEADERS)

    async def snapshot(request: Request) -> Response:
        """Return the text of a snapshot, never the page itself: it is untrusted."""
        reviewer_of(request)
        digest = request.path_params["digest"]
        line = next((page_ for page_ in evidence.fetched(session.work).values() if page_.sha256 == digest), None)
        if line is None:
            raise HTTPException(404, "There is no such snapshot.")
        try:
            text = evidence.text_of(session.work, line)
        except DataError as error:
            text = error.message
        return PlainTextResponse(text, headers=_HEADERS)

    async def css(request: Request) -> Response:
        return Response(style, media_type="text/css", headers=_HEADERS)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class
        return PlainTextResponse(error.detail, error.status_code, headers=_HEADERS)

    return Starlette(
        routes=[
            Route("/", home),
            Route("/reviewer", name, methods=["POST"]),
            Route("/candidate/{number:int}", show),
            Route("/candidate/{number:int}", judge, methods=["POST"]),
            Route("/image/{number:int}", image),
            Route("/snapshot/{digest}", snapshot),
            Route("/review.css", css),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK_NAMES), www_redirect=False)],
        exception_handlers={HTTPException: refused},
    )


def _row(
    session: ReviewSession, candidate: Candidate, opinions: Mapping[str, Opinion], reviewer: str
) -> dict[str, Any]:
    """Build a row of the queue; others' opinions stay hidden until the reviewer has given one."""
    own = opinions.get(reviewer)
    enough = len(opinions) >= session.reviewers
    in_dispute = own is not None and disputed(candidate, opinions, session.reviewers)
    if own is None:
        state = "open"
    elif in_dispute:
        state = "disputed"
    elif not enough:
        state = "waits for others"
    else:
        state = "kept" if settled(candidate, opinions, session.reviewers) is not None else "dropped"
    return {"candidate": candidate, "mine": own, "disputed": in_dispute, "state": state}


def _next(session: ReviewSession, reviewer: str, after: Candidate) -> str:
    """Return the reviewer's next open candidate after this one, else the first open one, else the queue."""
    opinions = latest(session.opinions)
    open_ = [
        number
        for number, candidate in session.queue.candidates.items()
        if reviewer not in opinions.get(candidate.id, {})
    ]
    if not open_:
        return "/"
    return f"/candidate/{next((number for number in open_ if number > after.number), open_[0])}"


def serve(work: Work, candidates: list[Candidate], reviewers: int, port: int, notify: Callable[[str], None]) -> None:
    """Serve the review page until Ctrl-C; every opinion is on disk before its form is answered.

    Args:
        reviewers: how many people have to judge each.
        port: 0 takes a free one.
        notify: gets one line with the address, the key in it.

    Raises:
        PreflightError: the port cannot be had.
        RunLockedError: another process is serving this review.
    """
    if not candidates:
        raise PreflightError(
            "no candidate has reached the review", "The reports of the earlier stages give the reasons."
        )
    with RunFolder(work.folder("review")).locked():
        journal = Journal(path_of(work))
        listener = bind(LOOPBACK, port)
        try:
            session = _session(work, candidates, reviewers, journal)
            address = f"{address_of(LOOPBACK, listener)}/?key={session.key}"
            run_until_interrupted(
                build_app(session),
                listener,
                started=lambda: notify(f"Reviewing {len(candidates):,} candidates at {address} (stop with Ctrl-C)."),
                limit_concurrency=50,
            )
        finally:
            listener.close()
            journal.close()


def _session(work: Work, candidates: list[Candidate], reviewers: int, journal: Journal) -> ReviewSession:
    """Open the session of a review, with the findings of the earlier stages."""
    links = {id_: decision.detail["links"] for id_, decision in work.decisions("evidence").items()}
    models = {id_: decision.detail["models"] for id_, decision in work.decisions("hard").items()}
    queue = Queue(
        {candidate.number: candidate for candidate in candidates},
        {
            id_: msgspec.convert(decision.detail, LeakAudit)
            for id_, decision in work.decisions("leaks").items()
            if decision.detail
        },
        msgspec.convert(links, dict[str, list[EvidenceCheck]]),
        msgspec.convert(models, dict[str, list[Tries]]),
    )
    return ReviewSession(work, queue, read_all(work), journal, reviewers)
