"""A server that sends the key of each request back: in every field, in every form, in answers and in errors.

`Echoing` is a context manager; `url` its base URL. Every request gets the next form and the next kind of reply.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from servers.loopback import JsonHandler, LoopbackServer

MODEL = "stub-vlm"


def alternate(key: str) -> str:
    return "".join(one.upper() if number % 2 else one.lower() for number, one in enumerate(key))


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda key: key,
    "upper case": str.upper,
    "lower case": str.lower,
    "mixed case": alternate,
    "backwards": lambda key: key[::-1],
    "without its last characters": lambda key: key[:-4],
    "without its first characters": lambda key: key[4:],
    "its first half": lambda key: key[: len(key) // 2],
    "masked": lambda key: f"{key[:10]}****{key[-10:]}",
    "zero width": "\u200b".join,
    "soft hyphens": "\u00ad".join,
    "control characters": "\x07".join,
    "terminal colours": lambda key: "\x1b[31m".join(key),
    "line breaks": "\n".join,
    "carriage returns": "\r\n".join,
    "tags": lambda key: "<b>".join(key),
    "one tag": lambda key: f'{key[:6]}<i class="x">{key[6:]}',
    "spaces": " ".join,
    "full width": lambda key: "".join(chr(ord(one) + 0xFEE0) for one in key),
    "tag characters": lambda key: "".join(chr(0xE0000 + ord(one)) for one in key),
    "tag characters as JSON": lambda key: json.dumps("".join(chr(0xE0000 + ord(one)) for one in key)),
    "letters in squares": lambda key: "".join(
        chr(0x1F170 + ord(one) - 65) if "A" <= one <= "Z" else one for one in key.upper()
    ),
    "flags": lambda key: "".join(chr(0x1F1E6 + ord(one) - 97) if "a" <= one <= "z" else one for one in key.lower()),
    "URL": lambda key: "".join(f"%{ord(one):02x}" for one in key),
    "URL twice": lambda key: "".join(f"%25{ord(one):02X}" for one in key),
    "HTML": lambda key: "".join(f"&#{ord(one)};" for one in key),
    "HTML, hexadecimal": lambda key: "".join(f"&#x{ord(one):x};" for one in key),
    "JSON": lambda key: "".join(f"\\u{ord(one):04x}" for one in key),
    "JSON twice": lambda key: json.dumps(json.dumps("\n".join(key))),
    "hexadecimal": lambda key: key.encode().hex(),
    "hexadecimal, capitals and colons": lambda key: key.encode().hex(":").upper(),
    "bytes": lambda key: ", ".join(f"0x{ord(one):02x}" for one in key),
    **{
        f"base64 after {before} bytes": lambda key, before=before: base64.b64encode(
            b"Bearer:"[:before] + key.encode() + b"."
        ).decode()
        for before in range(5)
    },
    "base64 for URLs": lambda key: (
        base64.urlsafe_b64encode(f"Authorization: Bearer {key}".encode()).decode().rstrip("=")
    ),
    "base64 in lines": lambda key: base64.encodebytes(f"Authorization: Bearer {key} and more of it".encode()).decode(),
    "base64 in small letters": lambda key: base64.b64encode(key.encode()).decode().lower(),
}


def answer(form: str) -> bytes:
    """A chat completion that holds the form in every field."""
    whole = {
        "id": form,
        "object": form,
        "created": 1,
        "model": form,
        "system_fingerprint": form,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": f"7 {form} A", "reasoning_content": f"I think {form}"},
                "finish_reason": form,
                "logprobs": {form: form},
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, form: form, "prompt_tokens_details": {form: form}},
        form: [form, {form: form}],
    }
    return json.dumps(whole).encode()


KINDS: tuple[Callable[[str], tuple[int, bytes]], ...] = (
    lambda form: (200, answer(form)),
    lambda form: (200, json.dumps(json.loads(answer(form)), ensure_ascii=False).encode()),
    lambda form: (400, json.dumps({"error": {"message": f"bad: {form}", "code": form, "type": form}}).encode()),
    lambda form: (200, json.dumps({"error": {"message": form, "code": form}}).encode()),
    lambda form: (200, json.dumps({"choices": [{"message": {"refusal": f"No: {form}"}}]}).encode()),
    lambda form: (200, f"<html><body>{form}</body></html>".encode()),
    lambda form: (404, form.encode()),
)


class Echoing(LoopbackServer):
    """The server. `seen` holds the command lines of all processes of this user while a request was answered."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.keys: set[str] = set()
        turn = count()
        outer = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                self._reply(200, json.dumps({"data": [{"id": MODEL}, {"id": self._key()}]}).encode())

            def do_POST(self) -> None:
                body = json.loads(self.read())
                key, number = self._key(), next(turn)
                if "messages" not in body:
                    self._reply(400, json.dumps({"error": {"message": f"no messages; {key}"}}).encode())
                    return
                outer.seen |= command_lines()
                form = list(FORMS.values())[number % len(FORMS)](key)
                self._reply(*KINDS[number // len(FORMS) % len(KINDS)](form))

            def _key(self) -> str:
                key = self.headers.get("Authorization", "").removeprefix("Bearer ")
                outer.keys.add(key)
                return key

            def _reply(self, status: int, body: bytes) -> None:
                self.send(status, body, Content_Type="application/json", X_Key=self._key())

            def send_response(self, code: int, message: str | None = None) -> None:
                super().send_response(code, f"said {self._key()}")

        super().__init__(Handler)


def command_lines() -> set[str]:
    """Return the arguments of every process that this user may see."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.add(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found
