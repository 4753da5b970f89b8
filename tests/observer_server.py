"""An OpenAI-compatible server whose model sees by known curves: it measures level and answer from the pixels that came.

It listens on loopback and ends with its context. `link` alone is not measured from pixels: the pair is recognised by its digest.
"""

from __future__ import annotations

import base64
import random
import re
import time
from dataclasses import dataclass, field
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image as Pillow

from pixel_observers import READERS, decoded
from servers.loopback import ChatHandler, LoopbackServer
from snellen.benchmarks.acuity.attribute import Images, Scene
from snellen.benchmarks.acuity.attributes import ATTRIBUTES
from snellen.benchmarks.acuity.drawing import png
from snellen.scoring.psychometrics.curve import Array, Shape, normal_cdf, seen

THRESHOLDS = {
    "gap": 3.2,
    "contrast": 0.02,
    "colour": 2.5,
    "vernier": 1.1,
    "length": 0.06,
    "orientation": 2.5,
    "number": 0.3,
    "link": 0.1,
}
"""True thresholds, in the attribute's unit."""
SLOPE = 1.6
"""Of d' of pairs, over decades."""


_PAIRS: dict[bytes, float] = {}
"""Digest of the second picture of a pair to the share by which its corner is moved."""
_draw_pair = ATTRIBUTES["link"].draw


def _remember_pair(scene: Scene) -> Images:
    drawn = _draw_pair(scene)
    _PAIRS[blake2b(png(drawn[1]), digest_size=16).digest()] = scene.value
    return drawn


object.__setattr__(ATTRIBUTES["link"], "draw", _remember_pair)  # in place, because plans keep the attribute


@dataclass
class ObserverSettings:
    """How the observer sees and answers.

    Attributes:
        shape, width, lapse: of its curve; width in decades.
        bias: share of guesses that are the first letter.
        refuses: share of guesses that are refusals.
        drift: decades by which its thresholds rise from the first to the 64th question of an attribute.
        dip: (low, high) in pixels of the gap: nothing is seen between.
        max_side: pictures are shrunk to this side first; 0: none.
        unavailable: share of requests that get a 503.
        false_alarms: share of equal pairs that it calls different.
        latency_s: seconds until a reply.
        seed: of its luck.
    """

    shape: Shape = "logistic"
    width: float = 0.3
    lapse: float = 0.02
    bias: float = 0.0
    refuses: float = 0.0
    drift: float = 0.0
    dip: tuple[float, float] = (0.0, 0.0)
    max_side: int = 0
    unavailable: float = 0.0
    false_alarms: float = 0.1
    latency_s: float = 0.0
    seed: int = 0


@dataclass
class Luck:
    """Numbers of 0 to 1 that follow from a request and a seed."""

    content: bytes
    numbers: list[float] = field(default_factory=list)

    def next(self) -> float:
        if not self.numbers:
            self.content = blake2b(self.content, digest_size=64).digest()
            self.numbers = [int.from_bytes(self.content[at : at + 8], "little") / 2.0**64 for at in range(0, 64, 8)]
        return self.numbers.pop()


class ObserverServer(LoopbackServer):
    """`with ObserverServer(settings) as server:` then `server.url`; `server.questions` counts what was answered."""

    def __init__(self, settings: ObserverSettings) -> None:
        self.settings, self.questions, self.refused = settings, 0, 0
        self._asked = dict.fromkeys(THRESHOLDS, 0)
        self._words = {question: name for name in THRESHOLDS for question in ATTRIBUTES[name].questions}
        super().__init__(_handler(self))

    def reply(self, images: list[bytes], text: str) -> str:
        """Return the observer's answer to a question."""
        settings, luck = self.settings, Luck(b"".join(images) + text.encode() + bytes([self.settings.seed % 256]))
        options = dict(re.findall(r"^([A-J])\. (.+)$", text, re.MULTILINE))
        name = next((each for words, each in self._words.items() if text.startswith(words)), None)
        if name is None:
            return "ok"
        self.questions += 1
        self._asked[name] += 1
        if name == "link":
            different = self._pair(_PAIRS[blake2b(images[1], digest_size=16).digest()], luck)
            return next(letter for letter, word in options.items() if word == ("different" if different else "same"))
        value, word = READERS[name](self._pixels(images[0]))
        if luck.next() < self._sees(name, value, len(options)):
            return next(letter for letter, option in options.items() if option == word)
        if luck.next() < settings.refuses:
            return "I cannot tell from this picture."
        if luck.next() < settings.bias:
            return next(iter(options))
        return list(options)[int(luck.next() * len(options))]

    def _pixels(self, data: bytes) -> Array:
        side = self.settings.max_side
        image = Pillow.open(BytesIO(data))
        if side and max(image.size) > side:
            small = image.resize((side, side), Pillow.Resampling.BOX)
            return np.asarray(small, dtype=np.float64)
        return decoded(data)

    def _sees(self, name: str, value: float, options: int) -> float:
        settings = self.settings
        if settings.dip[0] < value < settings.dip[1]:
            return 0.0
        level = ATTRIBUTES[name].level(max(value, 1e-6))
        threshold = ATTRIBUTES[name].level(THRESHOLDS[name])
        threshold += settings.drift * (min(self._asked[name], 64) / 64 - 0.5)
        share = float(seen(settings.shape, np.array((level - threshold) / settings.width)))
        return (1 - settings.lapse / (1 - 1 / options)) * share

    def _pair(self, share: float, luck: Luck) -> bool:
        dprime = (share / THRESHOLDS["link"]) ** SLOPE if share else 0.0
        places = np.linspace(-4, 4, 2001)
        criterion = -float(np.interp(self.settings.false_alarms, normal_cdf(places), places))
        return luck.next() < float(normal_cdf(np.array([dprime - criterion]))[0])


def _handler(server: ObserverServer) -> type[BaseHTTPRequestHandler]:
    class Handler(ChatHandler):
        models = ("observer",)

        def chat(self, body: dict[str, Any]) -> None:
            if server.settings.latency_s:
                time.sleep(server.settings.latency_s)
            if random.random() < server.settings.unavailable:
                server.refused += 1
                self.send_json({"error": {"message": "busy"}}, 503)
                return
            parts = body["messages"][-1]["content"]
            parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
            images = [
                base64.b64decode(part["image_url"]["url"].partition(",")[2])
                for part in parts
                if part["type"] == "image_url"
            ]
            text = "\n".join(part["text"] for part in parts if part["type"] == "text")
            self.send_completion(server.reply(images, text))

    return Handler
