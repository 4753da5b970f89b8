"""The local collection: a folder of pages and images, indexed once into the user's cache.

Pages: `.html`, `.htm`, `.txt`, `.md`, and `.json` or `.jsonl` with `url`, `title`, `text` and, where a page shows
images, `images` (paths under the folder). A page without an address gets `https://pages.invalid/PATH`, an image the
same; that name never resolves (RFC 2606), so it cannot be taken for the real one. The index lies under the digest of the
folder: a folder that changed gets an index of its own.

The local backend: a collection that was indexed, searched without any network.

Full-text search by BM25, computed by bm25s: its scores are worked out beforehand, so that a query adds up numpy arrays.
Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", equation 3.15, with k1 = 1.2 and
b = 0.75, and the inverse document frequency ln(1 + (N - df + 0.5) / (df + 0.5)), which is never negative (`lucene` in
bm25s, which leaves out the constant factor k1 + 1). A word of the title counts as TITLE words of the text. Words are split
here, since bm25s knows no language without spaces; so are ties broken, which its `retrieve` leaves open.
"""

from __future__ import annotations

import os
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

import msgspec
import numpy as np
from msgspec import Struct

from snellen.atomic_write import part_folder
from snellen.errors import DataError, MediaError, StorageError
from snellen.media import open_image
from snellen.models.tools.base import Hit, ImageHit, Page, ToolError
from snellen.models.tools.html_text import decoded, read_page, tidy
from snellen.models.tools.images import MAX_PIXELS, SUFFIXES
from snellen.models.tools.perceptual_hash import HashIndex, Words, similarity, stacked, variants
from snellen.sources import BytesBlob, cache_folder, digest, within
from snellen.sources.blobs import FileBlob
from snellen.text import normalized
from snellen.types import Image, MediaSettings

if TYPE_CHECKING:
    from bm25s import BM25


# Goes into the index's name: an index of another form is made anew.
FORM = "3"
HOST = "https://pages.invalid/"
LARGEST_PAGE = 20_000_000
_IMAGE_SUFFIXES = frozenset(f".{suffix}" for suffix in (*SUFFIXES.values(), "jpeg", "tiff"))
_TABLES = """
create table pages (id integer primary key, url text unique, title text, text text, links text, images text);
create table pictures (id integer primary key, url text unique, path text, page text, title text);
"""


class _PageRow(Struct, frozen=True):
    """A page as JSON holds it."""

    text: str
    url: str = ""
    title: str = ""
    images: tuple[str, ...] = ()


def address(path: str) -> str:
    """Return the address of a file of the collection that has none of its own; `path` is relative, with `/`."""
    return HOST + quote(path)


def build(folder: Path) -> Path:
    """Return the folder of the collection's index, made where it is not there yet.

    Raises:
        DataError: no such folder, a page that cannot be read (with its line), two pages with one address, or no page
            and no image at all.
        StorageError: the cache cannot be written.
    """
    if not folder.is_dir():
        raise DataError(f"the collection {folder} is not a folder", "Name a folder of pages and images.")
    place = cache_folder() / "tools" / f"{digest(folder).rpartition(':')[2][:32]}-{FORM}"
    if (place / "pages.sqlite").exists():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with part_folder(place.parent, "building-") as building:
            part = building / "index"
            part.mkdir()
            write_index(folder, part)
            try:
                part.rename(place)
            except OSError:
                if not (place / "pages.sqlite").exists():  # otherwise somebody else was faster, with the same index
                    raise
    except OSError as error:
        raise StorageError(f"the index cannot be written to {place.parent}: {error.strerror}") from error
    return place


def write_index(folder: Path, part: Path) -> None:
    """Index a collection into a folder that is there. Errors as of `build`."""
    names = sorted(_names(folder))
    database = sqlite3.connect(part / "pages.sqlite")
    try:
        database.executescript(_TABLES)
        pages_by_image: dict[str, tuple[str, str]] = {}
        texts: list[tuple[str, str]] = []
        for name in names:
            for page, own in _pages(folder, name):
                row = (len(texts), page.url, page.title, page.text, _json(page.links), _json(page.images))
                try:
                    database.execute("insert into pages values (?, ?, ?, ?, ?, ?)", row)
                except sqlite3.IntegrityError:
                    raise DataError(f"{folder / name}: a second page has the address {page.url}") from None
                texts.append((page.title, page.text))
                for image in own:
                    pages_by_image.setdefault(image, (page.url, page.title))
        hashes, rows = _images(folder, names, pages_by_image)
        if not texts and not rows:
            raise DataError(
                f"the collection {folder} holds no page and no image", "`snellen --help tools` says what it reads."
            )
        database.executemany("insert into pictures values (?, ?, ?, ?, ?)", rows)
        database.commit()
    finally:
        database.close()
    if texts:
        write_bm25(texts, part)
    np.save(part / "hashes.npy", stacked(hashes))


