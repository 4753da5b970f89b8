"""Options of prompt studies: system text, few-shot examples, and probabilities of tokens."""

# Annotations are not postponed here: every start would evaluate them again from text.

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer
from msgspec import structs

from snellen.cli.options import GenerationOptions
from snellen.errors import UsageError
from snellen.types import Generation


@dataclass(frozen=True)
class StudyOptions(GenerationOptions):
    """Sampling settings of a run, what its prompts show before each question, and probabilities of tokens."""

    system: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Text that the model reads before each prompt; it stands before a benchmark's own system text.",
        ),
    ] = None
    few_shot: Annotated[
        int,
        typer.Option(
            "--few-shot",
            "--num-fewshot",
            metavar="N",
            min=0,
            max=64,
            help="Show N answered examples before each question; never tested samples.",
        ),
    ] = 0
    few_shot_from: Annotated[
        str | None,
        typer.Option(
            metavar="POOL",
            help="Pool of the examples: a file or folder of questions, or KEY=VALUE for another setting of the benchmark "
            "(split=dev).",
            show_default="the pool that the benchmark declares",
        ),
    ] = None
    few_shot_draw: Annotated[
        Literal["fixed", "each"],
        typer.Option(help="The same examples before every question (fixed), or drawn for each question."),
    ] = "fixed"
    logprobs: Annotated[
        int | None,
        typer.Option(
            metavar="[N]",
            min=1,
            max=20,
            help="Record the probabilities of the answer's tokens with N alternatives each (5 without a number): option "
            "probabilities and calibration.",
        ),
    ] = None

    def settings(self) -> Generation:
        """Build the sampling settings; raise UsageError for an empty stop text."""
        return structs.replace(super().settings(), logprobs=self.logprobs)

    def study(self) -> "dict[str, Any]":
        """Return the settings of system text and examples; raise UsageError for a pool without a number of examples."""
        if self.few_shot == 0 and (self.few_shot_from is not None or self.few_shot_draw != "fixed"):
            raise UsageError(
                "--few-shot-from and --few-shot-draw are about examples, and none are shown.",
                "Add the number of examples: --few-shot 4",
            )
        return {
            "system": self.system or "",
            "few_shot": self.few_shot,
            "few_shot_from": self.few_shot_from,
            "few_shot_draw": self.few_shot_draw,
        }
