"""Recipes of sampling: what they set, what counts before them, what a run records, and the seeds of its prompts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import snellen
from snellen.engine.retry import Seeds
from snellen.engine.run_folder import RunSpec
from snellen.errors import DataError, FingerprintError, SnellenError, UsageError
from snellen.models.base import ModelOptions, effective
from snellen.runs import perform as performing
from snellen.runs.caveats import sampling_text, title_part
from snellen.runs.plan.cells import cells_of
from snellen.runs.plan.document import read_plan
from snellen.runs.recipes import find_recipe, recipes, with_recipe
from snellen.types import Generation, MediaSettings, Prompt, Sample, Text

OWN = """
source = "our card, 2026-11-01"
temperature = 0.6
top_p = 0.95
top-k = 20
max_tokens = 40
stop = ["\\n\\n"]
system = "Be brief."
max_pixels = 200704
fps = 2
prompts = "the card's prompts"
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    return str(path)


def spec_of(sampling: str | None, model: str = "api:m", **options: Any) -> RunSpec:
    return RunSpec(benchmark="chart/digits", model=model, options=ModelOptions(sampling=sampling, **options))


def test_every_recipe_of_the_package_names_its_source_and_at_least_ten_families_have_one():
    known = recipes()
    assert all(each.source and each.models and each.settings() for each in known.values())
    families = {part.rstrip("0123456789.-_") for each in known.values() for part in each.models}
    assert len(families) >= 10, families
    qwen = known["qwen3-vl-instruct"].generation
    assert (qwen.temperature, qwen.top_p, qwen.top_k, qwen.presence_penalty) == (0.7, 0.8, 20, 1.5)
    assert known["glm-4.5v-no-thinking"].generation == Generation(chat_template_kwargs={"enable_thinking": False})


@pytest.mark.parametrize("name", sorted(recipes()))
def test_every_recipe_of_the_package_makes_settings_that_a_run_accepts(name):
    spec = with_recipe(spec_of(name))
    assert spec.recipe is not None and spec.recipe.startswith(name)
    chosen = {**structs.asdict(spec.options.generation), **structs.asdict(spec.options.media)}
    for key, value in recipes()[name].settings().items():
        assert chosen[key] == value


def test_what_the_user_sets_counts_before_the_recipe_and_the_recipe_before_the_benchmark(own):
    spec = with_recipe(spec_of(own, generation=Generation(temperature=0.2, presence_penalty=0.0)))
    benchmark = Generation(temperature=0.0, max_tokens=4, min_p=0.1)
    chosen = effective(spec.options.generation, benchmark)
    assert chosen == Generation(
        temperature=0.2, top_p=0.95, top_k=20, max_tokens=40, stop=("\n\n",), min_p=0.1, presence_penalty=0.0
    )
    assert (spec.system, spec.recipe) == ("Be brief.", "own (its figures by the card's prompts)")
    assert with_recipe(structs.replace(spec_of(own), system="Mine.")).system == "Mine."
    assert with_recipe(spec) is spec, "a recorded run holds its settings, and its file may be gone"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, {"fps": 2.0, "max_pixels": 200704}),
        ({"frames": 4}, {"frames": 4, "max_pixels": 200704}),
        ({"max_long_side": 500}, {"fps": 2.0, "max_long_side": 500}),
        ({"resize": "448x448", "timestamps": True}, {"resize": "448x448", "timestamps": True}),
    ],
)
def test_frames_and_sizes_of_a_recipe_give_way_as_a_whole(own, asked, expected):
    assert with_recipe(spec_of(own, media=MediaSettings(**asked))).options.media == MediaSettings(**expected)


def test_greedy_is_temperature_0_and_none_sets_nothing():
    assert with_recipe(spec_of("greedy")).options.generation == Generation(temperature=0.0)
    assert with_recipe(spec_of("none")).options.generation == Generation()


