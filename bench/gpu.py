"""Figures of a GPU: `local:`, `features extract`, retrieval, k-NN, probes and PGD, each beside torch written by hand.

Models have random weights, which cost what trained ones cost, and the sizes of Qwen3-VL-8B, SigLIP2-so400m and DINOv3-L,
in bfloat16 (bench/gpu.toml). Nothing is downloaded. Each section (bench/gpu_sections.py) runs in a process of its own and
is stopped after its share of --minutes. What fails or takes too long is named in the table and in the section's file, and the
next one goes on. The ways of a case take turns in one process, and which goes first alternates. The first turn of each
does not count; medians do. Ratios are peer / this, so that more than 1 is faster than the peer. A floor is what no way
can do without: weights read once a token, an encoder alone, products alone. `retrieval`, `knn` and the logistic probe
compute on the processor; their peers do not.

The figures of a section lie in OUT/SECTION.json as soon as each case is done. A second call with the same folder measures
only what is missing there; --again measures everything. Without a folder nothing is kept.

Without a GPU the script prints what it would do, and proves itself on the processor with small models in float32. Those
figures mean nothing, but every step is taken. The exit status is 1 where a section is incomplete.

Usage: python bench/gpu.py [--out DIR] [--sections local features ...] [--minutes 8] [--plan]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from snellen.atomic_write import replacing
from snellen.models.local.checkpoint import pick_device

SIZES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SECTIONS: dict[str, dict[str, Any]] = SIZES.pop("sections")


def write(path: Path, found: Mapping[str, Any]) -> None:
    """Write a section's file, whole or not at all."""
    with replacing(path) as part:
        part.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def known(path: Path, size: str, device: str) -> dict[str, Any]:
    """Return a section's file if its figures are of this device, these sizes and versions, else an empty one."""
    card = torch.cuda.get_device_name(device) if device.startswith("cuda") else device
    start = {"settings": {"device": card, "torch": torch.__version__, **SIZES[size]}, "cases": {}, "complete": False}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return start
    return found if isinstance(found, dict) and found.get("settings") == start["settings"] else start


