"""FG-BMK, human-oriented: fine-grained questions about ten data sets, at every level that their taxonomies have.

Source: SEU-VIPGroup/FG-BMK at commit 7765a10 and its papers, arXiv 2504.14988 and 2606.19053. docs/fgbmk.md has the
profiles in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

from msgspec import structs

from snellen.benchmarks import hints
from snellen.benchmarks.base import Benchmark, Data, Published, Scorer
from snellen.benchmarks.fgbmk import data_checks, interop, locate, samples, scorers
from snellen.benchmarks.fgbmk.catalogue import ATTRIBUTES, BIAS, KINDS, Member, datasets, members, suites
from snellen.benchmarks.fgbmk.locate import LostFile, QuestionFile
from snellen.benchmarks.fgbmk.scorers import official, strict
from snellen.benchmarks.fgbmk.taxonomy import CUB
from snellen.benchmarks.published import column, load
from snellen.errors import DataError, UsageError
from snellen.text import comma_list
from snellen.types import Sample

FAMILY = "fgbmk"
VERSION = "1"
PROFILES = {
    "official": "the authors' rule: the ground truth is a substring of the reply; the published figures",
    "strict": "one answer by whole words, letters only where the question shows them; not comparable with the papers",
}
SCORERS: Mapping[str, Scorer] = {"official": official, "strict": strict}
OPTIONS = {
    "suite": f"which files, by comma: {', '.join(suites())}; all of them unless given",
    "datasets": f"which data sets, by comma: {', '.join(datasets())}; those that are there unless given",
    "kinds": f"which kinds of question, by comma: {', '.join(KINDS)}; all of them unless given",
    **hints.OPTIONS,
}
ABOUT = {
    "source": "SEU-VIPGroup/FG-BMK; arXiv 2504.14988v3 (ICLR 2026) and 2606.19053",
    "licence": "none in the repository, `other` on the hub; images are each data set's own and are not part of it",
}
WORDS = {"truth": "yes/no questions", "choice": "choice of one option by its text", "short": "open short answers"}


@cache
def published_tables() -> tuple[Published, ...]:
    """Return the human-oriented tables of arXiv 2504.14988v3, arXiv 2606.19053 and the project page."""
    return load(__package__)


def published_columns(name: str) -> tuple[Published, ...]:
    """Return the columns of each table that are about one file of questions (`cub/species/choice`)."""
    tables = [
        structs.replace(
            table, metrics=tuple(map(_in_member, table.metrics)), numbers=tuple(map(_in_member, table.numbers))
        )
        for table in published_tables()
    ]
    return tuple(
        column(table, name) for table in tables if any(metric.startswith(f"{name}/") for metric in table.metrics)
    )


def _in_member(metric: str) -> str:
    """Return the member's name of a metric: a data set's `cub/class_worst/bias/...` is a metric of `cub/bias` too."""
    dataset, _, rest = metric.partition("/")
    return f"{dataset}/bias/{rest}" if rest.startswith("class_") and "/bias/" in rest else metric


def names() -> list[str]:
    """`fgbmk`, and the name of every file of questions, whether or not anybody has it here."""
    return [FAMILY, *(f"{FAMILY}/{name}" for name in members())]


def find(name: str) -> Benchmark | None:
    """Return the benchmark of that name, in any case (`fgbmk/iNat2021/order/choice` too); None where there is none."""
    lower = name.lower()
    if lower == FAMILY:
        return _whole()
    member = members().get(lower.removeprefix(f"{FAMILY}/"))
    return None if member is None or not lower.startswith(f"{FAMILY}/") else _declared(member.name)


@cache
def _declared(name: str) -> Benchmark:
    member = members()[name]

    def size(data: Data) -> int | None:
        if data.path is None:
            return member.questions
        lost = data_checks.lost_questions(locate.lost_files(member, data))
        return data_checks.size(locate.member_files(member, data)) + lost

    def notices(data: Data) -> list[str]:
        lost = data_checks.lost_notices(locate.lost_files(member, data))
        return [*lost, *data_checks.notices(member, locate.member_files(member, data), data)]

    return Benchmark(
        cluster="image",
        name=f"{FAMILY}/{name}",
        version=VERSION,
        samples=partial(samples.samples, member),
        score=SCORERS,
        summarize=scorers.summarize_member,
        profiles=PROFILES,
        size=size,
        digest=lambda data: data_checks.digest_of(locate.member_files(member, data), data),
        options=hints.OPTIONS,
        wording=frozenset(hints.OPTIONS),
        about={"description": f"FG-BMK, {_description(member)}.", **ABOUT},
        results=partial(interop.read_member_results, member),
        files=partial(data_checks.of_member, member),
        notices=notices,
        published=published_columns(name),
        exports={"authors": interop.write},
    )


def _description(member: Member) -> str:
    if member.level == BIAS:
        return f"{member.dataset}: knowledge bias, the true class and another one of each image, yes or no"
    if member.level == ATTRIBUTES:
        return f"{member.dataset}: attributes of birds, {WORDS[member.kind]}"
    return f"{member.dataset}, {member.level}: {WORDS[member.kind]}"


@cache
def _whole() -> Benchmark:
    return Benchmark(
        cluster="image",
        name=FAMILY,
        version=VERSION,
        samples=_samples,
        score=SCORERS,
        summarize=scorers.summarize_all,
        profiles=PROFILES,
        size=_size,
        digest=lambda data: data_checks.digest_of([file for files in chosen(data).values() for file in files], data),
        options=OPTIONS,
        wording=frozenset(hints.OPTIONS),
        about={
            "description": "FG-BMK, human-oriented: every file of questions that is there, in one run.",
            "members": ", ".join(f"{FAMILY}/{form}" for form in forms()),
            **ABOUT,
        },
        members=tuple(_declared(name) for name in members()),
        results=interop.read_all_results,
        files=lambda data: data_checks.of_all(data, set(chosen(data))),
        notices=_notices,
        published=published_tables(),
        exports={"authors": interop.write},
    )


def forms() -> list[str]:
    """Return the members' names in short: `cub/<class, genus, species>/<kind>`."""
    short_names = []
    for dataset in datasets().values():
        levels = ", ".join(level.name for level in dataset.levels)
        short_names.append(f"{dataset.name}/{f'<{levels}>' if len(dataset.levels) > 1 else levels}/<kind>")
        short_names += [f"{dataset.name}/{BIAS}"] if dataset.bias else []
        short_names += [f"{dataset.name}/{ATTRIBUTES}/<kind>"] if dataset.attributes else []
    return short_names


