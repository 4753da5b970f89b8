"""The review page: a candidate at a time, by two people who do not see each other's opinion until both have given it.

Plain pages and forms, no script. Served on loopback to whoever has the key of the printed address; every form carries a
token (CSRF), the pages may load nothing but their own pictures and style (CSP), and pictures and snapshots are looked up by
number and digest, so that no path of a request reaches the disk.

Serving the review page until Ctrl-C, on this machine only.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from typing import Any, cast
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
from snellen.curation.evidence import Check
from snellen.curation.leaks import Audit
from snellen.curation.model_filter import Tries
from snellen.curation.reviews import (
    Opinion,
    Say,
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
from snellen.errors import DataError, MissingExtraError, PreflightError, UsageError
from snellen.models.serve.run import bind

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
COOKIE = "snellen_review"
MOST_BODY = 64 << 10
SAYS = ("accept", "reject", "edit")
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
    """What is reviewed: the candidates by number, what earlier stages found about each, and the links of each."""

    candidates: Mapping[int, Candidate]
    leaks: Mapping[str, Audit]
    links: Mapping[str, Sequence[Check]]
    known: Mapping[str, Sequence[Tries]]


class Room:
    """The state of one review: the queue, the opinions so far, and the journal that every new one goes to."""

    def __init__(self, work: Work, queue: Queue, opinions: Sequence[Opinion], journal: Journal, reviewers: int) -> None:
        self.work = work
        self.queue = queue
        self.opinions = list(opinions)
        self.journal = journal
        self.reviewers = reviewers
        self.key = secrets.token_urlsafe(24)

    def add(self, opinion: Opinion) -> None:
        """Write an opinion down, then count it."""
        self.journal.append(opinion)
        self.opinions.append(opinion)

    def sign(self, what: str) -> str:
        return hmac.new(self.key.encode(), what.encode(), sha256).hexdigest()

    def cookie(self, reviewer: str) -> str:
        return f"{quote(reviewer, safe='')}.{self.sign(f'reviewer {reviewer}')}"

    def reviewer(self, request: Request) -> str | None:
        """Who asks: a name, empty where none was given yet, None where the key was not shown."""
        name, _, mark = request.cookies.get(COOKIE, "").rpartition(".")
        reviewer = unquote(name)
        return reviewer if hmac.compare_digest(mark.encode(), self.sign(f"reviewer {reviewer}").encode()) else None

    def token(self, reviewer: str) -> str:
        return self.sign(f"form {reviewer}")


def build_app(room: Room, clock: Callable[[], float] = time.time) -> Starlette:
    """The application over a review."""
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
            reviewer=reviewer, token=room.token(reviewer), name=room.work.state.name, **values
        )
        return HTMLResponse(html, status, headers=_HEADERS)

    def known(request: Request) -> str:
        """The reviewer's name. Raises HTTPException where the key or the name is missing."""
        reviewer = room.reviewer(request)
        if reviewer is None:
            raise HTTPException(403, "Open the address that the command printed; it holds the key.")
        return reviewer

    async def form(request: Request) -> tuple[str, dict[str, str]]:
        """The reviewer and the fields of a form that one of our pages has sent."""
        reviewer = known(request)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_BODY:
                raise HTTPException(413, f"A form has at most {MOST_BODY:,} bytes.")
        sent = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
        fields = {name: values[0].replace("\r\n", "\n").strip() for name, values in sent.items()}
        if not hmac.compare_digest(fields.get("token", "").encode(), room.token(reviewer).encode()):
            raise HTTPException(403, "This form was not sent by the page. Go back, load it again, and send it again.")
        return reviewer, fields

    def candidate(request: Request) -> Candidate:
        found = room.queue.candidates.get(request.path_params["number"])
        if found is None:
            raise HTTPException(404, "There is no such candidate in this review.")
        return found

    async def home(request: Request) -> Response:
        key = request.query_params.get("key")
        if key is not None and hmac.compare_digest(key.encode(), room.key.encode()):
            answer = RedirectResponse("/", 303, headers=_HEADERS)
            named = room.reviewer(request) or ""
            answer.set_cookie(COOKIE, room.cookie(named), httponly=True, samesite="strict", path="/")
            return answer
        reviewer = known(request)
        if not reviewer:
            return page("name.html.jinja", reviewer, fault="")
        said = latest(room.opinions)
        rows = [_row(room, one, said.get(one.id, {}), reviewer) for one in room.queue.candidates.values()]
        left = [row for row in rows if not row["mine"]]
        disputes = [row for row in rows if row["disputed"]]
        found = agreement(room.opinions, [one.id for one in room.queue.candidates.values()], room.reviewers)
        return page("queue.html.jinja", reviewer, rows=rows, left=left, disputes=disputes, agreement=found)

    async def name(request: Request) -> Response:
        _, fields = await form(request)
        chosen = " ".join(fields.get("reviewer", "").split())
        if not chosen or len(chosen) > 80 or not chosen.isprintable():
            return page("name.html.jinja", "", 400, fault="Give a name of 1 to 80 characters.")
        answer = RedirectResponse("/", 303, headers=_HEADERS)
        answer.set_cookie(COOKIE, room.cookie(chosen), httponly=True, samesite="strict", path="/")
        return answer

    async def show(request: Request) -> Response:
        reviewer = known(request)
        if not reviewer:
            return RedirectResponse("/", 303, headers=_HEADERS)
        return one(candidate(request), reviewer, "", {})

    def one(about: Candidate, reviewer: str, fault: str, fields: Mapping[str, str]) -> Response:
        said = latest(room.opinions).get(about.id, {})
        mine = said.get(reviewer)
        wanted = about if mine is None else edited(about, mine)
        values = {"question": wanted.question, "answer": wanted.answer, "aliases": "\n".join(wanted.aliases)}
        in_dispute = disputed(about, said, room.reviewers) and mine is not None
        return page(
            "candidate.html.jinja",
            reviewer,
            400 if fault else 200,
            one=about,
            audit=room.queue.leaks.get(about.id),
            links=room.queue.links.get(about.id, [Check(url) for url in about.evidence]),
            tries=room.queue.known.get(about.id, ()),
            mine=mine,
            others=[other for who, other in said.items() if who != reviewer] if in_dispute else [],
            fields={**values, "reason": "" if mine is None else mine.reason, **fields},
            fault=fault,
            reasons=REASONS,
            total=len(room.queue.candidates),
            place=list(room.queue.candidates).index(about.number) + 1,
            edit_open=bool(fields.get("say") == "edit") or (mine is not None and mine.say == "edit"),
        )

    async def judge(request: Request) -> Response:
        reviewer, fields = await form(request)
        about = candidate(request)
        if not reviewer:
            return RedirectResponse("/", 303, headers=_HEADERS)
        say = fields.get("say", "")
        if say not in SAYS:
            raise HTTPException(400, "A form says accept, reject or edit.")
        aliases = tuple(" ".join(line.split()) for line in fields.get("aliases", "").split("\n") if line.strip())
        wanted: dict[str, Any] = {}
        if say == "edit":
            answer = " ".join(fields.get("answer", "").split())
            wanted = {"question": fields.get("question", ""), "answer": answer, "aliases": aliases}
        opinion = Opinion(
            id=about.id,
            reviewer=reviewer,
            say=cast(Say, say),
            reason=fields.get("reason", ""),
            at=round(clock(), 3),
            **wanted,
        )
        try:
            room.add(checked(opinion, about))
        except UsageError as error:
            return one(about, reviewer, error.message[0].upper() + error.message[1:] + ".", fields)
        return RedirectResponse(_next(room, reviewer, about), 303, headers=_HEADERS)

    async def image(request: Request) -> Response:
        known(request)
        path = room.work.image(candidate(request))
        return Response(path.read_bytes(), media_type=_TYPES[path.suffix], headers=_HEADERS)

    async def snapshot(request: Request) -> Response:
        """The text of a kept page. Never the page itself: it is untrusted."""
        known(request)
        digest = request.path_params["digest"]
        line = next((one for one in evidence.fetched(room.work).values() if one.sha256 == digest), None)
        if line is None:
            raise HTTPException(404, "There is no such snapshot.")
        try:
            text = evidence.text_of(room.work, line)
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


