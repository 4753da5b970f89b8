"""Images of a question as they were sent, beside their originals, made again by the code and settings that sent them.

An image as sent is a reproduction unless its bytes are those of the original. Where the trace of a reply names the digests of
its images, the reproduction is compared with them: equal digests mean equal bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from snellen.errors import SnellenError
from snellen.media import encode, frames, pixel_limit, read_header
from snellen.media.decode import MaskedImage, open_image
from snellen.media.encode import compress
from snellen.reports.overlay import DETAIL, Area, as_html, draw_regions
from snellen.reports.thumbnails import draw_thumbnail, unreadable_reason
from snellen.scoring.shapes import Shapes
from snellen.sources.blobs import BytesBlob, stream
from snellen.types import Blob, Image, MediaSettings, Part, Video
from snellen.viewer.index.samples import image_digest
from snellen.viewer.thumbnails import OfferedThumbnails, copy_or_placeholder

if TYPE_CHECKING:
    from markupsafe import Markup

    from snellen.viewer.site import Site

MAX_PICTURES = 24
"""Images and frames of one question that are shown."""
MAX_FILE_BYTES = 64 << 20
MAX_PIXELS = 64_000_000
STORE_BYTES = 256 << 20
_BROWSER_FORMATS = ("png", "jpeg", "webp", "gif")


@dataclass(frozen=True)
class PictureFile:
    """An image file that the page shows: its bytes' SHA-256 and its size in pixels.

    `drawn` is True if it was drawn as PNG, because browsers do not show its own format; `small` if it is a small copy by the
    digest of the samples page, of a size that is not known before it is drawn.
    """

    digest: str
    width: int
    height: int
    size: int
    mime: str
    drawn: bool = False
    small: bool = False


@dataclass(frozen=True)
class SentPicture:
    """An image as one or more runs sent it.

    Attributes:
        runs: letters of the runs' columns.
        file: None where it is the original, byte for byte.
        changes: what was done to it; empty: nothing.
        recorded: `equal` where the traces of these runs have its digest, `differs` where they have others, `unknown`
            where no trace names digests.
    """

    runs: tuple[str, ...]
    file: PictureFile | None
    changes: str
    recorded: str = "unknown"


@dataclass(frozen=True)
class ShownPicture:
    """One image or frame of the question, or a note in its place."""

    label: str
    original: PictureFile | None = None
    sent: tuple[SentPicture, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Sender:
    """A run as far as its images go: its column's letter, its media settings, the digests in its trace."""

    letter: str
    media: MediaSettings
    digests: tuple[str, ...] = ()


class ImageStore:
    """Image files by SHA-256 within a memory budget: the only images that the server hands out besides small copies.

    `bare`: originals are handed out without Exif, comments and texts, which may tell what people are asked about.
    """

    def __init__(self, budget_bytes: int = STORE_BYTES, *, bare: bool = False) -> None:
        self.bare = bare
        self._budget, self._bytes = budget_bytes, 0
        self._files: OrderedDict[str, tuple[bytes, str]] = OrderedDict()
        self._lock = Lock()

    def add(self, data: bytes, mime: str) -> str:
        """Keep a file and return its digest."""
        digest = sha256(data).hexdigest()
        with self._lock:
            if digest not in self._files:
                self._files[digest] = (data, mime)
                self._bytes += len(data)
                while self._bytes > self._budget and len(self._files) > 1:
                    self._bytes -= len(self._files.popitem(last=False)[1][0])
            self._files.move_to_end(digest)
        return digest

    def get(self, digest: str) -> tuple[bytes, str] | None:
        """Return bytes and media type; None for a digest that no page has shown lately."""
        with self._lock:
            if digest in self._files:
                self._files.move_to_end(digest)
            return self._files.get(digest)


def shown_pictures(parts: Sequence[Part], senders: Sequence[Sender], store: ImageStore) -> list[ShownPicture]:
    """Return the images of a question, at most `MAX_PICTURES`, with a note for what is left out or unreadable.

    Args:
        parts: of the question, in order.
        senders: the runs that sent them.
        store: takes the files.
    """
    groups = _by_settings(senders)
    views: list[ShownPicture] = []
    place = 0  # number of the next image in the request
    visual = [part for part in parts if isinstance(part, (Image, Video))]
    for number, part in enumerate(visual, 1):
        if len(views) >= MAX_PICTURES:
            views.append(ShownPicture("", note=f"{len(visual) - number + 1:,} more images are not shown"))
            break
        label = f"image {number}" if isinstance(part, Image) else f"video {number}"
        address = getattr(part.blob, "url", None)
        if isinstance(address, str):  # looking at a page must not make requests
            views.append(ShownPicture(label, note=f"{label} lies at an address, which is not fetched: {address[:300]}"))
            place += 1
            continue
        try:
            if isinstance(part, Image):
                views.append(_image(label, part, groups, place, store))
                place += 1
            else:
                pictures, sent = _video(label, part, groups, place, store, MAX_PICTURES - len(views))
                views += pictures
                place += sent
        except (SnellenError, OSError, ValueError) as error:
            views.append(ShownPicture(label, note=f"{label} is not shown: {unreadable_reason(error, part.blob)}"))
            place += 1
    return views


