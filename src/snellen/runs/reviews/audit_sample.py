"""Audit sample: a random or stratified part of a run's replies, with the probability that each had to be drawn.

The file audit_sample.json beside results.jsonl records the design, so that an estimate from the reviewed part is valid for
the whole. A reply's place in the draw is a digest of seed, sample id and repeat: the same seed gives the same sample, and a
larger size extends a smaller one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct, field

from snellen.atomic_write import replacing
from snellen.engine.folder_checks import check_files
from snellen.engine.journal import NOT_JSON, storage_error
from snellen.errors import RunError, UsageError
from snellen.runs.reviews.decisions import CaseKey, now
from snellen.text import pretty_json

AUDIT_SAMPLE = "audit_sample.json"
MOST_BYTES = 1 << 30
LEAST_OF_STRATUM = 2
"""Cases of each stratum: with fewer its variance cannot be estimated."""


class AuditStratum(Struct, frozen=True):
    """One stratum: `size` of its `population` replies are in the sample."""

    name: str
    population: int
    size: int


class AuditCase(Struct, frozen=True, kw_only=True):
    """One reply of the sample, with the probability that it had to be drawn, 0 to 1."""

    sample_id: str
    repeat: int = 0
    stratum: str = ""
    probability: float

    @property
    def key(self) -> CaseKey:
        return (self.sample_id, self.repeat)


class AuditSample(Struct, frozen=True, kw_only=True):
    """Content of audit_sample.json.

    Attributes:
        kind: `random` (one stratum, named by an empty text) or `stratified`.
        size, seed, by: as requested; `by` has the fields that make the strata.
        population: replies that could be drawn.
        excluded: replies that could not, by reason: without a verdict there is nothing to review.
        drawn_at: seconds since the epoch, UTC.
        strata, cases: what was drawn, in the order of the draw.
    """

    format: int = 1
    kind: str
    size: int
    seed: int
    by: tuple[str, ...] = ()
    population: int
    excluded: Mapping[str, int] = field(default_factory=dict)
    drawn_at: float
    strata: tuple[AuditStratum, ...]
    cases: tuple[AuditCase, ...]

    def probabilities(self) -> dict[CaseKey, float]:
        """Return the inclusion probability of each case of the sample."""
        return {case.key: case.probability for case in self.cases}


def draw(
    population: Mapping[CaseKey, str],
    size: int,
    seed: int,
    *,
    by: tuple[str, ...] = (),
    excluded: Mapping[str, int] | None = None,
) -> AuditSample:
    """Draw a sample without replacement, each reply of a stratum with the same probability.

    Strata get cases in proportion to their replies (Webster's method), and at least two, or all that they have.

    Args:
        population: the stratum of each reply that can be drawn; one empty name for a plain random sample.
        size: how many replies to draw.
        by: the fields that make the strata.
        excluded: replies that cannot be drawn, by reason.

    Raises:
        UsageError: the size is below 1, above the population, or too small for the strata.
    """
    if not population:
        raise UsageError(
            "the run has no reply with a verdict, so that nothing can be drawn", "Resume or judge the run."
        )
    if not 1 <= size <= len(population):
        raise UsageError(
            f"--size is {size:,}; the run has {len(population):,} replies with a verdict",
            f"Choose a size from 1 to {len(population):,}.",
        )
    members: dict[str, list[tuple[bytes, CaseKey]]] = {}
    for key, stratum in population.items():
        members.setdefault(stratum, []).append((draw_place(seed, key), key))
    shares = allocate({name: len(keys) for name, keys in members.items()}, size)
    drawn = [
        (place, AuditCase(sample_id=key[0], repeat=key[1], stratum=name, probability=shares[name] / len(keys)))
        for name, keys in members.items()
        for place, key in heapq.nsmallest(shares[name], keys)
    ]
    return AuditSample(
        kind="stratified" if by else "random",
        size=size,
        seed=seed,
        by=by,
        population=len(population),
        excluded=dict(excluded or {}),
        drawn_at=now(),
        strata=tuple(AuditStratum(name, len(members[name]), shares[name]) for name in sorted(members)),
        cases=tuple(case for _, case in sorted(drawn, key=lambda pair: pair[0])),
    )


def draw_place(seed: int, key: CaseKey) -> bytes:
    """Return the place of a reply in the order of a draw, a digest that depends on nothing else."""
    return blake2b(msgspec.json.encode((seed, *key)), digest_size=16).digest()


def allocate(populations: Mapping[str, int], size: int) -> dict[str, int]:
    """Divide a sample among strata in proportion to their populations; a larger size takes from no stratum.

    Source: Webster's (Sainte-Laguë's) divisor method, after LEAST_OF_STRATUM for each; Balinski and Young 1982, "Fair
    Representation".

    Raises:
        UsageError: the size is too small to give each stratum its least.
    """
    shares = {name: min(LEAST_OF_STRATUM, count) for name, count in populations.items()}
    if len(populations) == 1:
        return dict.fromkeys(populations, size)
    left = size - sum(shares.values())
    if left < 0:
        raise UsageError(
            f"--size is {size:,}; {len(populations):,} strata need at least {sum(shares.values()):,} cases, "
            f"{LEAST_OF_STRATUM} each",
            "Choose a larger size, or fewer strata with another --by.",
        )
    queue = [(-count / (2 * shares[name] + 1), name) for name, count in populations.items() if count > shares[name]]
    heapq.heapify(queue)
    for _ in range(left):
        _, name = heapq.heappop(queue)
        shares[name] += 1
        if shares[name] < populations[name]:
            heapq.heappush(queue, (-populations[name] / (2 * shares[name] + 1), name))
    return shares


def read_audit_sample(run: Path) -> AuditSample | None:
    """Read the audit sample of a run folder; None if none was drawn.

    Raises:
        RunError: the file is a link, cannot be read, or is no audit sample.
    """
    path = run / AUDIT_SAMPLE
    check_files(run)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise RunError(f"{path} has more than {MOST_BYTES:,} bytes", "Move it away and draw the sample again.")
        sample = msgspec.json.decode(path.read_bytes(), type=AuditSample)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}", "Check its permissions.") from error
    except NOT_JSON as error:
        raise RunError(f"{path} is no audit sample: {error}", "Restore it, or move it away and draw anew.") from error
    bad = next((case for case in sample.cases if not 0.0 < case.probability <= 1.0), None)
    if bad is not None:
        raise RunError(
            f"{path}: sample {bad.sample_id!r} has the probability {bad.probability}; expected more than 0, at most 1",
            "Restore the file.",
        )
    return sample


def save_audit_sample(run: Path, sample: AuditSample) -> tuple[AuditSample, bool]:
    """Write the audit sample of a run; keep the one that is there if it is the same, and let a larger one extend it.

    Returns:
        The sample that is there now, and whether the file was written.

    Raises:
        UsageError: another sample was drawn before, which this one does not extend.
        StorageError: the file cannot be written.
    """
    before = read_audit_sample(run)
    if before is not None:
        if set(before.probabilities()) == set(sample.probabilities()) and before.by == sample.by:
            return before, False
        lost = set(before.probabilities()) - set(sample.probabilities())
        if lost or (before.seed, before.by) != (sample.seed, sample.by):
            raise UsageError(
                f"{run / AUDIT_SAMPLE} holds another sample: {describe(before)}",
                f"Extend it with a larger --size, --seed {before.seed}"
                + (f" and --by {','.join(before.by)}" if before.by else " and no --by")
                + ", or move the file away to draw anew.",
            )
    path = run / AUDIT_SAMPLE
    try:
        with replacing(path) as part:
            part.write_bytes(pretty_json(sample))
    except OSError as error:
        raise storage_error(path, error) from error
    return sample, True


def describe(sample: AuditSample) -> str:
    """Describe a sample in a line: `200 of 2,160 replies, stratified by level, seed 1`."""
    how = f"stratified by {', '.join(sample.by)}" if sample.by else "random"
    return f"{len(sample.cases):,} of {sample.population:,} replies, {how}, seed {sample.seed}"


def stratum_name(values: Iterable[object]) -> str:
    """Join the values of the stratifying fields to the name of a stratum."""
    return " · ".join("(none)" if value is None else str(value) for value in values)
