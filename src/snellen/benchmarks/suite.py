"""A suite: several benchmarks asked in one run, scored each by its own rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b

from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data, Exporter, Headline, Published, ResultReader, Scorer, Summary
from snellen.scoring.rubric import Rubric
from snellen.scoring.scores import Scores
from snellen.scoring.statistics import mean, with_cluster
from snellen.types import Metric, Sample, Score


def member_name(suite: str, member: Benchmark) -> str:
    """Return a member's short name within its suite: `digits` for `chart/digits` in `chart`."""
    return member.name.removeprefix(f"{suite}/")


def by_member(members: Mapping[str, Benchmark]) -> Summary:
    """Return a summary of `accuracy` over all rows, then every member's own metrics as `<member>/<metric>`."""

    def summarize(scores: Scores, profile: str) -> list[Metric]:
        metrics = [mean("accuracy", scores)]
        for name, member in members.items():
            part = scores.where(task=name)
            if len(part):
                own = with_cluster(member.summarize(part, profile), member.cluster)
                metrics += [structs.replace(metric, name=f"{name}/{metric.name}") for metric in own]
        return metrics

    return summarize


def _common_profiles(name: str, members: Sequence[Benchmark]) -> dict[str, str]:
    """Return the profiles that all members have. Raises ValueError where there is none."""
    common = set(members[0].profiles).intersection(*(member.profiles for member in members))
    if not common:
        raise ValueError(f"suite {name}: no profile is common to all of {[member.name for member in members]}")
    return {profile: text for profile, text in members[0].profiles.items() if profile in common}


def suite(
    name: str,
    members: Sequence[Benchmark],
    *,
    version: str,
    about: Mapping[str, str],
    summarize: Summary | None = None,
    results: ResultReader | None = None,
    published: Sequence[Published] = (),
    exports: Mapping[str, Exporter] | None = None,
    fit: Callable[[str, Data], Data] = lambda task, data: data,
    notices: Callable[[Data], Sequence[str]] = lambda data: (),
    overall: Sequence[str] = (),
    headline: Callable[[Sequence[Metric]], Headline | None] | None = None,
) -> Benchmark:
    """Return one benchmark out of several.

    Its samples are the members' in order. Ids and groups get the member's short name in front, and `meta["task"]`
    says which member a sample is from; that is also how a reply finds its scorer. A profile is offered where all
    members have it. Each member sees only those options that it declares.

    Args:
        name: the suite's name; members are usually called `<name>/<something>`.
        members: the benchmarks, in order; their short names must differ.
        version: raised whenever the set of members changes; members' own versions are added to it.
        summarize: what the scores sum up to; None: see `by_member`.
        results, published, exports, overall, headline: as for any benchmark. Rubrics are the members'.
        fit: a member's short name and the user's settings to the settings of that member.
        notices: lines about the suite, before those of its members.

    Raises:
        ValueError: two members have one name, no profile is common to all, or a member grows with its answers.
    """
    growing = [member.name for member in members if member.grow is not None]
    if growing:
        raise ValueError(f"suite {name}: {growing[0]} chooses its questions by answers, and cannot be a member")
    named = {member_name(name, member): member for member in members}
    if len(named) != len(members):
        raise ValueError(f"suite {name}: two members share a name: {[member.name for member in members]}")
    profiles = _common_profiles(name, members)
    options = {option: text for member in members for option, text in member.options.items()}

    def seen_by(member: Benchmark, data: Data) -> Data:
        shared = {key: value for key, value in data.options.items() if key in member.options or key not in options}
        return fit(member_name(name, member), structs.replace(data, options=shared))

    def samples(data: Data) -> Iterator[Sample]:
        for task, member in named.items():
            for sample in member.samples(seen_by(member, data)):
                yield structs.replace(
                    sample,
                    id=f"{task}/{sample.id}",
                    group=f"{task}/{sample.group}" if sample.group else "",
                    meta={**sample.meta, "task": task},
                )

    def size(data: Data) -> int | None:
        sizes = [member.size(seen_by(member, data)) for member in members]
        return None if None in sizes else sum(count for count in sizes if count is not None)

    def digest(data: Data) -> str:
        digests = [member.digest(seen_by(member, data)) for member in members]
        return blake2b("\n".join(digests).encode(), digest_size=16).hexdigest() if any(digests) else ""

    def all_notices(data: Data) -> list[str]:
        said = {task: member.notices(seen_by(member, data)) for task, member in named.items()}
        return [*notices(data), *_joined_notices(said)]

    def rubric(sample: Sample) -> Rubric | None:
        own = named[str(sample.meta["task"])].rubric
        return None if own is None else own(sample)

    return Benchmark(
        name=name,
        version="+".join([version, *(f"{task}@{member.version}" for task, member in named.items())]),
        samples=samples,
        score={profile: _dispatch(named, profile) for profile in profiles},
        summarize=summarize or by_member(named),
        profiles=profiles,
        size=size,
        digest=digest,
        options=options,
        wording=frozenset().union(*(member.wording for member in members)),
        restricted=any(member.restricted for member in members),
        about=about,
        members=tuple(members),
        results=results,
        notices=all_notices,
        rubric=rubric if any(member.rubric is not None for member in members) else None,
        published=published,
        exports=exports or {},
        overall=overall,
        headline=headline,
    )


def _joined_notices(said: Mapping[str, Sequence[str]]) -> list[str]:
    """Return each line once, with the tasks that say it in front where these are not all."""
    tasks_by_line: dict[str, list[str]] = {}
    for task, lines in said.items():
        for line in lines:
            tasks_by_line.setdefault(line, []).append(task)
    return [line if len(by) == len(said) else f"{', '.join(by)}: {line}" for line, by in tasks_by_line.items()]


def _dispatch(members: Mapping[str, Benchmark], profile: str) -> Scorer:
    scorers: dict[str, Callable[[Sample, str], Score]] = {
        task: member.score[profile] for task, member in members.items()
    }

    def score(sample: Sample, reply: str) -> Score:
        return scorers[str(sample.meta["task"])](sample, reply)

    return score
