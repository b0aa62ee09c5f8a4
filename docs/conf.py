"""How Sphinx builds the manual: `tox -e docs`."""

project = "pytest_sdperf"
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
exclude_patterns: list[str] = []
html_theme = "alabaster"
html_theme_options = {"page_width": "1200px", "body_max_width": "none"}  # commands and tables need the width
html_title = "pytest_sdperf"
html_show_copyright = False
