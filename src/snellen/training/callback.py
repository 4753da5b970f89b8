"""EvaluationCallback: benchmarks between the steps of transformers' Trainer, without an effect on the training."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import torch
from transformers import Trainer, TrainerCallback

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, checked_data
from snellen.engine.subset import with_subset
from snellen.errors import InterruptedRunError, SnellenError, UsageError
from snellen.models.local.in_memory import require_generating, require_processor, sharding, unwrapped
from snellen.runs.evaluate import evaluate
from snellen.runs.settings import RunSettings, run_spec
from snellen.runs.trackers.content import values_of
from snellen.training.checkpoints import evaluate_replacing, step_folder
from snellen.training.sharded import require_gatherable, whole_copy

log = logging.getLogger(__name__)

trainer_class: Any = Trainer
callback_class: Any = TrainerCallback


class EvaluationCallback(callback_class):  # type: ignore[misc]
    """Evaluate the model of a Trainer every N steps, and log metrics with intervals through the Trainer.

    Weights, gradients, random states and modes are as before, so that the training goes as it would without the callback.
    Only the main process evaluates; it gathers weights that FSDP has sharded into a copy for as long. Each evaluation is a run folder `out/<benchmark>/step-00000100`; a training that is
    resumed completes it. A failed evaluation is logged as a warning, and the training goes on.

        trainer = Trainer(..., callbacks=[EvaluationCallback("chart/digits", every_steps=100, limit=200)])

    Args:
        benchmark: a name, a Benchmark, or several of them.
        every_steps: evaluate after each of these many optimizer steps; None: whenever the Trainer evaluates, and then the
            values join its metrics, so that `metric_for_best_model` may name one.
        out: folder of the runs; by default `snellen` in the Trainer's output_dir.
        processor: of the model; by default the Trainer's processing_class.
        profile: scoring profiles to log, as `--profile`; by default the benchmark's first.
        at_start, at_end: evaluate before the first and after the last step too.
        prefix: begins each name: `eval_chart/digits/accuracy`, `eval_chart/digits/accuracy_ci95_low`. W&B shows names that
            begin with `eval_` in a section of their own.
        trainer: whose `log` is called; by default the Trainer that calls this callback.
        limit, subset: run only the first N samples, or the items of a subset (docs/subset.md).
        settings: further settings of `snellen.evaluate`, such as data and generation.
    """

    def __init__(
        self,
        benchmark: str | Benchmark | Sequence[str | Benchmark],
        *,
        every_steps: int | None = None,
        out: str | Path | None = None,
        processor: Any = None,
        profile: str | None = None,
        at_start: bool = False,
        at_end: bool = True,
        prefix: str = "eval",
        trainer: Any = None,
        **settings: Unpack[RunSettings],
    ) -> None:
        named = [benchmark] if isinstance(benchmark, str | Benchmark) else list(benchmark)
        if not named:
            raise UsageError("EvaluationCallback has no benchmark.", "Name one, such as 'chart/digits'.")
        for name, number in (("every_steps", every_steps), ("limit", settings.get("limit"))):
            if number is not None and (not isinstance(number, int) or number < 1):
                raise UsageError(
                    f"{name} is {number!r}; a whole number of at least 1 was expected.", f"Correct {name}."
                )
        self.benchmarks = [(each, registry.find(each) if isinstance(each, str) else each) for each in named]
        spec = run_spec("", "", settings)
        for _, subject in self.benchmarks:
            with_subset(subject, spec)
            checked_data(subject, settings.get("data"), settings.get("images"), settings.get("benchmark_options"))
        self.every_steps, self.processor, self.profile = every_steps, processor, profile
        self.at_start, self.at_end, self.prefix, self.trainer = at_start, at_end, prefix, trainer
        self._out = None if out is None else Path(out)
        self._settings = settings
        self._last_step: int | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **context: Any) -> None:
        """Check what can be checked, evaluate at the start if asked for, and complete what a stopped training left.

        Raises:
            UsageError: the model, its processor or the Trainer cannot be used.
        """
        model = unwrapped(context["model"])
        if sharding(model):
            require_gatherable(model)
        else:
            require_generating(model)
        require_processor(model, self._processor(context))
        if self.trainer is None:
            self.trainer = self._calling_trainer()
        step = state.global_step
        if (step == 0 and self.at_start) or (step > 0 and self._is_due(step)):
            self._evaluate(args, state, control, context)

    def on_step_end(self, args: Any, state: Any, control: Any, **context: Any) -> None:
        if self._is_due(state.global_step):
            self._evaluate(args, state, control, context)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **context: Any) -> None:
        if self.every_steps is None:
            values = _broadcast(self._evaluate(args, state, control, context))
            if isinstance(metrics, dict):
                metrics.update(values)

    def on_train_end(self, args: Any, state: Any, control: Any, **context: Any) -> None:
        """Evaluate the last step, unless the Trainer has loaded the best weights of another one."""
        if self.at_end and self._last_step != state.global_step and not args.load_best_model_at_end:
            self._evaluate(args, state, control, context)

    def _is_due(self, step: int) -> bool:
        return self.every_steps is not None and step % self.every_steps == 0

    def _processor(self, context: dict[str, Any]) -> Any:
        return context.get("processing_class") if self.processor is None else self.processor

    def _calling_trainer(self) -> Any:
        """Return the Trainer that has called this callback: transformers does not hand it to callbacks."""
        frame = sys._getframe(1)
        while frame is not None:
            caller = frame.f_locals.get("self")
            if isinstance(caller, trainer_class):
                return caller
            frame = frame.f_back  # type: ignore[assignment]
        raise UsageError(
            "EvaluationCallback was called by no Trainer, so its metrics cannot be logged.",
            "Pass trainer=TRAINER, an object with a method log(values).",
        )

    def _evaluate(self, args: Any, state: Any, control: Any, context: dict[str, Any]) -> dict[str, float]:
        """Evaluate and log this step on the main process; return the values by their names in the log."""
        self._last_step = state.global_step
        if sharding(unwrapped(context["model"])):
            context = {**context, "model": whole_copy(unwrapped(context["model"]), args.device)}
        if not state.is_world_process_zero:
            return {}
        values: dict[str, float] = {}
        for named, benchmark in self.benchmarks:
            values |= self._evaluate_one(named, benchmark, args, state, context)
        if values and self.trainer is not None:
            pending = control.should_log  # logging clears the Trainer's own request to log the loss
            self.trainer.log(dict(values))
            for flow in (control, getattr(self.trainer, "control", None)):
                if flow is not None:
                    flow.should_log = pending
        return values

    def _evaluate_one(
        self, named: str | Benchmark, benchmark: Benchmark, args: Any, state: Any, context: dict[str, Any]
    ) -> dict[str, float]:
        out = Path(args.output_dir) / "snellen" if self._out is None else self._out
        folder = step_folder(out, benchmark.name, f"step-{state.global_step:08d}")
        try:
            run = evaluate_replacing(
                folder,
                lambda: evaluate(
                    named, context["model"], processor=self._processor(context), out=folder, **self._settings
                ),
                replaces=lambda error: True,  # an earlier training in the same folder must not stop this one
            )
            metrics = run.figures(self.profile)
        except InterruptedRunError:
            raise
        except SnellenError as error:
            log.warning("step %d: %s was not evaluated: %s", state.global_step, benchmark.name, error)
            return {}
        except Exception:  # a fault of a benchmark must not end a training of days
            log.exception("step %d: %s was not evaluated", state.global_step, benchmark.name)
            return {}
        return {f"{self.prefix}_{name}": value for name, value in values_of(benchmark.name, metrics).items()}


def _broadcast(values: dict[str, float]) -> dict[str, float]:
    """Return the main process's values on every process."""
    distributed: Any = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
        return values
    shared = [values]
    distributed.broadcast_object_list(shared, src=0)
    return shared[0]
