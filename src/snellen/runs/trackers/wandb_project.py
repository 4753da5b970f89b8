"""Weights & Biases: a run of job type `eval`, with its metrics as summary and table, or by step of a training."""

from __future__ import annotations

import os
import time
from pathlib import Path

from snellen.errors import UsageError
from snellen.runs.trackers.content import COLUMNS, TrackedRun

OFFLINE = ("offline", "dryrun", "disabled")
STEP = "checkpoint_step"
_last_part = 0.0


def check(name: str) -> None:
    """Raise UsageError where W&B would ask for a login at the end of the run."""
    import wandb

    mode = os.environ.get("WANDB_MODE") or wandb.setup().settings.mode
    if mode not in OFFLINE and not wandb.login(prompt=False, verify=False):
        raise UsageError(
            f"--log wandb:{name}: W&B has no login here.",
            "Run `wandb login` or set WANDB_API_KEY. To log to a folder instead: WANDB_MODE=offline",
        )


def _await_next_second() -> None:
    """Wait so that two parts of a series get two offline folders: W&B names a folder by its second and the run's id."""
    global _last_part
    time.sleep(max(0.0, _last_part + 1.1 - time.monotonic()))
    _last_part = time.monotonic()


def log(name: str, run: TrackedRun) -> str:
    """Log to the project (`PROJECT` or `ENTITY/PROJECT`); return the run's address, or its folder if W&B is offline."""
    import wandb

    if run.series:
        _await_next_second()
    entity, _, project = name.rpartition("/")
    settings = wandb.Settings(
        silent=True,
        console="off",
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        x_disable_meta=True,  # it would send the command line and the environment
        x_disable_stats=True,
    )
    logged = wandb.init(
        entity=entity or None,
        project=project,
        name=run.name,
        job_type="eval",
        config=run.settings,
        settings=settings,
        dir=os.environ.get("WANDB_DIR") or str(Path.cwd()),  # W&B keeps the folder of the process's first run
        id=run.series or None,
        resume="allow" if run.series else None,
        reinit="create_new",
    )
    try:
        if run.step is None:
            logged.log({**run.values, f"{run.benchmark}/metrics": wandb.Table(columns=list(COLUMNS), data=run.rows)})
            logged.summary.update(run.values)
        else:
            logged.define_metric(f"{run.benchmark}/*", step_metric=STEP)
            logged.log({**run.values, STEP: run.step})
        return logged.url or logged.dir.removesuffix("/files")
    finally:
        logged.finish()