def drawn_regions(
    pictures: Sequence[ShownPicture], shapes: Shapes | None, site: Site, *, blind: bool = False
) -> Markup | None:
    """Return gold and answer on the first image of a question, or over time; None without coordinates and without an image."""
    file = next((shown.original for shown in pictures if shown.label.startswith("image ") and shown.original), None)
    image = None if shapes is None else shapes.image
    if shapes is not None and image is None:
        return as_html(draw_regions(shapes, "", blind=blind))
    if shapes is None or image is None or file is None:
        return None

    def part(area: Area) -> str | None:
        with suppress(SnellenError, OSError, ValueError):  # the picture alone is shown
            copy = Image(BytesBlob(image.blob.key, _read(image.blob)))
            drawn = draw_thumbnail(copy, 2 * max(DETAIL), 0, min(MAX_PIXELS, pixel_limit()), area)
            return site.links.image(site.images.add(*drawn))
        return None

    picture = (site.links.thumbnail if file.small else site.links.image)(file.digest)
    return as_html(draw_regions(shapes, picture, part, blind=blind))


def small_copies(parts: Sequence[Part], offered: OfferedThumbnails) -> tuple[ShownPicture, ...]:
    """Return the images of a question as small copies, which the samples page of an export shares."""
    pictures: list[ShownPicture] = []
    images: list[tuple[str, Image]] = []
    for number, part in enumerate((part for part in parts if isinstance(part, (Image, Video))), 1):
        if isinstance(part, Image):
            images.append((f"image {number}", part))
        elif part.frames:
            images += [(f"video {number}, frame {at}", frame) for at, frame in enumerate(part.frames, 1)]
        else:
            pictures.append(ShownPicture("", note=f"video {number} is not part of an export"))
    for label, image in images[:MAX_PICTURES]:
        digest = offered.offer(image_digest(image.blob.key), partial(copy_or_placeholder, partial(_same, image)))
        pictures.append(ShownPicture(label, PictureFile(digest, 0, 0, 0, "", small=True)))
    if len(images) > MAX_PICTURES:
        pictures.append(ShownPicture("", note=f"{len(images) - MAX_PICTURES:,} more images are not shown"))
    return tuple(pictures)


def _same(image: Image) -> Image:
    return image


def _by_settings(senders: Sequence[Sender]) -> list[tuple[MediaSettings, list[Sender]]]:
    groups: dict[bytes, tuple[MediaSettings, list[Sender]]] = {}
    for sender in senders:
        groups.setdefault(msgspec.json.encode(sender.media), (sender.media, []))[1].append(sender)
    return list(groups.values()) or [(MediaSettings(), [])]


def _image(
    label: str,
    image: Image,
    groups: Sequence[tuple[MediaSettings, list[Sender]]],
    place: int,
    store: ImageStore,
) -> ShownPicture:
    data = _read(image.blob)
    original = _kept(data, image.blob.key, store)
    blob: Blob = BytesBlob(image.blob.key, data)
    if isinstance(image.blob, MaskedImage):
        blob = MaskedImage(blob, image.blob.mask)
    sent: list[SentPicture] = []
    for media, senders in groups:
        try:
            encoded = encode(blob, media, min(MAX_PIXELS, pixel_limit()))
        except (SnellenError, OSError, ValueError) as error:
            note = f"cannot be reproduced: {unreadable_reason(error, image.blob)}"
            sent.append(SentPicture(tuple(sender.letter for sender in senders), None, note))
            continue
        file = None
        if encoded.changed or encoded.digest != sha256(data).hexdigest():
            digest = store.add(encoded.data, encoded.mime)
            file = PictureFile(digest, encoded.width, encoded.height, len(encoded.data), encoded.mime)
        for recorded, letters in _compared(_sent_digests(blob, encoded.digest, media, senders), senders, place).items():
            sent.append(SentPicture(tuple(letters), file, encoded.changed, recorded))
    return ShownPicture(label, original, _merged(sent))


