"""A benchmark as a data set of the hub: parquet, eval.yaml, a data set card and its description in Croissant 1.0.

Snellen and Inspect both run it. One table holds one image a question, as a data URI; what the form cannot hold is refused and named.
Sources: `formats.eval_yaml`; huggingface/hub-docs, docs/hub/datasets-cards.md; mlcommons/croissant, docs/croissant-spec.md (1.0).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from snellen.atomic_write import part_folder
from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.table.question import OmittedRow
from snellen.errors import UsageError
from snellen.formats.eval_yaml import (
    CARD,
    FRAMEWORK,
    LITERAL,
    NAME,
    EvalTask,
    FieldSpec,
    ScorerStep,
    SolverStep,
    write_yaml,
)
from snellen.formats.writers import Exported, gold_as_text
from snellen.text import slug
from snellen.types import Blob, Image, Sample, Text, Video

FORMAT = "eval-yaml"
CROISSANT = "croissant.json"
ROWS_AT_ONCE = 64
_MEDIA = ((b"\x89PNG\r\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"))
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
LETTER = r"^\W*([A-Z])(?![A-Za-z'])"
SCORERS: Mapping[str, ScorerStep] = {
    "choice": ScorerStep("pattern", {"pattern": LETTER}),
    "truth": ScorerStep("match", {"location": "begin"}),
    "count": ScorerStep("match", {"numeric": True}),
    "number": ScorerStep("match", {"numeric": True}),
    **dict.fromkeys(("short", "text", "name", "date", "time", "quantity"), ScorerStep("exact")),
    "judged": ScorerStep("model_graded_qa"),
}
"""By the kind of an answer: the scorer of Inspect that comes nearest to Snellen's reading. Other kinds have none."""


class HubRow(NamedTuple):
    """A question as a row of the data set."""

    sample_id: str
    input: str
    target: str
    choices: list[str] | None
    input_image: Blob | None
    more: Mapping[str, str]


class HubTable(Struct):
    """A task on its way: its rows are written as they come.

    Attributes:
        task: as it is written, without its columns.
        path: the file, below the folder of the export.
        rows, images: how many.
        has_choices: some rows have options.
        columns: further columns.
        digest: SHA-256 of the file.
    """

    task: EvalTask
    path: str
    rows: int = 0
    images: int = 0
    has_choices: bool = False
    columns: tuple[str, ...] = ()
    digest: str = ""

    @property
    def config(self) -> str:
        """Return the name of its configuration, which is that of its folder."""
        return self.path.split("/")[1]


def export_tasks(benchmark: Benchmark, data: Data, out: Path, *, show_gold: bool = False) -> Exported:
    """Write a benchmark as a data set of the hub.

    Args:
        benchmark: any whose questions have at most one image behind one text.
        data: where its files are, and how it is asked.
        out: the folder; files of an earlier export are replaced.
        show_gold: write the gold answers of a restricted benchmark too.

    Returns:
        The files, and what a reader of them must know.

    Raises:
        UsageError: a question has what the form cannot hold, or gold answers must not be published.
    """
    if benchmark.members:
        raise UsageError(
            f"{benchmark.name} is a suite of {len(benchmark.members)} benchmarks",
            f"Export them one by one, such as {benchmark.members[0].name}.",
        )
    if benchmark.grow is not None:
        raise UsageError(f"the questions of {benchmark.name} follow from answers", "Export another benchmark.")
    if benchmark.restricted and not show_gold:
        raise UsageError(
            f"the data set would hold the gold answers of {benchmark.name}, which are restricted",
            "--show-gold writes them anyway; keep such files private.",
        )
    out.mkdir(parents=True, exist_ok=True)
    with part_folder(out) as folder:
        declared = benchmark.table.declaration.eval_task if benchmark.table is not None else {}
        if declared:
            task, notes = msgspec.convert(declared, EvalTask), list[str]()
            tables = {task.id or "default": (task, _declared_rows(benchmark, data, task))}
            written = [_write(folder, name, task, rows) for name, (task, rows) in tables.items()]
        else:
            written, notes = _by_kind(benchmark, data, folder)
        files = [folder / table.path for table in written]
        for name, text in _texts(benchmark, written).items():
            (folder / name).write_text(text, encoding="utf-8")
            files.append(folder / name)
        placed = []
        for path in files:
            place = out / path.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            placed.append(path.replace(place))
    if not benchmark.about.get("licence"):
        notes.append(f"no licence is known: add `license` to {CARD} before you publish")
    return Exported(tuple(placed), tuple(notes))


