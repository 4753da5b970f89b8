"""The base class of models: its defaults, and the adapter for classes that do not inherit from it."""

import msgspec
import pytest

import snellen
from snellen.errors import UsageError
from snellen.models.base import HOOKS, AdaptedModel, Model, as_model
from snellen.types import Prompt, Response, Text

PROMPT = Prompt((Text("2 + 2?"),))


class Echo:
    async def answer(self, prompt):
        return Response("4")


class Keeper(Model):
    def attach(self, folder):
        self.folder = folder


async def test_a_class_that_only_answers_gets_the_defaults(tmp_path):
    with pytest.warns(DeprecationWarning, match="Echo does not inherit from snellen.Model"):
        model = as_model(Echo())
    assert as_model(model) is model
    assert (model.name, model.in_flight, model.seed, model.price, model.batch_limit) == ("Echo", 0, None, None, None)
    assert model.identity()["class"].endswith("test_base.Echo")
    model.attach(tmp_path)
    model.hide([tmp_path])
    await model.preflight()
    assert (await model.answer_for("a", 0, PROMPT)).text == "4"
    assert await model.executed() is None
    await model.close()
    assert model.shareable


def test_a_run_takes_an_object_that_only_answers(tmp_path):
    with pytest.warns(DeprecationWarning, match="Echo does not inherit from snellen.Model"):
        run = snellen.evaluate("chart/digits", Echo(), limit=2, out=tmp_path / "run")
    assert (run.meta.totals.ok, run.meta.spec.model) == (2, "Echo")


async def test_own_hooks_of_an_adapted_class_are_called(tmp_path):
    class ById(Echo):
        seed = 7

        async def answer_for(self, sample_id, repeat, prompt):
            return Response(f"{sample_id}/{repeat}")

    with pytest.warns(DeprecationWarning):
        model = as_model(ById())
    assert (await model.answer_for("a", 1, PROMPT)).text == "a/1"
    assert model.seed == 7
    assert not model.shareable


def test_a_model_that_keeps_files_is_not_shareable():
    assert not Keeper().shareable
    assert Model().shareable


def test_an_object_without_answer_is_refused():
    with pytest.raises(UsageError, match="no method `answer`"):
        as_model(object())


def test_every_hook_of_the_base_class_is_adapted():
    public = {name for name in vars(Model) if not name.startswith("_")} - {"shareable"}
    assert public == set(HOOKS)
    assert issubclass(AdaptedModel, Model)


def test_an_identity_by_default_can_be_recorded():
    assert msgspec.json.decode(msgspec.json.encode(Keeper().identity()))["name"] == "Keeper"
