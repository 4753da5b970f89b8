"""A judge behind an OpenAI-compatible endpoint on loopback: what it says goes by a mark in the reply that it judges."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from servers.loopback import ChatHandler, LoopbackServer

CORRECT = '{"verdict": "correct", "reason": "it names the koala"}'
INCORRECT = '{"verdict": "incorrect", "reason": "another animal"}'
SAYS = {
    "right": (CORRECT,),
    "wrong": (INCORRECT,),
    "fenced": (f"```json\n{CORRECT}\n```",),
    "prose_then_json": ("I think that it is correct.", CORRECT),
    "prose": ("It is correct.", "As I said: correct!"),
    "two_objects": (f"{INCORRECT}\n{CORRECT}", INCORRECT),
    "other_label": ('{"verdict": "Correct"}', '{"verdict": "maybe"}'),
    "says_gold": ('{"verdict": "correct", "reason": "the reference is Phascolarctos"}',),
    "prose_gold": ("The reference is Phascolarctos, so yes.", "Phascolarctos it is."),
    "score0": ("Score: 0",),
    "score1": ("The first is a man and the second another one.\nScore: 1",),
    "score2": ("Score: 2/2",),
    "score3": ("Score: 3",),
    "bold": ("**Score:** 1", "Score: 1"),
    "tells_gold": ("Score: 1, since the reference is Phascolarctos",),
}
REASK = "You have answered this already"


class JudgeServer(LoopbackServer):
    """`url` is the base URL, `asked` the texts of all questions, `limits` their max_tokens; without `key` it says 401."""

    def __init__(self, key: str | None = None) -> None:
        self.asked: list[str] = []
        self.limits: list[int | None] = []
        self.counts: Counter[str] = Counter()
        board = self

        class Handler(ChatHandler):
            models = ("stub-judge",)

            def do_POST(self) -> None:
                if key is None or self.headers.get("Authorization") == f"Bearer {key}":
                    super().do_POST()
                else:
                    self.read()
                    self.send_json({"error": {"message": "bad key"}}, 401)

            def chat(self, body: dict[str, Any]) -> None:
                board.limits.append(body.get("max_completion_tokens", body.get("max_tokens")))
                self.send_completion(board.say(body["messages"]))

        super().__init__(Handler)

    def say(self, messages: list[dict[str, Any]]) -> str:
        """The reply to one question, by the first [[mark]] in it."""
        texts = []
        for message in messages:
            content = message["content"]
            texts += [content] if isinstance(content, str) else [part.get("text", "[picture]") for part in content]
        text = "\n".join(texts)
        self.asked.append(text)
        mark = re.search(r"\[\[(\w+)\]\]", text)
        assert mark is not None, text
        self.counts[mark[1]] += 1
        said = SAYS[mark[1]]
        return said[min(len(said) - 1, int(REASK in text))]
