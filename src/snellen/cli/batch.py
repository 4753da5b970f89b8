"""snellen batch"""

# Annotations are not postponed here: `expand_options` reads them.

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import structs

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, show, show_json
from snellen.cli.option_parsing import REQUIRED, Commands, argument, only, option, option_of
from snellen.engine.run_folder import RunSpec

if TYPE_CHECKING:
    from snellen.runs.batches import RunBatch


group = Commands(
    help="List and cancel the batches of a run; write its requests to a file for vllm run-batch, and read the results.",
    no_args_is_help=True,
)

RunArgument = Annotated[Path, argument("Folder of the run.", value="RUN")]


@group.callback()
def _group() -> None: ...


@group.command(name="list")
def list_command(
    run: RunArgument,
    recorded: bool = option("Send nothing; show the states that were recorded last.", False),
    trust: shared.Trust = False,
    as_json: shared.JsonResult = False,
) -> None:
    """List the batches of a run, with the service's word on the open ones."""
    from snellen.runs.batches import list_batches

    _show(run, list_batches(run, recorded=recorded, trust=trust), as_json=as_json)


@group.command()
def cancel(run: RunArgument, trust: shared.Trust = False, as_json: shared.JsonResult = False) -> None:
    """Cancel the open batches of a run.

    What was answered before is paid for. The next `snellen run --batch` records it, and asks the rest again.
    """
    from snellen.runs.batches import cancel_batches

    batches = cancel_batches(run, trust=trust)
    _show(run, batches, as_json=as_json)
    if batches and not as_json:
        note("Run the same command as before to record what they have answered; it also asks the rest again.")


@group.command()
def drop(
    run: RunArgument,
    batch: str = argument("Its id, or its label.", value="BATCH"),
    as_json: shared.JsonResult = False,
) -> None:
    """Give up a batch that the service has lost; the next run asks its samples again.

    If the service still has it, its samples are paid for twice.
    """
    from snellen.runs.batches import drop_batch, list_batches

    drop_batch(run, batch)
    if as_json:
        _show(run, list_batches(run, recorded=True), as_json=True)
        return
    note(f"{batch} is given up; the next run asks its samples again")


@dataclass(frozen=True)
class RequestOptions:
    """Model and samples whose requests are written, and where to."""

    PANEL: ClassVar[str] = "Requests"

    model: str = option(
        "Model, as vllm run-batch calls it (its --model).", REQUIRED, names=("--model", "-m"), value="api:NAME"
    )
    out: Path = option("File of requests to write; it must not exist.", REQUIRED, value="FILE.jsonl")
    run: Path | None = option("Folder of the run.", said="results/BENCHMARK-MODEL")
    limit: int | None = option("Only the first N samples.", least=1)
    repeats: int = option_of(RunSpec, "repeats")
    seed: shared.Seed = 0
    image_paths: bool = option(
        "Name images by their paths, not by their bytes; for vllm run-batch --allowed-local-media-path.", False
    )


@group.command()
def write(
    benchmark: str = argument("Benchmark (`snellen list` shows them).", value="BENCHMARK"),
    *,
    requests: RequestOptions,
    data: shared.DataOptions,
    generation: shared.StudyOptions,
    endpoint: Annotated[shared.EndpointOptions, only("base_url", "max_attempts", "extra_body")],
    media: shared.MediaOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Write the requests of a run to a file for `vllm run-batch`; nothing is sent.

    Samples that have an answer are left out, and those of an earlier file without a result. `snellen batch read` records the
    results.
    """
    from snellen.engine.run_folder import RunFolder
    from snellen.runs.batches import write_requests
    from snellen.runs.perform import default_folder
    from snellen.runs.settings import run_spec

    spec = run_spec(benchmark, requests.model, shared.run_settings(requests, data, generation, endpoint, media))
    folder = requests.run or default_folder(spec)
    written = write_requests(spec, RunFolder(folder), requests.out, image_paths=requests.image_paths, trust=True)
    name = requests.model.removeprefix("api:")
    if as_json:
        file = str(requests.out) if written.requests else None
        show_json({"run": str(folder), "file": file, "requests": written.requests, "waiting": written.waiting})
        return
    if written.requests:
        note(f"{written.requests:,} requests of {folder} are in {requests.out}")
        paths = " --allowed-local-media-path FOLDER" if requests.image_paths else ""
        note(f"answer them: vllm run-batch -i {requests.out} -o RESULTS.jsonl --model {name}{paths}")
        note(f"then: snellen batch read {folder} RESULTS.jsonl")
    else:
        note(f"{folder}: no sample is left to write")
    if written.waiting:
        note(
            f"{written.waiting:,} requests of earlier files have no result yet: snellen batch read {folder} RESULTS.jsonl; "
            f"if there will be none, add --ended"
        )


@group.command()
def read(
    run: RunArgument,
    results: list[Path] = argument("Files that vllm run-batch wrote.", value="RESULTS..."),
    *,
    place: shared.MovedOptions,
    ended: bool = option("There will be no more results: requests without one are written again next time.", False),
    as_json: shared.JsonResult = False,
) -> None:
    """Record the results of `vllm run-batch` in the run, each sample once.

    Files may be partial, in any order, or read before.
    """
    from snellen.runs.batches import read_results

    counts = read_results(run, results, ended=ended, data=place.data, images=place.images, trust=place.trust)
    totals = counts.run.meta.totals
    if as_json:
        numbers = {name: getattr(counts, name) for name in ("answered", "failed", "again", "missing", "strange")}
        show_json({"run": str(run), **numbers, "state": counts.run.state, "ok": totals.ok})
        return
    note(f"{counts.answered:,} answers recorded; {run} has {totals.done:,}")
    if counts.failed:
        note(f"{_requests(counts.failed)} failed, and recorded as failed; the next `snellen batch write` repeats")
    if counts.again:
        note(f"{_requests(counts.again)} failed for a reason that may pass; the next `snellen batch write` repeats")
    if counts.missing:
        note(f"{_requests(counts.missing)} without a result; if there will be none, add --ended")
    if counts.strange:
        lines = "1 line is no result" if counts.strange == 1 else f"{counts.strange:,} lines are no results"
        note(f"{lines} of a request of this run; ignored")


def _requests(number: int) -> str:
    return "1 request" if number == 1 else f"{number:,} requests"


def _show(run: Path, batches: "list[RunBatch]", *, as_json: bool) -> None:
    if as_json:
        rows: list[dict[str, Any]] = [structs.asdict(batch) for batch in batches]
        show_json({"run": str(run), "batches": rows})
        return
    if not batches:
        note(f"{run} has no open batch")
        return
    from snellen.engine.batches.log import local_time

    table = new_table(None, ("batch", "state", "created", "expires"), ("rows", "finished", "answers"))
    for batch in batches:
        times = ["" if at is None else local_time(at) for at in (batch.created_at, batch.expires_at)]
        counts = [f"{number:,}" for number in (batch.rows, batch.finished, batch.answered)]
        table.add_row(batch.id or batch.label, batch.state, *times, *counts)
    show(table)
