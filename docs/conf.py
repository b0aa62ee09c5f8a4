"""How Sphinx builds the manual: `tox -e docs`."""

project = "pytest_sdperf"
extensions = ["myst_parser"]
myst_heading_anchors = 3
exclude_patterns: list[str] = []
html_theme = "alabaster"
html_title = "pytest_sdperf"