def chosen(data: Data) -> dict[str, tuple[QuestionFile, ...]]:
    """Return member's name to files, of those that are there and that the options choose.

    Raises:
        UsageError: an option names what there is not, or no data was given.
        DataError: no file of FG-BMK is there, or none that was chosen, or a data set that was named is not.
    """
    is_wanted = _choice(data)
    present = locate.files(data)
    selected = {name: files for name, files in present.items() if is_wanted(files[0].member)}
    lost = _lost(data)
    names = _listed(data, "datasets", tuple(datasets()))
    absent = [
        name
        for name in names
        if not any(files[0].member.dataset == name for files in selected.values())
        and not any(file.member is not None and file.member.dataset == name for file in lost)
    ]
    if absent or not selected:
        missing = f"no such questions of {', '.join(absent)}" if absent else "none of the chosen questions"
        reasons = f"; {lost[0].name}: {lost[0].reason}" if lost else ""
        raise DataError(f"{data.path}: {missing} in it; it has {', '.join(present)}{reasons}", locate.HINT)
    return selected


def _choice(data: Data) -> Callable[[Member], bool]:
    """Return whether the options choose a member. Raises UsageError for an unknown value."""
    levels = _listed(data, "suite", suites())
    wanted = _listed(data, "datasets", tuple(datasets()))
    kinds = _listed(data, "kinds", KINDS)
    return lambda member: (
        (not levels or "all" in levels or member.level in levels)
        and (not wanted or member.dataset in wanted)
        and (not kinds or member.kind in kinds)
    )


def _lost(data: Data) -> list[LostFile]:
    """Return the files that cannot be read, of the members that the options choose."""
    is_wanted = _choice(data)
    every = [file for lost_files in locate.layout(data).lost.values() for file in lost_files]
    attributes = [members()[f"{CUB}/{ATTRIBUTES}/{kind}"] for kind in ("truth", "choice")]
    return [
        file
        for file in every
        if (is_wanted(file.member) if file.member is not None else any(map(is_wanted, attributes)))
    ]


def _listed(data: Data, option: str, known: tuple[str, ...]) -> tuple[str, ...]:
    values = tuple(value.lower() for value in comma_list(data.options.get(option)))
    for value in values:
        if value not in known:
            raise UsageError(f"fgbmk has no {option} {value!r}", f"--{option} takes, by comma: {', '.join(known)}.")
    return values


def _samples(data: Data) -> Iterator[Sample]:
    for files in chosen(data).values():
        for file in files:
            yield from samples.of_file(file, data)


def _size(data: Data) -> int | None:
    if data.path is None:
        return None
    return sum(data_checks.size(files) for files in chosen(data).values()) + data_checks.lost_questions(_lost(data))


def _notices(data: Data) -> list[str]:
    return [
        *data_checks.lost_notices(_lost(data)),
        *(
            f"{name}: {line}"
            for name, files in chosen(data).items()
            for line in data_checks.notices(files[0].member, files, data)
        ),
    ]
