"""Fifty drawn candidates, an endpoint that knows some of them by sight, and a small web that knows some of the pictures.

What must happen to each follows from its number:
    0-4    the endpoint names it: dropped as known
    5-7    a page of the web shows its picture and names it: leaked
    8      the same question about the same picture as candidate 9: a twin
    10-13  its page does not name it, 14 has none, 15's page is gone: no evidence
    the rest comes to the review
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path

from PIL import Image

from snellen.benchmarks.chart.write_images import portraits

COUNT = 50
KNOWN, LEAKED, UNSUPPORTED = range(5), range(5, 8), range(10, 16)
TWIN, ITS_TWIN, NO_LINK, GONE = 9, 8, 14, 15
QUESTION = "Which creature is this?"
REVIEWED = [n for n in range(COUNT) if n not in (*KNOWN, *LEAKED, TWIN, *UNSUPPORTED)]


def answer(number: int) -> str:
    """A made-up name that no other candidate has."""
    if number == TWIN:
        number = ITS_TWIN
    return f"{('Amber', 'Cobalt', 'Dusky', 'Ivory', 'Mottled')[number % 5]} {('Brindle', 'Corvane', 'Dapperling', 'Ergot', 'Fennick', 'Gorse', 'Hullock', 'Ibbet', 'Jarrow', 'Kestlin')[number // 5]}"


def make(folder: Path) -> Path:
    """Pictures, candidates.jsonl, pages/ with pages.jsonl, and web/, the collection that is searched. Returns `folder`."""
    images, pages, web = (folder / name for name in ("images", "pages", "web"))
    for one in (images, pages, web):
        one.mkdir(parents=True)
    drawn = pictures()
    drawn[TWIN] = drawn[ITS_TWIN]
    rows, saved, site = [], [], []
    for number, data in enumerate(drawn):
        name = f"{answer(number).lower().replace(' ', '-')}-{number}.jpg"  # a name that gives the answer away
        (images / name).write_bytes(with_exif(data))
        url = f"https://sources.example/{number}"
        links = [] if number == NO_LINK else [url]
        rows.append(
            {
                "id": f"{answer(number)} {number}",
                "image": name,
                "question": QUESTION,
                "answer": answer(number),
                "aliases": [f"Creatura numerica {number}"],
                "evidence": links,
                "domain": ("Nature", "Culture")[number % 2],
                "subcategory": ("Meadow", "Marsh", "Hill")[number % 3],
                "source": "public_source",
                "language": "en",
            }
        )
        text = f"Keepers know the {answer(number)}s by their stripes." if number not in UNSUPPORTED else "Nothing here."
        (pages / f"{number}.html").write_text(
            f"<html><head><title>Page {number}</title><script>var a = '{answer(number)}'</script></head>"
            f"<body><p>A page.</p><p>{text}</p></body></html>"
        )
        if number != GONE:
            saved.append(
                {"url": url, "file": f"{number}.html", "content_type": "text/html", "date": "Sat, 02 May 2026"}
            )
        shown = f"shown/{number}.jpg"
        (web / "shown").mkdir(exist_ok=True)
        if number in LEAKED:
            Image.open(io.BytesIO(data)).convert("RGB").save(web / shown, quality=60)
            site.append(
                {
                    "url": f"https://web.example/{number}",
                    "title": f"My {answer(number)}!",
                    "text": "A photograph.",
                    "images": [shown],
                }
            )
        elif number == 20:  # the same picture, without a name: flagged, and kept
            Image.open(io.BytesIO(data)).convert("RGB").save(web / shown, quality=60)
            site.append(
                {"url": "https://web.example/album", "title": "An album", "text": "Pictures.", "images": [shown]}
            )
    (folder / "candidates.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (pages / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in saved))
    (web / "site.jsonl").write_text("".join(json.dumps(row) + "\n" for row in site))
    return folder


def pictures() -> list[bytes]:
    """Fifty different creatures, as JPEG."""
    found = []
    for _, _, png in islice(portraits(2, size=160), COUNT):
        out = io.BytesIO()
        Image.open(io.BytesIO(png)).convert("RGB").save(out, "JPEG", quality=95)
        found.append(out.getvalue())
    return found


def with_exif(data: bytes) -> bytes:
    """The same picture with a name in its Exif."""
    exif = Image.Exif()
    exif[0x010E] = "named in the description"
    out = io.BytesIO()
    Image.open(io.BytesIO(data)).save(out, "JPEG", quality=95, exif=exif)
    return out.getvalue()


def as_csv(folder: Path) -> Path:
    """The same candidates as CSV."""
    rows = [json.loads(line) for line in (folder / "candidates.jsonl").read_text().splitlines()]
    path = folder / "candidates.csv"
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        for row in rows:
            table.writerow({**row, "aliases": "|".join(row["aliases"]), "evidence": "|".join(row["evidence"])})
    return path


@contextmanager
def endpoint(replies: dict[str, list[str]], seconds: float = 300, delay_s: float = 0.0) -> Iterator[Endpoint]:
    """An OpenAI-compatible endpoint that answers by the picture's digest; `replies` are given in turn. It ends by itself."""
    server = Endpoint(replies, seconds, delay_s)
    try:
        yield server
    finally:
        server.close()


class Endpoint:
    """`url`, and `asked`: how many questions it was asked. A reply `!` is an HTTP 500."""

    def __init__(self, replies: dict[str, list[str]], seconds: float, delay_s: float = 0.0) -> None:
        self.replies, self.asked, self._delay_s = replies, 0, delay_s
        self._turn: dict[str, int] = {}
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._timer = threading.Timer(seconds, self.close)
        self._timer.daemon = True
        self._timer.start()
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._timer.cancel()
        self._http.shutdown()
        self._http.server_close()

    def reply(self, body: dict) -> str:
        content = body["messages"][-1]["content"]
        parts = (
            [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
            if isinstance(content, list)
            else []
        )
        digest = hashlib.sha256(base64.b64decode(parts[0].partition(",")[2])).hexdigest() if parts else "text"
        with self._lock:
            self.asked += 1
            turn = self._turn[digest] = self._turn.get(digest, 0) + 1
        time.sleep(self._delay_s)
        said = self.replies.get(digest, self.replies.get("", ["I do not know."]))
        return said[(turn - 1) % len(said)]


def _handler(server: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

        def do_GET(self) -> None:
            self._send({"object": "list", "data": [{"id": name} for name in ("stub", "other", "judge")]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = server.reply(body) if "messages" in body else "!"  # what asks before a run whether the key is good
            if text == "!":
                self._send({"error": {"message": "scripted"}}, 400)
                return
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            self._send({"id": "c", "object": "chat.completion", "choices": [choice], "usage": {}})

        def _send(self, body: dict, status: int = 200) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
