"""Settings of Sphinx, the documentation generator of Python itself.

Chosen because it reads Markdown pages and our docstrings as they are, knows Python's names, and
refuses a reference that leads nowhere.  Furo is the look: light and dark, for phones, loading nothing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent

project = "unspool"
author = "the authors of unspool"
release = re.findall(r'"(.*)"', (ROOT / "src" / "unspool" / "_version.py").read_text(encoding="utf-8"))[0]
language = "en"
extensions = ["myst_parser"]
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # an output that is broken on purpose is still shown

private = ROOT / "build" / "site-pages" / "api" / "private.txt"
nitpicky = True
nitpick_ignore = [("py:class", name) for name in private.read_text(encoding="utf-8").split()]
nitpick_ignore_regex = [
    ("py:class", r"(str|int|float|bool|bytes|bytearray|object|list|dict|tuple|set|frozenset|type|None)"),
    ("py:class", r"(Any|Callable|Iterable|Iterator|Sequence|Mapping|Literal|TypeAlias|Unpack|Protocol|Self)"),
    ("py:class", r"(Path|pa\.\w+|Awaitable|AsyncIterator|Random|SearchStrategy|ASGIApp|optional)"),
]
python_use_unqualified_type_names = True
python_display_short_literal_types = True
maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "furo"
html_title = "unspool"
html_baseurl = ""
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/spool.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = True
html_domain_indices = False
html_theme_options: dict[str, Any] = {
    "light_logo": "spool.svg",
    "dark_logo": "spool.svg",
    "top_of_page_buttons": [],
}
html_context = {"playground": (ROOT / "build" / "playground").is_dir()}
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "playground-door.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
