"""`snellen view`: the web pages over a folder of runs, live and as static files.

A page is a module of `viewer/pages/`. To add or to extend one:

1. Its address is a frozen dataclass in `viewer/states.py`, such as `MatrixState`. Every field has a default; only other values
   stand in the address. Fields are `str`, `int`, `bool`, `Literal[...]` or `tuple[str, ...]`. `state.static()` returns the state
   that stands for it in an export: filters and sorting that a static page does by itself are dropped there.
2. Its view is a function `(site: Site, state) -> dict` that reads the index (`site.index`) and returns the template's variables.
   It runs in a thread. Raise `UsageError` for what the reader typed and `MissingPageError` for what is not there.
3. Its template is `viewer/templates/<page>.html.jinja` and begins with `{% extends "base.html.jinja" %}`. Text of runs is escaped
   by the template; write `{{ text|visible }}` within `<bdi>` to spell out invisible characters too. Templates of the reports are
   imported with their prefix: `{% from "reports/track.html.jinja" import track %}`.
4. Links are made by `links`: `links.to(state)` for a page, `links.image(digest)` and `links.thumbnail(digest)` for images. The view
   adds each image first: `site.images.add(data, mime)` in full, `site.thumbnails.offer(digest, draw)` for a small copy. In an export the same calls give relative file names, and the exporter writes every state that some page linked to.
5. The module ends with `PAGE = ViewPage(state=MatrixState, view=view, title="Matrix")`. A page that takes decisions has `submit` too.

Keys: rows with `data-row` are walked with j and k; Enter opens a row's link `a[data-open]`; x ticks its checkbox. An element with
`data-key="c"` is clicked by the key c, and `data-key-help` is its line in the help (?). `data-search` marks the field of the key /.
`templates/macros.html.jinja` has heads of sortable columns and score cells. A style that one page needs goes to
`viewer/assets/<page>.css`, its script to `viewer/assets/<page>.js`; both are added to that page by their name.
"""