def _declared_rows(benchmark: Benchmark, data: Data, task: EvalTask) -> Iterator[HubRow]:
    """Yield the rows of a task that was read from an eval.yaml, with its questions and options apart."""
    for question in () if benchmark.table is None else benchmark.table.opened(data).questions():
        if isinstance(question, OmittedRow):
            continue
        _require_plain(question.id, question.images, question.videos, question.history, ())
        target = question.answer
        several = isinstance(target, (list, tuple))
        if several and question.kind != "multi-choice":
            raise _refused(question.id, f"{len(target)} accepted answers; the form holds one")
        yield HubRow(
            question.id,
            question.question,
            ",".join(target) if several else gold_as_text(target) or "",
            list(question.options.values()) or None,
            question.images[0] if question.images else None,
            {name: _plain(question.cells.get(name)) for name in task.field_spec.metadata},
        )


def _plain(value: Any) -> str:
    return "" if value is None else str(value)


def _by_kind(benchmark: Benchmark, data: Data, folder: Path) -> tuple[list[HubTable], list[str]]:
    """Write the questions of any benchmark, whose prompts are whole texts: one task for each scorer."""
    kinds: dict[str, str] = {}
    system: set[str] = set()
    moved = 0
    for sample in benchmark.samples(data):
        scorer = SCORERS.get(sample.kind)
        if scorer is None:
            raise _refused(sample.id, f"answers of the kind {sample.kind}; the form has no scorer for it")
        kinds.setdefault(sample.kind, f"{scorer.name}{'-number' if scorer.args.get('numeric') else ''}")
        system.add(sample.prompt.system)
        parts = sample.prompt.parts
        moved += any(isinstance(part, Image) for part in parts) and not isinstance(parts[-1], Image)
    if len(system) > 1:
        raise UsageError(f"{benchmark.name} has {len(system)} system texts; an eval.yaml holds one for all rows")
    names = dict.fromkeys(kinds.values())
    tables = []
    for name in names:
        own = {kind for kind, other in kinds.items() if other == name}
        first = [SolverStep("system_message", {"template": _escaped(text)}) for text in system if text]
        scorer = SCORERS[next(iter(own))]
        task = EvalTask(
            FieldSpec("input", "target"),
            (*first, SolverStep("generate")),
            (scorer,),
            id=name if len(names) > 1 else slug(benchmark.name.rpartition("/")[2], 80) or "questions",
        )
        rows = (_sample_row(sample) for sample in benchmark.samples(data) if sample.kind in own)
        tables.append(_write(folder, task.id or name, task, rows))
    notes = (
        [f"{moved:,} images stand behind the text, as Inspect sends them; the benchmark has them before it"]
        if moved
        else []
    )
    if len(names) > 1:
        notes.append(f"kinds of answers are tasks of their own: {', '.join(names)}")
    return tables, notes


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _sample_row(sample: Sample) -> HubRow:
    parts = sample.prompt.parts
    images = [part.blob for part in parts if isinstance(part, Image)]
    texts = [part.text for part in parts if isinstance(part, Text)]
    _require_plain(sample.id, images, [part for part in parts if isinstance(part, Video)], sample.prompt.history, texts)
    target = sample.target
    if isinstance(target, (list, tuple)):
        if len(target) != 1:
            raise _refused(sample.id, f"{len(target)} accepted answers; the form holds one")
        target = target[0]
    choices = list(sample.options.values()) if sample.kind == "choice" else None
    return HubRow(sample.id, "".join(texts), gold_as_text(target) or "", choices, images[0] if images else None, {})


def _require_plain(sample: str, images: Any, videos: Any, history: Any, texts: Any) -> None:
    """Raise UsageError for a question that a row of the form cannot hold."""
    if len(images) > 1:
        raise _refused(sample, f"{len(images)} images; the form holds one")
    if videos:
        raise _refused(sample, "a video; the form holds images")
    if history:
        raise _refused(sample, f"{len(history)} earlier turns; the form holds one question")
    if len(texts) > 1:
        raise _refused(sample, f"{len(texts)} texts around its images; the form holds one text")