def described(error: BaseException) -> str:
    """Return an error's class and first line."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"[:300]


def measure(name: str, size: str, device: str, path: Path, seconds: float) -> None:
    """Measure what the section's file lacks, in this process, and write it as soon as each case is done."""
    import gpu_sections
    from local_throughput import machine

    end = time.monotonic() + seconds
    found = known(path, size, device) | {"complete": False, "error": None}
    found |= {"machine": list(machine(device)), "date": datetime.now(UTC).date().isoformat()}
    done = found["cases"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            cases = getattr(gpu_sections, name)(gpu_sections.Place(SIZES[size], device, Path(folder)))
        except Exception as error:  # noqa: BLE001 - whatever a section fails at is said
            write(path, found | {"error": described(error)})
            return
        missing = [case for case in cases if "rows" not in done.get(case, {})]
        for number, case in enumerate(missing):
            now = time.monotonic()
            # Half of its share is for the rounds, the other half for what comes before and after them.
            until = now + max(0.0, end - now) / (len(missing) - number) / 2
            try:
                done[case] = {"rows": cases[case](until)}
            except Exception as error:  # noqa: BLE001 - and so are the failures of a case
                done[case] = {"error": described(error)}
            write(path, found)
    write(path, found | {"complete": all("rows" in done.get(case, {}) for case in cases)})


def run(names: Sequence[str], folder: Path, size: str, device: str, seconds: float) -> None:
    """Measure sections whose files are incomplete in a process of their own, and write down how that ended."""
    names = [name for name in names if not known(folder / f"{name}.json", size, device)["complete"]]
    if not names:
        return
    given = ["--sections", *names, "--inside", folder, "--minutes", seconds / 60, "--size", size, "--device", device]
    error = None
    try:
        process = subprocess.run([sys.executable, __file__, *map(str, given)], timeout=max(1.0, seconds))
        if process.returncode:
            error = f"its process ended with exit status {process.returncode}"
    except subprocess.TimeoutExpired:
        error = f"it was stopped after {seconds:.0f} s"
    for name in names:
        found = known(folder / f"{name}.json", size, device)
        if error and not found["complete"]:
            write(folder / f"{name}.json", found | {"error": error})


def share(names: Sequence[str], of: Sequence[str]) -> float:
    """Return the share of some sections in the time of others, 0 to 1."""
    return sum(SECTIONS[name]["share"] for name in names) / sum(SECTIONS[name]["share"] for name in of)


def print_table(name: str, found: Mapping[str, Any]) -> bool:
    """Print a section's figures; return True if none is missing."""
    print(*found.get("machine", ()), sep="; ")
    for case, made in found["cases"].items():
        print(f"{name}: {case}" + (f": FAILED: {made['error']}" if "error" in made else ""))
        for row in made.get("rows", ()):
            rates = ", ".join(f"{rate:,.1f} {what}/s" for what, rate in row["per_second"].items())
            ratio = "{:.2f} ({:.2f} to {:.2f})".format(*row["peer_over_this"]) if "peer_over_this" in row else ""
            memory = f"{row['peak_gib']:.1f} GiB" if "peak_gib" in row else ""
            notes = "; ".join(f"{what} {figure}" for what, figure in row.get("agreement", {}).items())
            print(f"  {row['way']:34}{row['seconds']:9.3f} s  {rates:36}{ratio:22}{memory:>10}  {notes}".rstrip())
    if not found["complete"]:
        reason = found.get("error") or "a case failed"
        print(f"{name}: INCOMPLETE: {reason}; the same call with --out measures the rest")
    sys.stdout.flush()
    return bool(found["complete"])


def print_plan(name: str, minutes: float) -> None:
    """Print what would be measured with these sizes."""
    size = SIZES[name]
    print(
        f"{name}: {size['text']['num_hidden_layers']} layers of {size['text']['hidden_size']} in {size['dtype']}, "
        f"batches of {', '.join(size['batches'])}, {size['max_tokens']} tokens a reply; {', '.join(size['towers'])}, "
        f"{size['images']} images; {size['rows']:,} rows of features; {size['attacked']} attacked images"
    )
    for section, facts in SECTIONS.items():
        print(f"  {section:8} about {0.6 * minutes * facts['share']:4.0f} s  {facts['what']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kept = os.environ.get("OUT") or None
    parser.add_argument("--out", type=Path, default=kept, help="folder for the figures; default: the variable OUT")
    parser.add_argument("--sections", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--minutes", type=float, default=8.0, help="for all sections together (default 8)")
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:N or cpu")
    parser.add_argument("--size", choices=["auto", *SIZES], default="auto", help="auto: card on a GPU, else proof")
    parser.add_argument("--again", action="store_true", help="measure again what the folder has")
    parser.add_argument("--plan", action="store_true", help="print what would be measured, and end")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)  # the folder, in a process that measures
    chosen = parser.parse_args()
    device = pick_device(chosen.device)
    size = ("card" if device.startswith("cuda") else "proof") if chosen.size == "auto" else chosen.size
    end = time.monotonic() + 60 * chosen.minutes
    if chosen.inside is not None:
        for number, name in enumerate(chosen.sections):
            seconds = share([name], chosen.sections[number:]) * (end - time.monotonic())
            measure(name, size, device, chosen.inside / f"{name}.json", seconds)
        return 0
    if device == "cpu" and size == "proof":
        print("There is no GPU in use. With one, this would be measured:")
        print_plan("card", chosen.minutes)
        print("Here the same steps are taken with small models; their figures mean nothing:")
    print_plan(size, chosen.minutes)
    if chosen.plan:
        return 0
    # Small models take less time than a process needs to start.
    groups = [chosen.sections] if size == "proof" else [[name] for name in chosen.sections]
    complete = []
    with tempfile.TemporaryDirectory() as unkept:
        folder = chosen.out or Path(unkept)
        folder.mkdir(parents=True, exist_ok=True)
        for name in chosen.sections if chosen.again else ():
            (folder / f"{name}.json").unlink(missing_ok=True)
        for number, names in enumerate(groups):
            rest = [name for group in groups[number:] for name in group]
            run(names, folder, size, device, share(names, rest) * (end - time.monotonic()))
            for name in names:
                complete.append(print_table(name, known(folder / f"{name}.json", size, device)))
    return int(not all(complete))


if __name__ == "__main__":
    sys.exit(main())
