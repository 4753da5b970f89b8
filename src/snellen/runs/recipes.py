"""Recipes of sampling: `--sampling NAME` of the package's recipes.toml, or FILE of the user's own, put into a run's settings."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.engine.run_folder import RunSpec
from snellen.errors import DataError, UsageError
from snellen.media import check_settings
from snellen.models.base import AUTO, CHECKPOINT, GREEDY, NONE, effective
from snellen.models.registry import CHECKPOINT_KINDS
from snellen.sources.safe_paths import regular_file
from snellen.toml_text import parse_toml
from snellen.types import Generation, MediaSettings

FRAMES = ("frames", "fps", "min_frames", "max_frames", "frame_places", "timestamps")
SIZES = ("max_long_side", "max_pixels", "min_pixels")
DRAWN = frozenset(Generation.__struct_fields__) - {"seed", "extra", "logprobs"}
WORDS = frozenset({"models", "source", "note", "prompts", "system"})
MOST_BYTES = 1 << 16


class Recipe(Struct, frozen=True):
    """Sampling of one source.

    Attributes:
        name: as `--sampling` names it.
        generation, media: what it sets.
        models: parts of the names of the models that it is for.
        source: where it is stated.
        note: what else the source says.
        prompts: the prompts by which the vendor's figures were made; they are not set.
        system: a system text.
    """

    name: str
    generation: Generation
    media: MediaSettings = MediaSettings()
    models: tuple[str, ...] = ()
    source: str = ""
    note: str = ""
    prompts: str = ""
    system: str = ""

    def settings(self) -> dict[str, Any]:
        """Return what it sets, by the names of `snellen run`."""
        return {**msgspec.to_builtins(self.generation), **msgspec.to_builtins(self.media)}

    def fits(self, model: str) -> bool:
        """Return True for a model of its families, or a part of such a name; of a recipe without families always."""
        name = _plain(model)
        return not self.models or any(_plain(part) in name or name in _plain(part) for part in self.models)


@cache
def recipes() -> Mapping[str, Recipe]:
    """Return the package's recipes by name."""
    place = files(__package__).joinpath("recipes.toml")
    tables = parse_toml(place.read_text("utf-8"))
    return {name: _recipe(Path("recipes.toml"), name, table) for name, table in tables.items()}


def find_recipe(name: str, *, trust: bool = True) -> Recipe:
    """Return the recipe that `--sampling` names.

    Args:
        name: greedy, a recipe of the package, or a TOML file with the keys of one.
        trust: the user typed it; a name from a run of somebody else names no file.

    Raises:
        UsageError: there is no such recipe; near names are listed. Or a key of the file is unknown.
        DataError: the file is no TOML.
    """
    if name == GREEDY:
        return Recipe(GREEDY, Generation(temperature=0.0))
    if found := recipes().get(name):
        return found
    if trust and (name.endswith(".toml") or "/" in name):
        return _read(Path(name).expanduser())
    near = difflib.get_close_matches(name, recipes(), 5, 0.3) or [
        other for other, recipe in recipes().items() if recipe.models and recipe.fits(name)
    ]
    hint = f"Near: {', '.join(near)}. " if near else ""
    raise UsageError(
        f"--sampling {name}: there is no recipe of this name.",
        f"{hint}All: snellen recipes. Besides: checkpoint, greedy, none, FILE.toml.",
    )


def with_recipe(spec: RunSpec, *, trust: bool = True) -> RunSpec:
    """Return a run's settings with those of its recipe where the user set none; unchanged once they are.

    A recipe's frames are left out where the user sets any of frames, and its image bounds where the user sets any size.

    Raises:
        UsageError, DataError: as `find_recipe`, or the settings exclude each other.
    """
    asked, kind = spec.options.sampling, spec.model.partition(":")[0]
    if asked == CHECKPOINT and kind and kind not in (*CHECKPOINT_KINDS, "embedded"):
        raise UsageError(
            f"--sampling checkpoint reads the files of a checkpoint, and --model {spec.model} has none here.",
            "Choose greedy or a recipe: snellen recipes",
        )
    if asked in (None, AUTO, CHECKPOINT, NONE) or spec.recipe is not None:
        return spec
    recipe, media, usual = find_recipe(asked, trust=trust), spec.options.media, MediaSettings()
    for names in (FRAMES, (*SIZES, "resize")):
        if all(getattr(media, name) == getattr(usual, name) for name in names):
            media = structs.replace(media, **{name: getattr(recipe.media, name) for name in names})
    options = structs.replace(
        spec.options, generation=effective(spec.options.generation, recipe.generation), media=check_settings(media)
    )
    named = f"{recipe.name} (its figures by {recipe.prompts})" if recipe.prompts else recipe.name
    return structs.replace(spec, recipe=named, options=options, system=spec.system or recipe.system)


def _read(path: Path) -> Recipe:
    regular_file(path)
    if path.stat().st_size > MOST_BYTES:
        raise DataError(f"{path} is larger than {MOST_BYTES:,} bytes", "It is not a recipe.")
    try:
        table = parse_toml(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: not TOML: {error}", "Correct the line; `snellen --help sampling` has a recipe."
        ) from error
    taken = path.stem in recipes() or path.stem in (AUTO, CHECKPOINT, GREEDY, NONE)
    return _recipe(path, path.name if taken else path.stem, table)


def _recipe(path: Path, name: str, table: dict[str, Any]) -> Recipe:
    from snellen.runs.plan.document import checked_table

    table = checked_table(path, name, table, DRAWN | WORDS | {*FRAMES, *SIZES})
    parts = {"generation": DRAWN, "media": {*FRAMES, *SIZES}}
    tables = {part: {key: table[key] for key in known if key in table} for part, known in parts.items()}
    rest = {key: value for key, value in table.items() if key in WORDS}
    try:
        return msgspec.convert({"name": name, **tables, **rest}, Recipe)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path}: {name}: {error}", "Correct the value; `snellen --help sampling` lists the keys."
        ) from error


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