@pytest.mark.parametrize(
    ("name", "content", "message", "hint"),
    [
        ("qwen3-vl-instuct", None, "there is no recipe of this name", "Near: qwen3-vl-instruct"),
        ("Qwen/Kimi-K2.5", None, "no file|there is no|cannot", ""),
        ("a.toml", "temprature = 1", "has no key 'temprature'", "Did you mean temperature"),
        ("a.toml", "temperature = -1", "has temperature = -1", ""),
        ("a.toml", "top_k = 1.5", "int", "snellen --help sampling"),
        ("a.toml", 'stop = ["x", ""]', "an empty text in stop", "Remove"),
        ("a.toml", 'name = "greedy"', "no key 'name'", ""),
        ("a.toml", "temperature = ", "not TOML", ""),
        ("a.toml", "#" * 70_000, "larger than", ""),
    ],
)
def test_a_recipe_that_there_is_not_or_that_is_none_says_what_to_do(
    tmp_path, monkeypatch, name, content, message, hint
):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_text(content)
    with pytest.raises(SnellenError, match=message) as caught:
        find_recipe(name)
    assert hint in caught.value.hint


@pytest.mark.parametrize("taken", ["greedy", "none", sorted(recipes())[0]])
def test_an_own_recipe_is_not_called_by_the_name_of_another_choice(tmp_path, taken):
    path = tmp_path / f"{taken}.toml"
    path.write_text("temperature = 1.0")
    assert find_recipe(str(path)).name == f"{taken}.toml"


def test_a_run_of_somebody_else_names_no_file_of_this_machine(own):
    with pytest.raises(UsageError, match="there is no recipe of this name"):
        find_recipe(own, trust=False)


