"""A record of tool calls that an agent has written to: nothing in it makes a later run wait, read or fill memory."""

import os

import pytest

from snellen.models.tools.base import ToolError
from snellen.models.tools.definitions import MAX_BYTES, Recorded


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "hole"])
async def test_what_is_no_plain_file_in_a_record_is_refused_at_once(kind, tmp_path):
    recorded = Recorded(None, tmp_path / "calls", 5.0)
    path = recorded._path("web_search", {"query": "falcon", "k": 3})
    path.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "other.json").write_text('{"tool": "web_search", "arguments": {}, "result": []}')
        path.symlink_to(tmp_path / "other.json")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(MAX_BYTES + 1)
    with pytest.raises(ToolError, match="cannot be read"):
        await recorded.search("falcon", 3)