def _refused(sample: str, has: str) -> UsageError:
    return UsageError(
        f"sample {sample!r} has {has}", "Export another benchmark, or share this one as files: --format jsonl."
    )


def _write(folder: Path, name: str, task: EvalTask, rows: Iterator[HubRow]) -> HubTable:
    """Write the rows of a task; memory holds some of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = task.field_spec.metadata
    path = folder / "data" / name / "test-00000-of-00001.parquet"
    path.parent.mkdir(parents=True)
    table = HubTable(task, path.relative_to(folder).as_posix(), columns=columns)
    text = pa.string()
    fields = [
        ("sample_id", text),
        ("input", text),
        ("target", text),
        ("choices", pa.list_(text)),
        ("input_image", text),
    ]
    schema = pa.schema([*fields, *((column, text) for column in columns)])
    with pq.ParquetWriter(path, schema, compression="zstd", store_schema=False) as writer:
        while batch := list(islice(rows, ROWS_AT_ONCE)):
            table.rows += len(batch)
            table.images += sum(row.input_image is not None for row in batch)
            table.has_choices |= any(row.choices for row in batch)
            cells = [
                {
                    **row._asdict(),
                    "input_image": None if row.input_image is None else _uri(row.input_image, row.sample_id),
                    **row.more,
                }
                for row in batch
            ]
            writer.write_table(pa.Table.from_pylist(cells, schema=schema))
    if not table.rows:
        raise UsageError(f"the task {name} has no question that can be written", "Run `snellen check` on it.")
    kept = [column for column in schema.names if _is_used(table, column)]
    if kept != schema.names:
        _keep(path, kept)
    table.digest = sha256(path.read_bytes()).hexdigest()
    return table


def _is_used(table: HubTable, column: str) -> bool:
    return {"choices": table.has_choices, "input_image": bool(table.images)}.get(column, True)


def _keep(path: Path, columns: list[str]) -> None:
    """Write a parquet file again without its empty columns: the hub's viewer shows none that means nothing."""
    import pyarrow.parquet as pq

    part = path.with_suffix(".part")
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        kept = schema.empty_table().select(columns).schema
        with pq.ParquetWriter(part, kept, compression="zstd", store_schema=False) as writer:
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=columns):
                writer.write_batch(batch)
    part.replace(path)


def _uri(blob: Blob, sample: str) -> str:
    data = blob.read()
    form = next((form for mark, form in _MEDIA if data.startswith(mark)), "webp" if data[8:12] == b"WEBP" else "")
    if not form:
        raise _refused(sample, "an image that is no PNG, JPEG, GIF or WebP")
    return f"data:image/{form};base64,{base64.b64encode(data).decode()}"


def _texts(benchmark: Benchmark, tables: list[HubTable]) -> dict[str, str]:
    """Return eval.yaml, the card and the Croissant description, by the names of their files."""
    declared = None if benchmark.table is None else benchmark.table.declaration
    title = (declared and declared.title) or benchmark.name
    words = (
        (declared and declared.probes) or benchmark.about.get("description") or f"The questions of {benchmark.name}."
    )
    about = " ".join(words.split())
    tasks = [msgspec.to_builtins(_placed(table)) for table in tables]
    file = {"name": title, "description": about, "evaluation_framework": FRAMEWORK, "tasks": tasks}
    return {
        NAME: write_yaml(file),
        CARD: _card(benchmark, tables, title, about),
        CROISSANT: json.dumps(_croissant(benchmark, tables, title, about), indent=2, ensure_ascii=False) + "\n",
    }


def _placed(table: HubTable) -> EvalTask:
    """Return a task with the columns of its table. Options stand in the file as they are asked, so that nothing shuffles them."""
    fields, task = table.task.field_spec, table.task
    several = FieldSpec(
        "input",
        fields.target if fields.target.startswith(LITERAL) else "target",
        "choices" if table.has_choices else None,
        "input_image" if table.images else None,
        fields.metadata,
    )
    name = table.config
    return structs.replace(
        task, id=task.id or name, field_spec=several, config=name, split="test", shuffle_choices=None
    )


