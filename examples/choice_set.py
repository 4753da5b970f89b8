"""A multiple-choice benchmark over a JSONL file and a folder of images: `snellen run choice_set:BENCHMARK --data …`."""

from snellen import Benchmark, Image, Prompt, Sample, Text
from snellen.scoring import accuracy, choice
from snellen.sources import open_tree, rows


def samples(data):
    images = open_tree(data.images)
    for row in rows(data.path, columns=["id", "image", "question", "options", "answer", "topic"]):
        options = dict(zip("ABCDEFGH", row["options"], strict=False))
        lines = [row["question"], *(f"{letter}. {text}" for letter, text in options.items()), "Answer with one letter."]
        prompt = Prompt((Image(images.blob(row["image"])), Text("\n".join(lines))))
        yield Sample(row["id"], prompt, row["answer"], "choice", options, meta={"topic": row["topic"]})


PROFILES = {"strict": "the one option that the reply names"}
BENCHMARK = Benchmark("choice-set", "1", samples, {"strict": choice}, accuracy("topic"), PROFILES)