def _names(folder: Path) -> Iterator[str]:
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith("."):
                yield (Path(top) / name).relative_to(folder).as_posix()


def _pages(folder: Path, name: str) -> Iterator[tuple[Page, list[str]]]:
    """Yield the pages of one file, each with the images under the folder that it shows."""
    kind = Path(name).suffix.lower()
    if kind not in (".html", ".htm", ".txt", ".md", ".json", ".jsonl"):
        return
    path = within(folder, name)
    data = path.read_bytes()
    if len(data) > LARGEST_PAGE and kind != ".jsonl":
        raise DataError(f"{path} has {len(data):,} bytes; a page has at most {LARGEST_PAGE:,}")
    if kind in (".json", ".jsonl"):
        yield from _rows(folder, name, data, lines=kind == ".jsonl")
    elif kind in (".html", ".htm"):
        page = read_page(decoded(data, None), address(name))
        own = [unquote(url.removeprefix(HOST)) for url, _ in page.images if url.startswith(HOST)]
        yield (page if page.title else msgspec.structs.replace(page, title=Path(name).stem)), own
    else:
        text = tidy(data.decode("utf-8", "replace"))
        first = text.partition("\n")[0].lstrip("# ")
        yield Page(address(name), first[:300] or Path(name).stem, text), []


def _rows(folder: Path, name: str, data: bytes, lines: bool) -> Iterator[tuple[Page, list[str]]]:
    pieces = [line for line in data.splitlines() if line.strip()] if lines else [data]
    for number, piece in enumerate(pieces, 1):
        where = f"{folder / name}, line {number}" if lines else str(folder / name)
        try:
            row = msgspec.json.decode(piece, type=_PageRow)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise DataError(f"{where}: not a page: {error}", "It must be an object with text, url and title.") from None
        own = []
        for image in row.images:
            if not within(folder, image).is_file():
                raise DataError(f"{where}: the image {image!r} is not under {folder}")
            own.append(Path(image).as_posix())
        url = row.url or address(name) + (f"#{number}" if lines else "")
        yield Page(url, row.title, row.text, images=tuple((address(path_of_image), "") for path_of_image in own)), own


def _images(
    folder: Path, names: list[str], pages_by_image: dict[str, tuple[str, str]]
) -> tuple[list[Words], list[tuple[int, str, str, str, str]]]:
    """Return hashes and rows of all images, in the same order. Flat and damaged ones cannot be searched for and are left out."""
    hashes: list[Words] = []
    rows: list[tuple[int, str, str, str, str]] = []
    for name in names:
        if Path(name).suffix.lower() not in _IMAGE_SUFFIXES:
            continue
        path = within(folder, name)
        try:
            hashed = variants(open_image(Image(FileBlob(path)), MediaSettings(), MAX_PIXELS))
        except MediaError:
            continue
        if hashed is not None:
            page, title = pages_by_image.get(name, ("", ""))
            rows.append((len(rows), address(name), name, page, title))
            hashes.append(hashed)
    return hashes, rows


def _json(pairs: tuple[tuple[str, str], ...]) -> str:
    return msgspec.json.encode(pairs).decode()


PAIRS = tuple[tuple[str, str], ...]


class IndexedImage(NamedTuple):
    """An image of a collection: its address, its path under the folder, and the page that shows it, if any."""

    url: str
    path: str
    page: str
    title: str


