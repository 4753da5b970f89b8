"""What stand-ins for the hub share: how they speak, and that the real client on loopback asks them and nobody else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from servers.loopback import JsonHandler, LoopbackServer


class HubHandler(JsonHandler):
    """A hub without repositories: a stand-in says in `do_GET` what there is."""

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send(status, body, **headers)

    def reply_json(self, value: object) -> None:
        self.send(200, value)

    def reply_about(self, repository: str, commit: str, files: Iterable[str]) -> None:
        """What the hub says of a data set at a commit."""
        siblings = [{"rfilename": each} for each in files]
        about = {"id": repository, "sha": commit, "siblings": siblings}
        self.reply_json({**about, "private": False, "tags": [], "downloads": 0, "likes": 0})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.reply(404)


@contextmanager
def standing_in(
    handler: type[HubHandler], own: Mapping[str, object], patch: pytest.MonkeyPatch, folder: Path
) -> Iterator[None]:
    """For a block, the client asks this handler, whose class has what is in `own`; no token of the user's is in reach."""
    with LoopbackServer(type("Stand", (handler,), dict(own))) as server:
        patch.setenv("HF_ENDPOINT", server.origin)
        patch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(folder / "no-token"))
        for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HUGGING_FACE_HUB_TOKEN"):
            patch.delenv(name, raising=False)
        yield
