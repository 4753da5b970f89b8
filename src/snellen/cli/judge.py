"""snellen judge"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options as given
from snellen.cli.console import note
from snellen.cli.results import Outcome, failures_as_json, finish


def judge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run whose replies are judged.")],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="KIND:NAME", help="The judge.", show_default="JUDGE_MODEL"),
    ] = None,
    rubric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="match, graded, or a rubric file (.toml).",
            show_default="the benchmark's own, else match",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the verdicts.", show_default="RUN_judged")] = None,
    data: given.MovedData = None,
    images: given.MovedImages = None,
    trust: given.Trust = False,
    with_images: Annotated[bool, typer.Option("--with-images", help="Show the judge the pictures too.")] = False,
    rule: Annotated[
        bool,
        typer.Option("--rule", help="Ask nobody about what the benchmark's own rule takes for correct; it is marked."),
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many replies.")] = None,
    seed: Annotated[int, typer.Option(help="Seeds the marks around replies and what a local judge samples.")] = 0,
    id_is: given.IdIs = "id",
    max_tokens: given.MaxTokens = None,
    temperature: given.Temperature = None,
    top_p: given.TopP = None,
    base_url: given.BaseUrl = None,
    key_env: given.KeyEnv = None,
    concurrency: given.Concurrency = 16,
    timeout: given.Timeout = 300.0,
    max_attempts: given.MaxAttempts = 6,
    patience: given.Patience = 900.0,
    rpm: given.Rpm = None,
    tpm: given.Tpm = None,
    extra_body: given.ExtraBody = None,
    max_cost: given.MaxCost = None,
    max_tokens_total: given.MaxTokensTotal = None,
    prices: given.Prices = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Let a model judge the replies of a run, or go on with that.

    JUDGE_MODEL, JUDGE_BASE_URL and JUDGE_API_KEY are used where nothing is given. Without a key nothing is asked, and
    no rule ever stands in for the judge. The last line is SUMMARY_JSON and one JSON object (on stderr with --json).
    """
    import msgspec

    from snellen.engine.progress import display
    from snellen.engine.run_folder import JUDGED, derived_folder
    from snellen.runs.judge.ask import MODEL, setting, verdicts
    from snellen.runs.judge.ask import judge as ask

    with failures_as_json(out or derived_folder(run, JUDGED), JUDGED, model or setting(MODEL), wanted=as_json):
        done = ask(
            run,
            model,
            rubric=rubric,
            out=out,
            base_url=base_url,
            key_env=key_env,
            data=data,
            images=images,
            trust=trust,
            with_images=with_images,
            rule=rule,
            limit=limit,
            seed=seed,
            concurrency=concurrency,
            generation=given.generation(max_tokens, temperature, top_p, None),
            display=display(as_json=as_json, quiet=quiet),
            max_attempts=max_attempts,
            max_cost=max_cost,
            max_tokens_total=max_tokens_total,
            timeout_s=timeout,
            patience_s=patience,
            rpm=rpm,
            tpm=tpm,
            extra_body=given.json_object(extra_body, "--extra-body"),
            prices=None if prices is None else str(prices),
            id_is=id_is,
        )
    status = finish(Outcome([done]), profile=None, report=False, as_json=as_json)
    line = f"SUMMARY_JSON {msgspec.json.encode(verdicts(done)).decode()}"
    note(line) if as_json else print(line)
    raise typer.Exit(status)