def _features(table: HubTable) -> list[dict[str, str]]:
    names = [name for name in ("sample_id", "input", "target", "choices", "input_image") if _is_used(table, name)]
    return [{"name": name, "list" if name == "choices" else "dtype": "string"} for name in (*names, *table.columns)]


def _licence(benchmark: Benchmark) -> str:
    """Return the licence as the hub spells it; empty where none is known."""
    return re.sub(r"[^a-z0-9.]+", "-", str(benchmark.about.get("licence") or "").lower()).strip("-")


def _card(benchmark: Benchmark, tables: list[HubTable], title: str, about: str) -> str:
    total = sum(table.rows for table in tables)
    with_images = any(table.images for table in tables)
    front: dict[str, Any] = {"pretty_name": title}
    if licence := _licence(benchmark):
        front["license"] = licence
    front |= {
        "task_categories": ["visual-question-answering" if with_images else "question-answering"],
        "tags": ["benchmark", "evaluation", *(["vision-language-model"] if with_images else [])],
        "size_categories": [next((size for most, size in _SIZES if total < most), "n>1M")],
        "configs": [
            {"config_name": table.config, "data_files": [{"split": "test", "path": table.path}]} for table in tables
        ],
        "dataset_info": [
            {
                "config_name": table.config,
                "features": _features(table),
                "splits": [{"name": "test", "num_examples": table.rows}],
            }
            for table in tables
        ],
    }
    lines = [f"| {_placed(table).id} | {table.rows:,} | {table.images:,} |" for table in tables]
    columns = (
        "`sample_id` is the id of a question, `input` its text, `target` the gold answer"
        + (", `choices` the options" if any(table.has_choices for table in tables) else "")
        + (", `input_image` the image as a data URI" if with_images else "")
    )
    source = benchmark.about.get("url") or ""
    return (
        f"---\n{write_yaml(front)}---\n\n# {title}\n\n{about}\n\n"
        + (f"Source: {source}\n\n" if source else "")
        + "| task | questions | with an image |\n|---|---|---|\n"
        + "\n".join(lines)
        + f"\n\n{columns}. `{NAME}` says how it is asked and scored: Inspect (`inspect eval hf/OWNER/NAME`) and "
        "Snellen (`snellen run hf:OWNER/NAME`) read it.\n"
    )


def _croissant(benchmark: Benchmark, tables: list[HubTable], title: str, about: str) -> dict[str, Any]:
    """Return the data set in Croissant 1.0: its files with their digests, and the columns of each table."""
    licence = _licence(benchmark)
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": slug(title, 80) or "questions",
        "description": about,
        **({"license": licence} if licence else {}),
        **({"url": benchmark.about["url"]} if benchmark.about.get("url") else {}),
        "version": "1.0.0" if not re.fullmatch(r"\d+(\.\d+){0,2}", benchmark.version) else _version(benchmark.version),
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": table.path,
                "name": table.path,
                "contentUrl": table.path,
                "encodingFormat": "application/x-parquet",
                "sha256": table.digest,
            }
            for table in tables
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": config,
                "name": config,
                "key": {"@id": f"{config}/sample_id"},
                "field": [
                    {
                        "@type": "cr:Field",
                        "@id": f"{config}/{feature['name']}",
                        "name": f"{config}/{feature['name']}",
                        "dataType": "sc:Text",
                        **({"repeated": True} if "list" in feature else {}),
                        "source": {"fileObject": {"@id": table.path}, "extract": {"column": feature["name"]}},
                    }
                    for feature in _features(table)
                ],
            }
            for table, config in ((table, table.config) for table in tables)
        ],
    }


def _version(text: str) -> str:
    return ".".join([*text.split("."), "0", "0"][:3])


_CR, _SC = "http://mlcommons.org/croissant/", "https://schema.org/"
_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": _SC,
    "sc": _SC,
    "cr": _CR,
    "rai": f"{_CR}RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{
        name: f"cr:{name}"
        for name in (
            *(
                "citeAs",
                "column",
                "equivalentProperty",
                "extract",
                "field",
                "fileObject",
                "fileProperty",
                "fileSet",
                "format",
            ),
            *("includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references"),
            *("regex", "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform"),
        )
    },
}
