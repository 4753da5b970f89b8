"""Rendering of a page: its template in the frame, its style and scripts, and the policy that allows nothing else.

The server puts style and scripts into the page and allows them by their hashes. An export writes them to files next to its pages:
thousands of pages would otherwise repeat them. Pages of a `file:` address can load them only under `'self'`, because browsers
refuse integrity checks there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from snellen.redaction import redact
from snellen.reports.render import hash_source, read_asset, template_environment
from snellen.viewer.labels import benchmark_label, model_label
from snellen.viewer.site import Site, ViewPage

if TYPE_CHECKING:
    from jinja2 import Environment

STYLE, SCRIPT = "viewer.css", "viewer.js"
HTMX = "htmx.min.js"
REPORT_STYLES = {"acuity": ("acuity.css",), "case": ("regions.css",), "review": ("regions.css",)}
"""Styles of the reports' sections that a page shows."""


class PageAssets(NamedTuple):
    """Style and script of one page, in full."""

    style: str
    script: str
    htmx: str


class RenderedPage(NamedTuple):
    """A page, and the content security policy that goes with it."""

    html: str
    policy: str


@cache
def viewer_asset(name: str) -> str:
    """Read a file of the viewer's assets; empty if there is none of that name."""
    path = files("snellen.viewer") / "assets" / name
    return path.read_text("utf-8").replace("\r\n", "\n") if path.is_file() else ""


@cache
def page_assets(page: str) -> PageAssets:
    """Read what a page loads: the reports' style, the viewer's, and the page's own."""
    parts = "".join(map(read_asset, REPORT_STYLES.get(page, ())))
    style = read_asset("report.css") + parts + viewer_asset(STYLE) + viewer_asset(f"{page}.css")
    return PageAssets(style, viewer_asset(SCRIPT) + viewer_asset(f"{page}.js"), viewer_asset(HTMX))


@cache
def load_templates() -> Environment:
    """Load the templates of the viewer, and those of the reports under `reports/`."""
    from jinja2 import ChoiceLoader, PackageLoader, PrefixLoader

    reports = PackageLoader("snellen.reports", "assets")
    environment = template_environment(
        ChoiceLoader([PackageLoader("snellen.viewer", "templates"), PrefixLoader({"reports": reports})])
    )
    environment.filters |= {"benchmark_label": benchmark_label, "model_label": model_label}
    return environment


def live_policy(assets: PageAssets) -> str:
    """Build the policy of a page of the server: its own style and scripts by hash, and images of the server.

    Trusted types leave one way from text to HTML, the default policy of viewer.js, which htmx needs; none leads to a script.
    """
    scripts = " ".join(hash_source(text) for text in (assets.htmx, assets.script))
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {scripts}",
            f"style-src {hash_source(assets.style)}",
            "img-src 'self' data:",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types default",
        ]
    )


def static_policy() -> str:
    """Build the policy of an exported page: files of the export, no request, no form."""
    return "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "form-action 'none'",
            "base-uri 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def render_page(
    site: Site, page: ViewPage, state: Any, view: Mapping[str, Any], pages: Sequence[ViewPage], template: str = ""
) -> RenderedPage:
    """Render a page, free of keys.

    Args:
        site: settings and links.
        page: the page.
        state: its address.
        view: variables of its template.
        pages: every page, for the navigation.
        template: another template than the page's own, such as a part of it.
    """
    from markupsafe import Markup

    assets = page_assets(page.name)
    policy = live_policy(assets) if site.live else static_policy()
    inline = {name: Markup(text) for name, text in assets._asdict().items()}
    html = (
        load_templates()
        .get_template(template or f"{page.name}.html.jinja")
        .render(
            **{
                "site": site,
                "links": site.links,
                "state": state,
                "page": page,
                "nav": [(entry, site.links.to(entry.state())) for entry in pages if entry.listed],
                "policy": policy,
                "inline": inline,
                **view,
            }
        )
    )
    return RenderedPage(redact(html), policy)