def _row(room: Room, one: Candidate, said: Mapping[str, Opinion], reviewer: str) -> dict[str, Any]:
    """A line of the queue. Of others it tells only what is no secret any more."""
    mine = said.get(reviewer)
    enough = len(said) >= room.reviewers
    in_dispute = mine is not None and disputed(one, said, room.reviewers)
    if mine is None:
        state = "open"
    elif in_dispute:
        state = "disputed"
    elif not enough:
        state = "waits for others"
    else:
        state = "kept" if settled(one, said, room.reviewers) is not None else "dropped"
    return {"one": one, "mine": mine, "disputed": in_dispute, "state": state}


def _next(room: Room, reviewer: str, after: Candidate) -> str:
    """The reviewer's next open candidate behind this one, else the first open one, else the queue."""
    said = latest(room.opinions)
    open_ = [number for number, one in room.queue.candidates.items() if reviewer not in said.get(one.id, {})]
    if not open_:
        return "/"
    return f"/candidate/{next((number for number in open_ if number > after.number), open_[0])}"


HOST = "127.0.0.1"


def serve(work: Work, candidates: list[Candidate], reviewers: int, port: int, tell: Callable[[str], None]) -> None:
    """Show the candidates for review until Ctrl-C; every opinion is on disk when its form is answered.

    Args:
        reviewers: how many people have to judge each.
        port: 0 takes a free one.
        tell: gets one line with the address, the key in it.

    Raises:
        PreflightError: the port cannot be had. MissingExtraError: starlette or uvicorn is not installed.
        RunLockedError: another process is serving this review.
    """
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtraError(f"the review page needs {package}.", 'Install it with: pip install "snellen[view]"')
    if not candidates:
        raise PreflightError(
            "no candidate has come as far as the review", "The stages before say why they dropped them."
        )
    with RunFolder(work.folder("review")).locked():
        journal = Journal(path_of(work))
        listener = bind(HOST, port)
        try:
            asyncio.run(_serve(work, candidates, reviewers, listener, journal, tell))
        except KeyboardInterrupt:
            pass  # uvicorn has answered what was under way, and raises the signal again
        finally:
            listener.close()
            journal.close()


