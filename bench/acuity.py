"""Acuity on simulated observers: coverage, bias, questions, the designs of the field beside it, and the cost of steering.

Each observer has a known threshold, width and lapse rate and answers at random by its curve; the method sees the answers
alone. `typical`: threshold uniform in the range of 2 decades, width .15 to .8 decades, lapses 0 to .08, at most 256
questions, width asked 0.2. `prior`: drawn from the method's own prior, at most 128. `default`: as a run asks, at most 96
(192 with two alternatives), and half of the observers say in 30 % of what they do not see that they cannot tell.

    python bench/acuity.py [OBSERVERS]
    python bench/acuity.py --run [OPTION=VALUE ...]

`--run` measures the default set through engine and API client instead: a server of its own process answers each question
200 ms after it came, 64 are in flight, and the line has seconds, questions and CPU seconds of the client alone.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

WHOLE_RUN = sys.argv[1:2] == ["--run"]
LATENCY_S, IN_FLIGHT = 0.2, 64
if not WHOLE_RUN:  # a run is timed as users start it
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import numpy as np

from observers import LEVELS, Observer, drawn_from_prior, interpolated, measure, typical
from snellen.scoring.psychometrics.curve import RIGHT, WRONG, Posterior, choose_levels, forced_choice
from snellen.scoring.psychometrics.estimate import BATCH, catch_slots

ALTERNATIVES = (8, 4, 2)


class AbstentionsWrong(Observer):
    """An observer whose abstentions are counted as wrong answers."""

    def answer(self, level: float, generator: np.random.Generator) -> int:
        return min(super().answer(level, generator), WRONG)


def lapsing(number: int, guess: float, seed: int) -> Iterator[Observer]:
    """Observers that slip in 15 to 30 % of questions."""
    generator = np.random.default_rng(seed)
    for each in typical(number, guess, seed):
        yield Observer(each.threshold, each.width, generator.uniform(0.15, 0.3), guess)


def row(name: str, make: Callable[[int], Iterable[Observer]], number: int, seed: int, **settings: Any) -> str:
    """Measure observers; return a line of questions, coverage, bias and states."""
    generator = np.random.default_rng(seed)
    inside, errors, asked, widths, unmeasured = [], [], [], [], 0
    for observer in make(number):
        result = measure(observer, generator, **settings)
        low, high = result.interval
        inside.append(low <= observer.threshold <= high)
        asked.append(result.asked)
        widths.append(high - low)
        unmeasured += result.value is None
        if result.value is not None:
            errors.append(result.value - observer.threshold)
    reached = np.mean(np.array(widths) <= settings.get("width", 0.2))
    return (
        f"{name:46} {np.mean(asked):6.0f} {np.median(asked):6.0f} {100 * np.mean(inside):7.1f} % {np.mean(errors):+8.3f}"
        f" {100 * reached:7.0f} % {unmeasured:6d}"
    )


def main_rows(number: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for m in ALTERNATIVES:
        most = 192 if m == 2 else 96
        rows += [
            ("typical", m, number, {"most": 256}),
            ("prior", m, number, {"most": 128}),
            ("default", m, number, {"most": most}),
        ]
    few = max(50, number * 3 // 10)
    rows += [("normal", 8, few, {}), ("weibull", 8, few, {}), ("normal", 4, few, {}), ("weibull", 4, few, {})]
    rows += [("no catch trials", 4, few, {"catch": False}), ("as specified", 4, few, {})]
    rows += [
        ("lapses .15 to .30", 4, few, {"catch": False}),
        ("lapses .15 to .30, lapse fixed at .02", 4, few, {"catch": False}),
    ]
    rows += [
        ("floor .5 taken for .25", 4, few, {}),
        ("abstain 90 %", 4, few, {"most": 96}),
        ("abstain 90 %, scored as wrong", 4, few, {"most": 96}),
    ]
    return rows


def simulate(job: tuple[Any, ...]) -> str:
    name, m, number, settings = job
    guess, seed = 1 / m, 100 + m
    makers: dict[str, Callable[[int], Iterable[Observer]]] = {
        "prior": lambda n: drawn_from_prior(n, forced_choice(LEVELS, guess), guess, seed),
        "default": lambda n: (
            Observer(**{**each.__dict__, "abstains": 0.3 * (number % 2)})
            for number, each in enumerate(typical(n, guess, seed))
        ),
        "normal": lambda n: typical(n, guess, seed, shape="normal"),
        "weibull": lambda n: typical(n, guess, seed, shape="weibull"),
        "floor .5 taken for .25": lambda n: typical(n, 0.5, seed),
        "abstain 90 %": lambda n: typical(n, guess, seed, abstains=0.9),
        "abstain 90 %, scored as wrong": lambda n: (
            AbstentionsWrong(**each.__dict__) for each in typical(n, guess, seed, abstains=0.9)
        ),
    }
    make = makers.get(name, lambda n: typical(n, guess, seed))
    if name.startswith("lapses"):
        make = lambda n: lapsing(n, guess, seed)  # noqa: E731
    if name.endswith("fixed at .02"):
        settings = {**settings, "model": forced_choice(LEVELS, guess, lapses=(0.02,))}
    if name.startswith("floor"):
        settings = {**settings, "model": forced_choice(LEVELS, guess)}
    return row(f"{name}, {m} alternatives", make, number, seed, **settings)


def baseline(job: tuple[int, int, int]) -> str:
    """Mean questions of a constant design to an interval of 0.2 decades: by the same posterior, and by interpolation."""
    m, levels, number = job
    guess, generator = 1 / m, np.random.default_rng(m * levels)
    model = forced_choice(LEVELS, guess)
    places = np.array([LEVELS[round(k * (len(LEVELS) - 1) / (levels - 1))] for k in range(levels)])
    counts: list[int] = []
    crossings: list[int] = []
    for observer in typical(number, guess, 100 + m):
        posterior, asked = Posterior.start(model), 0
        while asked < 4096:
            posterior = posterior.fold((float(level), observer.answer(float(level), generator)) for level in places)
            asked += levels
            low, _, high = posterior.quantiles()
            if high - low <= 0.2 and asked >= 24:
                break
        counts.append(asked)
        crossings.append(interpolation(observer, places, guess, generator))
    return f"{m} alternatives, {levels:2d} levels {np.mean(counts):16.0f} {np.mean(crossings):16.0f}"


def interpolation(observer: Observer, places: Any, guess: float, generator: np.random.Generator) -> int:
    """Return how many questions until the spread of the interpolated crossing is 0.2 decades, over 100 repetitions each."""
    share = np.array([1 - (1 - guess) * (1 - _seen(observer, float(level))) for level in places])
    for each in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128):
        drawn = generator.binomial(each, share, size=(100, len(places))) / each
        spread = [interpolated(places, shares, guess) for shares in drawn]
        known = [value for value in spread if value is not None]
        if len(known) >= 95 and np.diff(np.quantile(known, [0.025, 0.975]))[0] <= 0.2:
            return each * len(places)
    return 128 * len(places)


def _seen(observer: Observer, level: float) -> float:
    from snellen.scoring.psychometrics.curve import seen

    return float(
        (1 - observer.lapse / (1 - observer.guess))
        * seen(observer.shape, np.array((level - observer.threshold) / observer.width))
    )


def steering_cost() -> str:
    """CPU milliseconds to choose a batch of eight, after 8 to 88 answers."""
    model = forced_choice(LEVELS, 1 / 8)
    observer, generator = Observer(1.0, 0.4, 0.03, 1 / 8), np.random.default_rng(0)
    posterior, costs = Posterior.start(model), []
    choose_levels(posterior, BATCH)
    for _ in range(11):
        began = time.process_time()
        levels = choose_levels(posterior, BATCH, fixed=dict.fromkeys(catch_slots(), LEVELS[-1]))
        costs.append(1000 * (time.process_time() - began))
        posterior = posterior.fold((level, observer.answer(level, generator)) for level in levels)
    assert RIGHT == 0
    return (
        f"steering: {np.median(costs):.2f} ms CPU a batch of {BATCH} (median of {len(costs)}; largest {max(costs):.2f})"
    )


def whole_run(options: dict[str, str]) -> str:
    """Measure a keyed observer through engine and API client; return seconds, questions, CPU seconds and states."""
    from collections import Counter

    from keyed_observer_server import NamingModel, keyed_server
    from snellen.benchmarks.acuity import ACUITY
    from snellen.benchmarks.base import Data
    from snellen.engine.run_folder import RunFolder, RunSpec
    from snellen.models.base import ModelOptions
    from snellen.runs.perform import perform
    from snellen.runs.score_rows import details

    with keyed_server(LATENCY_S, options) as url, tempfile.TemporaryDirectory() as place:
        settings = ModelOptions(base_url=url, concurrency=IN_FLIGHT)
        model = NamingModel("observer", settings)
        spec = RunSpec(benchmark="acuity", model=model.name, data=Data(options=options), options=settings)
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        run = perform(spec, RunFolder(Path(place) / "run"), benchmark=ACUITY, model=model)
        seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
        states = Counter(condition["state"] for condition in details(run)["conditions"])
    return (
        f"{seconds:.1f} s, {run.meta.totals.done:,} questions, {sum(states.values())} conditions; CPU of the client: "
        f"{after.ru_utime - before.ru_utime:.1f} s user, {after.ru_stime - before.ru_stime:.1f} s system; load "
        f"{os.getloadavg()[0]:.1f}\n{dict(states)}"
    )


if __name__ == "__main__":
    if WHOLE_RUN:
        print(whole_run(dict(text.split("=", 1) for text in sys.argv[2:])))
        sys.exit()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(steering_cost(), flush=True)
    print(f"{'':46} {'mean':>6} {'median':>6} {'coverage':>9} {'bias':>8} {'0.2 dec.':>9} {'no value':>6}")
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for text in pool.map(simulate, main_rows(count)):
            print(text, flush=True)
        print(f"{'mean questions to 0.2 decades, constant design':46} same posterior, interpolation", flush=True)
        jobs = [(m, levels, max(10, count * 6 // 100)) for m in ALTERNATIVES for levels in (8, 21, 41)]
        for text in pool.map(baseline, jobs):
            print(text, flush=True)
