"""What stand-ins for the hub share: how they speak, and that the real client on loopback asks them and nobody else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from servers.loopback import JsonHandler, LoopbackServer

COMMIT = "c0ffee" * 6 + "beef"
"""The only commit of a FolderHub."""


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


class FolderHub(HubHandler):
    """A hub with repositories of one commit, each a folder: `folders` maps `owner/name` to it, `seen` notes the paths."""

    folders: Mapping[str, Path]
    seen: list[str]

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.seen.append(path)
        name = next((each for each in self.folders if f"/{each}" in path), "")
        if not name:
            self.reply(401, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
            return
        folder = self.folders[name]
        files = {each.relative_to(folder).as_posix(): each for each in folder.rglob("*") if each.is_file()}
        rest = path.partition(f"/{name}")[2]
        if rest.startswith("/tree/"):
            self.reply_json(
                [
                    {
                        "type": "file",
                        "path": each,
                        "size": place.stat().st_size,
                        "oid": hashlib.sha1(each.encode()).hexdigest(),
                    }
                    for each, place in files.items()
                ]
            )
        elif rest.startswith("/resolve/"):
            place = files.get(rest.split("/", 3)[3])
            if place is None:
                self.reply(404, X_Error_Code="EntryNotFound", X_Error_Message="Entry not found")
            else:
                data = place.read_bytes()
                tag = f'"{hashlib.sha1(data).hexdigest()}"'
                self.reply(200, data, ETag=tag, X_Repo_Commit=COMMIT, Accept_Ranges="bytes")
        else:
            self.reply_about(name, COMMIT, files)


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