@given(st.text(max_size=200))
def test_any_text_is_a_recipe_or_is_refused_with_words(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "r.toml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        find_recipe(str(path))
    except (UsageError, DataError) as error:
        assert str(path) in error.message


def test_sampling_of_a_checkpoint_is_refused_for_a_model_without_one():
    with pytest.raises(UsageError, match="--sampling checkpoint reads the files of a checkpoint"):
        with_recipe(spec_of("checkpoint"))


def replies(run: Any) -> dict[tuple[str, int], str]:
    lines = (json.loads(line) for line in (run.path / "results.jsonl").read_text().splitlines())
    return {(line["sample_id"], line.get("repeat", 0)): line["response"]["text"] for line in lines}


HOT = Generation(temperature=4.0, top_k=12, max_tokens=4)


def test_a_run_with_a_recipe_records_it_and_the_title_names_it_with_its_repeats(own, tmp_path):
    run = snellen.evaluate("chart/digits", "embedded", limit=2, sampling=own, repeats=2, out=tmp_path / "run")
    assert run.meta.spec.options.sampling == own
    assert title_part(run.meta).endswith("sampling own (its figures by the card's prompts) · 2 repeats")
    Path(own).unlink()
    again = snellen.rerun(tmp_path / "run", out=tmp_path / "again")
    assert again.meta.fingerprint == run.meta.fingerprint and replies(again) == replies(run)


def test_a_run_without_the_new_settings_has_the_identity_of_earlier_versions(tmp_path):
    run = snellen.evaluate("chart/digits", "embedded", limit=1, out=tmp_path / "run")
    assert (run.meta.identity["generation"], run.meta.identity["media"]) == ({}, {})
    assert set(run.meta.identity["model"]) == {"kind", "digest", "dtype", "stop_after_first_json"}
    assert not {"recipe", "seeds", "sampling"} & set(run.meta.identity)
    assert sampling_text(run.meta) == ""
    old = Generation(max_tokens=5, temperature=0.0, top_p=0.9, stop=("x",))
    assert json.loads(snellen_json(old)) == {"max_tokens": 5, "temperature": 0.0, "top_p": 0.9, "stop": ["x"]}


def snellen_json(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


@pytest.mark.parametrize("batch_size", [1, 5])
def test_a_resumed_run_has_the_replies_of_an_undisturbed_one(tmp_path, batch_size):
    def run(out: str, limit: int) -> Any:
        return snellen.evaluate(
            "chart/digits",
            "embedded",
            limit=limit,
            repeats=3,
            generation=HOT,
            batch_size=batch_size,
            out=tmp_path / out,
        )

    whole = replies(run("whole", 6))
    run("parts", 2)
    assert replies(run("parts", 6)) == whole
    assert len(whole) == 18 and len(set(whole.values())) > 6


def test_a_run_that_an_earlier_version_began_goes_on_by_its_rules(tmp_path, monkeypatch, checkpoint):
    def run(out: str, limit: int, *, earlier: bool) -> Any:
        with monkeypatch.context() as patched:
            if earlier:
                patched.setattr(performing, "settled", lambda spec, folder, trust: spec)
            return snellen.evaluate("chart/digits", checkpoint, limit=limit, repeats=2, out=tmp_path / out)

    run("begun", 2, earlier=True)
    begun = run("begun", 5, earlier=False)
    assert (begun.meta.spec.seeds, begun.meta.spec.options.sampling) == (None, None)
    assert replies(begun) == replies(run("whole", 5, earlier=True))
    new = run("new", 5, earlier=False)
    assert (new.meta.spec.seeds, new.meta.spec.options.sampling) == ("sample", "auto")
    assert replies(new) != replies(begun)
    assert sampling_text(new.meta) == "sampling of the checkpoint (temperature 0.7, top_p 0.8)"
    again = snellen.rerun(tmp_path / "begun", out=tmp_path / "again")
    assert replies(again) == replies(begun) and again.meta.spec.options.sampling == "none"
    with pytest.raises(FingerprintError, match=r"model\.sampling"):
        snellen.evaluate("chart/digits", checkpoint, limit=5, repeats=2, sampling="checkpoint", out=tmp_path / "begun")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
    try:
        import tiny_vlm
    finally:
        sys.path.pop(0)
    return f"local:{tiny_vlm.build(tmp_path_factory.mktemp('tiny'))}"


def sample(name: str) -> Sample:
    return Sample(name, Prompt((Text("Which?"),), generation=Generation(max_tokens=3)), None, "open")


def test_each_sample_and_repeat_has_a_seed_of_its_own_that_no_other_run_shares():
    def seeds(seed: int) -> list[int | None]:
        rule = Seeds(seed, by_sample=True)
        made = [rule.prompt(sample(name), repeat).generation for name in "abc" for repeat in range(4)]
        assert all(each is not None and each.max_tokens == 3 for each in made)
        return [None if each is None else each.seed for each in made]

    drawn = seeds(0) + seeds(1)
    assert len(set(drawn)) == 24 and all(seed is not None and 0 <= seed < 2**31 for seed in drawn)
    assert seeds(0) == seeds(0)
    # Independent of the code: the first 31 bits of BLAKE2b, 4 bytes, over seed/repeat/id.
    from hashlib import blake2b

    assert drawn[1] == int(blake2b(b"0/1/a", digest_size=4).hexdigest(), 16) // 2


def test_a_seed_that_the_user_set_goes_out_as_it_is_and_counts_up_with_the_repeats():
    rule = Seeds(3407)
    assert rule.prompt(sample("a"), 0) is not None and rule.prompt(sample("a"), 0).generation == Generation(
        max_tokens=3
    )
    assert rule.prompt(sample("a"), 2).generation == Generation(max_tokens=3, seed=3409)
    assert Seeds(None, by_sample=True).prompt(sample("a"), 2).generation == Generation(max_tokens=3)


def test_a_plan_names_recipes_and_sampling_fields_by_the_same_names(tmp_path, own):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'models = ["embedded"]\nbenchmarks = ["chart/digits"]\n[defaults]\ntop_k = 7\nlimit = 2\n'
        f'[[settings]]\nname = "card"\nsampling = "{own}"\n'
        '[[settings]]\nname = "mine"\nsampling = "none"\nmin_p = 0.1\n'
        "chat_template_kwargs = { enable_thinking = false }\n"
    )
    card, mine = (cell.spec for cell in cells_of(read_plan(plan), tmp_path / "out"))
    assert (card.options.generation.top_k, card.options.generation.temperature) == (7, 0.6)
    assert card.recipe == "own (its figures by the card's prompts)"
    assert mine.options.generation == Generation(top_k=7, min_p=0.1, chat_template_kwargs={"enable_thinking": False})


def test_sampling_is_refused_for_an_object_that_would_not_learn_of_it(tmp_path):
    class Mine(snellen.Model):
        async def answer(self, prompt: Prompt) -> snellen.Response:
            return snellen.Response("4")

    with pytest.raises(UsageError, match="sampling is for a model that is named"):
        snellen.evaluate("chart/digits", Mine(), limit=1, sampling="greedy", out=tmp_path / "run")
