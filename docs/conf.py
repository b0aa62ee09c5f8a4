"""How Sphinx builds the manual: `tox -e docs`."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from pytest_sdperf.cli import main

project = "pytest_sdperf"
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
exclude_patterns: list[str] = []
html_theme = "alabaster"
html_theme_options = {"page_width": "1200px", "body_max_width": "none"}  # commands and tables need the width
html_title = "pytest_sdperf"
html_show_copyright = False

MEASURED = Path(__file__).resolve().parent.parent / "baselines" / "measured"


def setup(app: Sphinx) -> None:
    """Have the page of the shipped results made, to which the manual links."""
    app.connect("build-finished", _report)


def _report(app: Sphinx, problem: Exception | None) -> None:
    if problem is None and app.builder.format == "html":
        status = main(["report", str(MEASURED / "h200.json"), "--html", str(Path(app.outdir) / "h200.html")])
        if status:
            raise SystemExit(status)
