"""The data card of a built set."""

from __future__ import annotations

from snellen.benchmarks.manifest import COLUMNS, QUESTIONS, TAXONOMY, Manifest
from snellen.build.taxonomy import Taxonomy

_NEGATIVES = {
    "sibling": "siblings (same parent) first, then one ancestor further up at a time",
    "cousin": "cousins (same grandparent) first, then further up, siblings last",
    "random": "any class of the level",
    "visual": "the nearest classes of a feature space, then siblings and further up",
}


def card(manifest: Manifest, taxonomy: Taxonomy) -> str:
    """README.md of a set: what it asks, how it was made, what its files hold."""
    lines = [
        f"# {manifest.name}",
        "",
        f"{manifest.questions:,} questions about {manifest.images:,} images, built by Snellen "
        f"{manifest.snellen} with seed {manifest.seed}. Version {manifest.version}.",
        "",
        "```",
        f"snellen run {manifest.name}/{'' if manifest.copied else ' --images IMAGES'} --model MODEL",
        f"snellen build check {manifest.name}/",
        "```",
        "",
        "| file | asks for | about | questions |",
        "|---|---|---|---|",
        *(f"| `{one.file}` | {one.ask} | {one.level} | {one.questions:,} |" for one in manifest.parts),
        "",
        "| level | classes |",
        "|---|---|",
        *(f"| {level} | {len(names):,} |" for level, names in zip(taxonomy.levels, taxonomy.names, strict=True)),
        "",
        "## How it was made",
        "",
        f"- Wrong answers: {_NEGATIVES[str(manifest.settings['negatives'])]}. No option holds another's name.",
        "- Yes and no, and the places of the right option, are equally many to one question, at each level and for "
        "each class.",
        "- Images are referred to by numbers in random order; what they were called never reaches a prompt.",
        *(f"- {note}" for note in manifest.notes),
        "",
        "## Files",
        "",
        f"The `.jsonl` files have the record format of FG-BMK: question_id, image, text, class, category. `{TAXONOMY}` "
        f"is the taxonomy. `{QUESTIONS}` has all questions in one table:",
        "",
        "| column | |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, text in COLUMNS.items()),
        "",
        "Images keep the licence that they came with; name it here before you pass the set on.",
    ]
    return "\n".join(lines) + "\n"
