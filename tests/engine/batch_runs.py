"""Runs by batches over arithmetic questions, in this process or in one that is killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stubs import ARITHMETIC

from servers.batches import KEY, MODEL
from snellen.benchmarks.base import Data
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.models.base import ModelOptions
from snellen.runs.perform import perform
from snellen.runs.run import Run


def arithmetic_answer(question: str) -> str:
    return str(int(question.split()[2]) % 7)


def batch_spec(url: str, n: int, model: str = f"api:{MODEL}", **settings: object) -> RunSpec:
    options = ModelOptions(base_url=url, patience_s=30.0)
    return RunSpec(
        benchmark="arithmetic",
        model=model,
        data=Data(options={"n": str(n)}),
        options=options,
        batch=True,
        poll_s=0.05,
        **settings,  # type: ignore[arg-type]
    )


def run_batches(url: str, folder: Path, n: int, model: str = f"api:{MODEL}", **settings: object) -> Run:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        os.environ[name] = KEY
    spec = batch_spec(url, n, model, **settings)
    return perform(spec, RunFolder(folder), benchmark=ARITHMETIC, backoff=Backoff(base_s=0.01, patience_s=30.0))


if __name__ == "__main__":
    run_batches(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
