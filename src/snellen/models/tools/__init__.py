"""Tools for models that may look things up: `web_search`, `fetch_url`, `reverse_image_search`, `crop_zoom`, `view_image`.

The same for every agent (as an MCP server or a skill) and for our own loop, `--model tools:NAME`, which has `python` too. They work on a
local collection, on the record of an earlier run, or on the network. They never see an answer that is to be found.
"""
