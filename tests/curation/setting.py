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
from http.server import BaseHTTPRequestHandler
from itertools import islice
from pathlib import Path

from PIL import Image

from servers.loopback import ChatHandler, LoopbackServer
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


class Endpoint(LoopbackServer):
    """A model that answers by the picture's digest, each of `replies` in turn; `!` is an HTTP 400.

    `asked` counts its questions. It ends by itself.
    """

    def __init__(self, replies: dict[str, list[str]], seconds: float = 300, delay_s: float = 0.0) -> None:
        self.replies, self.asked, self._delay_s = replies, 0, delay_s
        self._turn: dict[str, int] = {}
        self._lock = threading.Lock()
        super().__init__(_handler(self), seconds)

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
    class Handler(ChatHandler):
        models = ("stub", "other", "judge")

        def chat(self, body: dict) -> None:
            text = server.reply(body)
            if text == "!":
                self.send_json({"error": {"message": "scripted"}}, 400)
            else:
                self.send_completion(text)

    return Handler
