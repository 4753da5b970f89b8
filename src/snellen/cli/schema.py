"""snellen schema"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import PurePath
from typing import Any

from snellen.cli.console import show_json
from snellen.cli.option_parsing import argument
from snellen.errors import UsageError
from snellen.types import Interval

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_HERE = "snellen.cli.json_output:"
_GROUPS = "snellen.cli.json_output_of_groups:"
_RUNS = (f"{_HERE}RunsOutput",)
_MEASURE = (f"{_GROUPS}MeasureOutput",)
OUTPUTS: dict[str, tuple[str, ...]] = {
    "run": (*_RUNS, f"{_HERE}DryRun", f"{_HERE}PlanOutput", f"{_HERE}PlanDryRun"),
    "rerun": _RUNS,
    "demo": _RUNS,
    "judge": (*_RUNS, f"{_HERE}DryRun"),
    "read": (*_RUNS, f"{_HERE}DryRun"),
    "import": _RUNS,
    "answer": _RUNS,
    "acuity": (*_RUNS, f"{_HERE}DryRun", f"{_HERE}ThresholdsOutput", f"{_HERE}MarginsOutput", f"{_HERE}BlankOutput"),
    "reproduce": (f"{_HERE}ReproduceOutput", f"{_HERE}DryRun", *_RUNS),
    "watch": (f"{_HERE}WatchOutput",),
    "merge": (f"{_HERE}MergeOutput",),
    "leakage": (f"{_HERE}LeakageOutput", f"{_HERE}DryRun"),
    "easi": (f"{_GROUPS}EasiOutput", f"{_HERE}DryRun"),
    "check": ("snellen.runs.check.result:CheckResult",),
    "power": ("snellen.runs.power:Power",),
    "subset": ("snellen.runs.subset:Subset",),
    "batch list": (f"{_GROUPS}BatchesOutput",),
    "batch cancel": (f"{_GROUPS}BatchesOutput",),
    "batch drop": (f"{_GROUPS}BatchesOutput",),
    "batch write": (f"{_GROUPS}WrittenBatch",),
    "batch read": (f"{_GROUPS}ReadBatches",),
    "score": (f"{_HERE}ScoreOutput",),
    "compare": (f"{_HERE}CompareOutput",),
    "report": (f"{_HERE}FilesOutput", f"{_HERE}ReferenceOutput"),
    "view": (f"{_GROUPS}ServedPages", f"{_GROUPS}ExportedPages"),
    "show": ("snellen.cli.show:ShownRun",),
    "query": (f"{_HERE}QueryOutput",),
    "failures": (f"{_HERE}FailuresOutput",),
    "reviews status": (f"{_GROUPS}ReviewsOutput",),
    "reviews sample": (f"{_GROUPS}DrawnSample",),
    "reviews export": (f"{_GROUPS}ExportedTasks",),
    "reviews import": (f"{_GROUPS}ImportedDecisions",),
    "reviews card": (f"{_GROUPS}CardsOutput",),
    "export": (f"{_HERE}FilesOutput", f"{_HERE}FormatsOutput", f"{_HERE}TableOutput"),
    "submit easi": (f"{_GROUPS}SubmitOutput",),
    "extract": (f"{_HERE}TalliesOutput", f"{_HERE}RuleOutput"),
    "build questions": ("snellen.benchmarks.generated:Manifest",),
    "build check": (f"{_GROUPS}BuildCheck",),
    **dict.fromkeys(("build boxes", "build masks"), ("snellen.questions.detected_boxes:Detection",)),
    "build linking": (f"{_GROUPS}LinkingCounts",),
    "build curate": (f"{_GROUPS}CurateOutput",),
    "prompts import": (f"{_GROUPS}ImportedPrompts",),
    **{
        f"features {name}": _MEASURE
        for name in ("acuity", "alignment", "attack", "cka", "probe", "retrieval", "knn", "zero-shot", "image-text")
    },
    "features extract": (f"{_GROUPS}StoreOutput",),
    "features import": (f"{_GROUPS}StoreOutput",),
    "features report": (f"{_GROUPS}ReportSummary",),
    "agents list": (f"{_GROUPS}AgentsOutput",),
    "agents install": (f"{_GROUPS}AgentsOutput",),
    "agents image": (f"{_GROUPS}AgentImage",),
    "list": tuple(f"{_HERE}Listed{name}" for name in ("Benchmarks", "Catalogue", "Cards", "Runs", "Tables")),
    "recipes": (f"{_HERE}RecipesOutput",),
    "doctor": (f"{_HERE}DoctorOutput",),
    "version": (f"{_GROUPS}VersionOutput",),
}
"""Each command that has --json, with the types of what it prints, as MODULE:TYPE; of several it prints one."""


def schema(
    command: list[str] | None = argument("The command, such as run, or: build check.", None, value="COMMAND"),
) -> None:
    """Print the JSON Schema (2020-12) of what a command prints on standard output with --json.

    Without a command: the commands that have one, one a line.
    """
    if not command:
        print("\n".join(OUTPUTS))
        return
    name = " ".join(command)
    if name not in OUTPUTS:
        raise UsageError(
            f"{name}: no command of this name has --json", "`snellen schema` lists the commands that have it."
        ).near(name, OUTPUTS)
    show_json(schema_of(name))


@cache
def schema_of(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints with --json; several forms stand under `anyOf`."""
    types = []
    for place in OUTPUTS[command]:
        module, _, name = place.partition(":")
        types.append(getattr(import_module(module), name))
    return schema_of_type(*types)


def schema_of_type(*types: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type, or of several; objects have no other fields than those that are named."""
    from msgspec.json import schema_components

    schemas, definitions = schema_components(types, schema_hook=_special, ref_template="#/$defs/{name}")
    whole: dict[str, Any] = {"$schema": DIALECT}
    if len(schemas) > 1:
        whole["anyOf"] = list(schemas)
    else:
        reference = str(schemas[0].get("$ref", "")).removeprefix("#/$defs/")
        # The definition itself, as clients want `type` at the top.
        whole |= definitions[reference] if reference else schemas[0]
    if definitions:
        whole["$defs"] = definitions
    _close(whole)
    return whole


def _special(kind: type) -> dict[str, Any]:
    """Return the schema of a type that JSON has no word for: paths are printed as text, intervals as two numbers."""
    if issubclass(kind, PurePath):
        return {"type": "string"}
    if issubclass(kind, Interval):
        return {"type": "array", "prefixItems": [{"type": "number"}] * 2, "items": False, "minItems": 2}
    raise NotImplementedError(kind)


def _close(node: Any) -> None:
    """Allow no field beside those that an object names, unless it is an open one."""
    from snellen.cli.json_output import OPEN

    if isinstance(node, list):
        for item in node:
            _close(item)
    elif isinstance(node, dict):
        if isinstance(node.get("properties"), dict) and node.get("title") not in OPEN:
            node.setdefault("additionalProperties", False)
        for item in node.values():
            _close(item)
