"""Verify a built set: recount every claim from its files, independently of the builder."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import lru_cache
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.benchmarks.generated.manifest import COLUMNS, PICTURES, QUESTIONS, TAXONOMY, Manifest, read_manifest
from snellen.errors import DataError
from snellen.questions.image_rows import has_metadata
from snellen.questions.render import ROWS, QuestionRecord
from snellen.questions.taxonomy import key
from snellen.questions.templates import article
from snellen.sources import parquet
from snellen.sources.safe_paths import regular_file

NEUTRAL = re.compile(r"\d{6,}\.[a-z]{3,4}")
SHOWN = 5

CLAIMS: Mapping[str, str] = {
    "files": "every file has the digest of the manifest, and the question files say what the table says",
    "ids": "no id is there twice",
    "duplicates": "no question (image and text) is asked twice",
    "answer": "exactly one option is right, and it is the target; yes where the asked class is the label, else no",
    "balance": "yes and no are equally many, to one, for each part and each class",
    "positions": "the right option stands equally often, to one, in each place, for each part and each class",
    "overlap": "no option holds another's text",
    "negatives": "every wrong class is a class of the level, and is related to the label as recorded",
    "leak": "no image's name holds a label, no prompt holds an image's name or path, or the answer where none is given",
    "articles": "a and an stand before the asked class as it is spoken",
    "images": "copied images are there and carry no Exif, comments or texts",
}


class VerifiedClaim(Struct, frozen=True):
    """One claim: the number of cases, the number that break it, and the first examples."""

    name: str
    text: str
    cases: int
    faults: int
    examples: tuple[str, ...] = ()


class PartFigures(Struct, frozen=True):
    """Counts of one part.

    `sibling_share` is of all wrong classes, None where no class is wrong; `yes` for truth, `places` for choice.
    """

    part: str
    questions: int
    yes: int | None
    places: tuple[int, ...]
    sibling_share: float | None
    cousin_share: float | None
    stems: tuple[int, ...]


class VerificationReport(Struct, frozen=True):
    """The outcome of a verification."""

    name: str
    questions: int
    parts: tuple[PartFigures, ...]
    claims: tuple[VerifiedClaim, ...]

    @property
    def holds(self) -> bool:
        """Return True if no claim is broken."""
        return not any(claim.faults for claim in self.claims)


def verify_set(folder: Path) -> VerificationReport:
    """Verify a set and return all claims.

    Raises:
        DataError: there is no set in the folder, or a file of it cannot be read.
    """
    manifest = read_manifest(folder)
    tally = _Tally(folder, manifest)
    with ExitStack() as stack:
        lines = _record_lines(folder, manifest, stack)
        for row in _rows(folder / QUESTIONS):
            tally.add(row, next(lines, None))
        tally.rest(sum(1 for _ in lines))
    tally.files()
    tally.pictures()
    return tally.report()


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with parquet.opened(path, path, "Build the set again.") as table:
        for batch in table.batches(ROWS // 8, list(COLUMNS)):
            yield from parquet.to_rows(batch)


def _record_lines(folder: Path, manifest: Manifest, stack: ExitStack) -> Iterator[QuestionRecord | None]:
    """Yield the records of all question files in the order of the table; None for an unparseable line."""
    decode = msgspec.json.Decoder(QuestionRecord).decode
    for part in manifest.parts:
        path = folder / part.file
        regular_file(path)
        for line in stack.enter_context(path.open("rb")):
            try:
                yield decode(line)
            except (msgspec.DecodeError, RecursionError):
                yield None


def kinship(taxonomy: Mapping[str, tuple[str, ...]], label: str, other: str) -> str:
    """Return the relation of two classes of a level: sibling, cousin or other, from their ancestors."""
    ancestors, other_ancestors = taxonomy.get(label), taxonomy.get(other)
    if ancestors is None or other_ancestors is None:
        return "unknown"
    if ancestors and ancestors == other_ancestors:
        return "sibling"
    return "cousin" if len(ancestors) > 1 and ancestors[:-1] == other_ancestors[:-1] else "other"


class _Tally:
    """Counters filled while the table is read once."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.cases: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}
        self.ids: set[int] = set()
        self.asked: set[int] = set()
        self.yes: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self.places: defaultdict[tuple[str, int, str], Counter[int]] = defaultdict(Counter)
        self.stems: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.kin: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.parts: Counter[str] = Counter()
        self.above = _above(folder / TAXONOMY, manifest)
        self.images: set[str] = set()
        self.holds: dict[tuple[str, ...], bool] = {}

    def fault(self, claim: str, text: str) -> None:
        self.faults[claim] += 1
        if len(self.examples.setdefault(claim, [])) < SHOWN:
            self.examples[claim].append(text)

    def add(self, row: dict[str, Any], record: QuestionRecord | None) -> None:
        """Count one question, and compare it with its line of the question file."""
        name, part = row["id"], row["id"].rpartition("/")[0]
        number = row["id"].rpartition("/")[2]
        self.parts[part] += 1
        for claim in ("files", "ids", "duplicates", "answer", "leak"):
            self.cases[claim] += 1
        same = record is not None and (record.image, record.text, record.klass, str(record.question_id)) == (
            row["image"],
            row["text"],
            row["target"],
            number,
        )
        if not same:
            self.fault("files", f"{name}: its line in the question file differs")
        for claim, codes, text in (
            ("ids", self.ids, name),
            ("duplicates", self.asked, f"{row['image']}\0{row['text']}"),
        ):
            code = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
            if code in codes:
                self.fault(claim, f"{name}: {row['text']!r} about {row['image']} is duplicated")
            codes.add(code)
        self.stems[part][row["stem"]] += 1
        self._leak(row)
        if row["kind"] == "choice":
            self._choice(row, part)
        elif row["kind"] == "truth":
            self._truth(row, part)
        elif row["target"] != row["label"]:
            self.fault("answer", f"{name}: the target {row['target']!r} is not the label {row['label']!r}")

    def _truth(self, row: dict[str, Any], part: str) -> None:
        right = row["asked"] == row["label"]
        if row["target"] != ("yes" if right else "no"):
            self.fault(
                "answer", f"{row['id']}: {row['asked']!r} is asked of a {row['label']!r}, target {row['target']}"
            )
        if row["asked"].casefold() not in row["text"].casefold():
            self.fault("answer", f"{row['id']}: {row['asked']!r} is not in the question {row['text']!r}")
        self.yes[part, row["label"]][right] += 1
        if not right:
            self._related(row, part, [row["asked"]], row["kinship"])
        if self.manifest.settings.get("words"):
            return  # the articles of imported words are their authors'
        self.cases["articles"] += 1
        before = row["text"].partition(f" {row['asked']}")[0].rpartition(" ")[2].casefold()
        if before in ("a", "an") and before != article(row["asked"]):
            self.fault("articles", f"{row['id']}: {row['text']!r}")

    def _choice(self, row: dict[str, Any], part: str) -> None:
        options, right = row["options"], row["right"]
        good = 0 <= right < len(options) and options[right] == row["target"] == row["label"]
        if not good or options.count(row["label"]) != 1 or len(options) < 2:
            self.fault("answer", f"{row['id']}: {row['target']!r} is not exactly one of {', '.join(options)}")
        if not all(option in row["text"] for option in options):
            self.fault("answer", f"{row['id']}: not every option is in the question")
        self.places[part, len(options), row["label"]][right] += 1
        # All values of an attribute may hold one another's names: `hooked` and `hooked seabird` of CUB's bills.
        every = row["ask"] == "attribute" and self.manifest.settings.get("attribute_options") == "all"
        self.cases["overlap"] += not every
        if not every and _overlap(options):
            self.fault("overlap", f"{row['id']}: {', '.join(options)}")
        wrong = [option for at, option in enumerate(options) if at != right]
        kin = [relation for at, relation in enumerate(row["kinship"]) if at != right]
        self._related(row, part, wrong, kin)

    def _related(self, row: dict[str, Any], part: str, wrong: list[str], recorded: list[str]) -> None:
        counts = self.kin[part]
        for other, recorded_kinship in zip(wrong, recorded, strict=False):
            self.cases["negatives"] += 1
            counts[recorded_kinship] += 1
            actual = "other" if row["ask"] == "attribute" else kinship(self.above[row["depth"]], row["label"], other)
            if actual != recorded_kinship:
                self.fault("negatives", f"{row['id']}: {other!r} is recorded as {recorded_kinship}, and is {actual}")
        totals = (recorded.count("sibling"), recorded.count("cousin"), recorded.count("other"))
        if len(wrong) != len(recorded) or totals != (row["siblings"], row["cousins"], row["others"]):
            self.fault("negatives", f"{row['id']}: the counts of siblings, cousins and others are not those of its row")

    def _leak(self, row: dict[str, Any]) -> None:
        image, text = row["image"], row["text"]
        self.images.add(image)
        if not NEUTRAL.fullmatch(image):
            self.fault("leak", f"{row['id']}: the image is called {image!r}")
        stem = row["source"].rpartition("/")[2].rpartition(".")[0]
        if image in text or row["source"] in text or (len(stem) > 3 and stem != row["label"] and f" {stem} " in text):
            self.fault("leak", f"{row['id']}: the question names its image: {text!r}")
        if row["kind"] == "short":
            prompt_key = (text, row["label"])
            if prompt_key not in self.holds:
                self.holds[prompt_key] = f" {key(row['label'])} " in f" {re.sub(r'[^a-z0-9 ]', ' ', key(text))} "
            if self.holds[prompt_key]:
                self.fault("leak", f"{row['id']}: the question names its answer: {text!r}")

    def rest(self, extra_lines: int) -> None:
        """Report lines of the question files beyond the last row of the table."""
        if extra_lines:
            self.fault("files", f"the question files have {extra_lines:,} more lines than the table")

    def files(self) -> None:
        """Compare digests and counts with the manifest."""
        for name, wanted in self.manifest.files.items():
            self.cases["files"] += 1
            path = self.folder / name
            regular_file(path)
            with path.open("rb") as data:
                digest = file_digest(data, "sha256").hexdigest()
            if digest != wanted:
                self.fault("files", f"{name}: its digest is not that of {wanted[:12]}... in the manifest")
        if sum(self.parts.values()) != self.manifest.questions:
            self.fault(
                "files", f"{sum(self.parts.values()):,} questions; the manifest says {self.manifest.questions:,}"
            )

    def pictures(self) -> None:
        """Check every copied image."""
        if not self.manifest.copied:
            return
        for name in sorted(self.images):
            self.cases["images"] += 1
            path = self.folder / PICTURES / name
            if not path.is_file():
                self.fault("images", f"{name} is missing")
            elif has_metadata(path.read_bytes()):
                self.fault("images", f"{name} carries metadata")

    def report(self) -> VerificationReport:
        yes: dict[str, list[int]] = {}
        for (part, label), counts in self.yes.items():
            self.cases["balance"] += 1
            total = yes.setdefault(part, [0, 0])
            total[0] += counts[0]
            total[1] += counts[1]
            if abs(counts[0] - counts[1]) > 1:
                self.fault("balance", f"{part}, {label}: {counts[1]} yes, {counts[0]} no")
        for part, (no, right) in yes.items():
            if abs(no - right) > 1:
                self.fault("balance", f"{part}: {right} yes, {no} no")
        places = self._positions()
        parts = []
        for part, n in self.parts.items():
            kin, stems = self.kin.get(part, Counter()), self.stems[part]
            wrong = sum(kin.values())
            parts.append(
                PartFigures(
                    part=part,
                    questions=n,
                    yes=yes[part][1] if part in yes else None,
                    places=places.get(part, ()),
                    sibling_share=kin["sibling"] / wrong if wrong else None,
                    cousin_share=kin["cousin"] / wrong if wrong else None,
                    stems=tuple(stems[at] for at in sorted(stems)),
                )
            )
        claims = tuple(
            VerifiedClaim(name, text, self.cases[name], self.faults[name], tuple(self.examples.get(name, ())))
            for name, text in CLAIMS.items()
        )
        return VerificationReport(self.manifest.name, sum(self.parts.values()), tuple(parts), claims)

    def _positions(self) -> dict[str, tuple[int, ...]]:
        by_size: dict[tuple[str, int], Counter[int]] = {}
        for (part, size, label), counts in self.places.items():
            self.cases["positions"] += 1
            by_size.setdefault((part, size), Counter()).update(counts)
            if _spread(counts, size) > 1:
                self.fault("positions", f"{part}, {label}: {[counts[at] for at in range(size)]}")
        by_part: dict[str, tuple[int, ...]] = {}
        for (part, size), counts in sorted(by_size.items()):
            in_order = tuple(counts[at] for at in range(size))
            by_part[part] = by_part.get(part, ()) + in_order
            if _spread(counts, size) > 1:
                self.fault("positions", f"{part}: {list(in_order)}")
        return by_part


def _spread(counts: Counter[int], size: int) -> int:
    in_order = [counts[at] for at in range(size)]
    return max(in_order) - min(in_order) if sum(in_order) == sum(counts.values()) else len(in_order) + 2


def _overlap(options: list[str]) -> bool:
    plain = [_plain(option) for option in options]
    return sum(a in b for a in plain for b in plain) > len(plain)


_plain = lru_cache(maxsize=1 << 16)(key)


def _above(path: Path, manifest: Manifest) -> list[dict[str, tuple[str, ...]]]:
    """Read, for each level, the ancestors of each class from the set's own taxonomy."""
    regular_file(path)
    by_level: list[dict[str, tuple[str, ...]]] = [{} for _ in manifest.levels]
    with path.open(encoding="utf-8", newline="") as text:
        rows = csv.reader(text)
        header = next(rows, [])
        if tuple(header[:-1]) != manifest.levels:
            raise DataError(f"{path}: columns {', '.join(header)}; {', '.join(manifest.levels)}, aliases were expected")
        for row in rows:
            names = [name for name in row[:-1] if name]
            for depth, name in enumerate(names):
                by_level[depth].setdefault(name, tuple(names[:depth]))
    return by_level