def _video(
    label: str,
    video: Video,
    groups: Sequence[tuple[MediaSettings, list[Sender]]],
    place: int,
    store: ImageStore,
    space: int,
) -> tuple[list[ShownPicture], int]:
    """Return the frames of a clip, and how many images of the request they are (those of the first settings)."""
    pictures: list[ShownPicture] = []
    most = 0
    for number, (media, senders) in enumerate(groups):
        letters = tuple(sender.letter for sender in senders)
        native = media.video == "native"
        images = frames(video, MediaSettings() if native else media)
        most = len(images) if number == 0 else most
        whose = f" of {', '.join(letters)}" if len(groups) > 1 and letters else ""
        for at, frame in enumerate(images[:space]):
            data = _read(frame.blob)
            if video.blob is None and not native:
                picture = _image("", frame, [(media, senders)], place + at, store)
            else:
                digest = sha256(data).hexdigest()
                sent = tuple(
                    SentPicture(tuple(names), None, "", recorded)
                    for recorded, names in _compared(frozenset((digest,)), senders, place + at).items()
                )
                picture = ShownPicture("", _kept(data, frame.blob.key, store), () if native else sent)
            pictures.append(replace(picture, label=f"{label}, frame {at + 1} of {len(images)}{whose}{_moment(frame)}"))
        if len(images) > space:
            pictures.append(ShownPicture(label, note=f"{len(images) - space:,} more frames{whose} are not shown"))
        if native:
            note = f"{label} was sent as a file{whose}; these are frames of it"
            pictures.append(ShownPicture(label, note=note))
    return pictures, most


def _moment(frame: Image) -> str:
    """Return when a frame of a file is shown, for its label."""
    seconds = getattr(frame.blob, "seconds", None)
    return "" if seconds is None else f", {seconds:.1f} s"


def _sent_digests(blob: Blob, digest: str, media: MediaSettings, senders: Sequence[Sender]) -> frozenset[str]:
    """Return the digest of an image's file, and where a trace has others that of its pixels: local models record those."""
    if all(not sender.digests or digest in sender.digests for sender in senders):
        return frozenset((digest,))
    try:
        pixels = open_image(Image(blob), media, min(MAX_PIXELS, pixel_limit())).tobytes()
    except (SnellenError, OSError, ValueError):
        return frozenset((digest,))
    return frozenset((digest, sha256(pixels).hexdigest()))


def _compared(digests: frozenset[str], senders: Sequence[Sender], place: int) -> Mapping[str, list[str]]:
    """Return the letters of the runs by how the digests compare with those in their traces."""
    groups: dict[str, list[str]] = {}
    for sender in senders:
        if not sender.digests:
            state = "unknown"
        elif place < len(sender.digests) and sender.digests[place] in digests:
            state = "equal"
        else:
            state = "equal" if digests.intersection(sender.digests) else "differs"
        groups.setdefault(state, []).append(sender.letter)
    return groups or {"unknown": []}


def _merged(sent: Sequence[SentPicture]) -> tuple[SentPicture, ...]:
    """Return the pictures with equal ones of several settings together."""
    merged: dict[tuple[object, ...], SentPicture] = {}
    for picture in sent:
        key = (picture.file, picture.changes, picture.recorded)
        before = merged.get(key)
        merged[key] = picture if before is None else replace(before, runs=before.runs + picture.runs)
    return tuple(merged.values())


def _read(blob: Blob) -> bytes:
    with stream(blob) as source:
        data: bytes = source.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"more than {MAX_FILE_BYTES:,} bytes")
    return data


def _kept(data: bytes, key: str, store: ImageStore) -> PictureFile:
    """Keep an original as it is where browsers show its format, else as PNG of the same pixels."""
    header = read_header(data)
    limit = min(MAX_PIXELS, pixel_limit())
    if header is not None and header.format in _BROWSER_FORMATS:
        if store.bare and header.width * header.height <= limit:
            from snellen.questions.image_rows import strip_metadata  # pages of runs do without taxonomies

            data = strip_metadata(data, key)
            header = read_header(data) or header
        width, height = header.upright_size
        if width * height > limit:
            raise ValueError(f"{width:,} × {height:,} pixels; {limit:,} are decoded at most")
        mime = f"image/{header.format}"
        return PictureFile(store.add(data, mime), width, height, len(data), mime)
    picture = open_image(Image(BytesBlob(key, data)), MediaSettings(), limit)
    drawn = compress(picture, "png", 100)
    return PictureFile(store.add(drawn, "image/png"), *picture.size, len(drawn), "image/png", drawn=True)