async def _serve(
    work: Work,
    candidates: list[Candidate],
    reviewers: int,
    listener: object,
    journal: Journal,
    tell: Callable[[str], None],
) -> None:
    import socket

    import uvicorn

    from snellen.curation.review_app import Queue, Room, build_app

    assert isinstance(listener, socket.socket)  # noqa: S101 - as `bind` gives it
    queue = Queue(
        {one.number: one for one in candidates},
        {id_: msgspec.convert(detail, Audit) for id_, detail in _details(work, "leaks").items() if detail},
        {id_: msgspec.convert(detail["links"], list[Check]) for id_, detail in _details(work, "evidence").items()},
        {id_: msgspec.convert(detail["models"], list[Tries]) for id_, detail in _details(work, "hard").items()},
    )
    room = Room(work, queue, read_all(work), journal, reviewers)
    config = uvicorn.Config(
        build_app(room), log_level="warning", limit_concurrency=50, timeout_graceful_shutdown=5, lifespan="off"
    )
    listener.listen(32)
    tell(
        f"Reviewing {len(candidates):,} candidates at http://{HOST}:{listener.getsockname()[1]}/?key={room.key} "
        "(Ctrl-C ends it)."
    )
    await uvicorn.Server(config).serve(sockets=[listener])


def _details(work: Work, stage: str) -> dict[str, dict[str, Any]]:
    found = work.stage(stage)
    return {} if found is None else {one.id: dict(one.detail) for one in found.decisions}