class LocalBackend:
    """Pages and images of a collection.

    Args:
        folder: the collection; images are read from it when they are fetched.
        index: what `collection.build` made of it.

    Raises:
        DataError: the index is not there or damaged.
    """

    def __init__(self, folder: Path, index: Path) -> None:
        self._folder = folder
        try:
            self._database = sqlite3.connect(
                f"{(index / 'pages.sqlite').absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
            has_pages = self._database.execute("select 1 from pages").fetchone() is not None
            self._texts = open_index(index) if has_pages else None
            self._hashes = HashIndex(np.asarray(np.load(index / "hashes.npy", mmap_mode="r")))
        except (OSError, ValueError, sqlite3.Error) as error:
            raise DataError(
                f"the index {index} cannot be read: {error}", "Delete the folder; it is made anew from the collection."
            ) from None

    async def search(self, query: str, k: int) -> list[Hit]:
        """Return the k best pages by BM25."""
        return self.find(query, k)

    def find(self, query: str, k: int) -> list[Hit]:
        """Search as `search` does, for callers without an event loop."""
        if self._texts is None:
            return []
        words = split_words(query)
        hits = []
        for number in best_pages(self._texts, words, k):
            row = self._database.execute(
                "select url, title, substr(text, 1, 8000) from pages where id = ?", (number,)
            ).fetchone()
            hits.append(Hit(row[0], row[1], snippet(row[2], words)))
        return hits

    async def fetch(self, url: str) -> Page:
        """Return a page or image of the collection, by its address."""
        row = self._database.execute("select title, text, links, images from pages where url = ?", (url,)).fetchone()
        if row is not None:
            links, images = (msgspec.json.decode(text, type=PAIRS) for text in row[2:])
            return Page(url, row[0], row[1], links, images)
        row = self._database.execute("select path, title from pictures where url = ?", (url,)).fetchone()
        if row is not None:
            return Page(url, row[1], data=within(self._folder, row[0]).read_bytes())
        raise ToolError(f"{url[:300]} is not in the collection; fetch addresses that a search gave")

    def images(self) -> list[IndexedImage]:
        """Return the images that can be searched for, in the order of their numbers."""
        rows = self._database.execute("select url, path, page, title from pictures order by id")
        return [IndexedImage(*row) for row in rows]

    async def reverse(self, data: bytes, k: int) -> list[ImageHit]:
        """Return near-duplicates of an image, nearest first."""
        try:
            hashed = variants(open_image(Image(BytesBlob("the picture", data)), MediaSettings(), MAX_PIXELS), True)
        except MediaError as error:
            raise ToolError(error.message) from None
        if hashed is None:
            raise ToolError("the picture is of one colour; there is nothing to search by")
        hits = []
        for number, distance in self._hashes.nearest(hashed, k):
            url, page, title = self._database.execute(
                "select url, page, title from pictures where id = ?", (number,)
            ).fetchone()
            hits.append(ImageHit(page or url, title, url, similarity(distance), "local"))
        return hits


K1, B, TITLE = 1.2, 0.75, 3
LONGEST_WORD = 64

# Chinese, Japanese and Thai put no space between words: there, pairs of characters stand for words.
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_PIECE = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")
_WITHOUT_SPACES = re.compile(f"[{_UNSPACED}]")


def split_words(text: str) -> list[str]:
    """Return the words of a text: lower case, accents dropped, in order."""
    if not text.isascii():
        text = normalized("NFKD", text)
        text = "".join(character for character in text if not unicodedata.combining(character))
        text = unicodedata.normalize("NFC", text)
    words: list[str] = []
    for piece in _PIECE.findall(text.lower()):
        if _WITHOUT_SPACES.match(piece):
            words += [piece[at : at + 2] for at in range(len(piece) - 1)] or [piece]
        else:
            words.append(piece[:LONGEST_WORD])
    return words


def write_bm25(texts: Iterable[tuple[str, str]], folder: Path) -> None:
    """Index pages into a folder that `open_index` reads.

    Args:
        texts: (title, text) of the pages, in the order of their numbers; at least one.
        folder: it is there already.
    """
    from bm25s import BM25

    corpus = [split_words(title) * TITLE + split_words(text) for title, text in texts]
    if not any(corpus):
        corpus = [[""] for _ in corpus]  # bm25s cannot index pages without any word
    index = BM25(k1=K1, b=B, method="lucene")
    index.index(corpus, show_progress=False)
    index.save(folder, show_progress=False)


def open_index(folder: Path) -> BM25:
    """Open an index by mapping its files.

    Raises:
        OSError, ValueError: its files are missing or damaged.
    """
    from bm25s import BM25

    index = BM25.load(folder, mmap=True)
    # Plain arrays over the mapped files: numpy's own class for them costs more at every slice.
    index.scores.update({name: np.asarray(index.scores[name]) for name in ("data", "indices", "indptr")})
    return index


def best_pages(index: BM25, query: Sequence[str], k: int) -> list[int]:
    """Return numbers of the k best pages, best first, ties by number; pages without any of the words are left out.

    Args:
        index: as `open_index` returned it.
        query: words, as `split_words` returns them; each counts once.
        k: how many at most.
    """
    words = index.get_tokens_ids(list(dict.fromkeys(query)))
    if not words:
        return []
    total = index.get_scores_from_ids(words)
    few = min(k, len(total))
    least = np.partition(total, len(total) - few)[len(total) - few] if few else 0.0
    candidates = np.flatnonzero(total >= max(least, np.finfo(np.float32).tiny))
    return [int(number) for number in candidates[np.argsort(-total[candidates], kind="stable")[:k]]]


def snippet(text: str, query: Sequence[str], length: int = 240) -> str:
    """Return about `length` characters of a text around the first word of the query that occurs in it, on one line."""
    # Lower case has the length of the text nearly always; where it has not, the snippet begins a little beside the word.
    looked = text.lower()
    at = min((place for word in dict.fromkeys(query) if (place := looked.find(word)) >= 0), default=-1)
    start = max(0, at - length // 3)
    if start:
        start = text.find(" ", start, at) + 1 or start
    piece = " ".join(text[start : start + length].split())
    return ("… " if start else "") + piece + (" …" if start + length < len(text) else "")
