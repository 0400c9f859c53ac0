"""Configuration of Sphinx.  ``make site`` builds the site of these pages into ``build/site``."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "src"), str(HERE / "_ext")]

from sphinx.ext.autodoc.mock import mock
from sphinx.pycode import ModuleAnalyzer

import unspool

if TYPE_CHECKING:
    from docutils.nodes import Element, TextElement
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "unspool"
author = "the authors of unspool"
release = unspool.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "generated"]
templates_path = ["_templates"]
exclude_patterns = ["_*"]
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # outputs of models may be broken on purpose

autodoc_default_options = {"members": True, "undoc-members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_mock_imports = [
    "aiohttp",
    "cryptography",
    "httpx",
    "httpx2",
    "hypothesis",
    "jinja2",
    "msgspec",
    "pyarrow",
    "ray",
    "starlette",
    "uvicorn",
]
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
nitpicky = True
nitpick_ignore_regex = [
    # of other packages
    ("py:class", r"(collections|enum|httpx2?|os|pathlib|pyarrow|random)\..*|SearchStrategy"),
    ("py:class", "ChatMessage|Ids|PathLike|ToolList"),  # aliases that signatures show as they are written
    ("py:.*", r"(typing\.Literal|tuple|dict)\[.*"),
    ("py:class", r"unspool\.(.*\.)?_.*|unspool\.(\w+\.){2,}\w+"),  # private
]

myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "furo"
html_title = "unspool"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = html_favicon = "_static/spool.svg"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"

PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*'
    r'<img alt="(?P<alt>[^"]*)" src="(?P<light>[^"]+)">\s*</picture>'
)
"""A picture for each colour scheme, as forges want it written."""
ELSEWHERE = {
    "../README.md": "index.md",
    "../CHANGELOG.md": "changelog.md",
    "../SECURITY.md": "security-policy.md",
    "../fuzz/README.md": "fuzzing.md",
}
"""Files outside of this folder, and the pages that include them or take their place."""
MODULES = re.findall(r"^   (unspool[\w.]*)$", (HERE / "api.rst").read_text(encoding="utf-8"), re.MULTILINE)
TOKENIZER = re.compile(r"~?unspool\.\S*Tokenizer( \| ~?unspool\.\S+\._\w+)+")
PLAYGROUND = '<p><a href="playground/index.html">Open the playground</a></p>'


def adapt(_: Sphinx, page: str, source: list[str]) -> None:
    """Adapt a page that reads well in the repository to the site."""
    images = "```{image} \\g<light>\n:class: only-light\n:alt: \\g<alt>\n```\n"
    source[0] = PICTURE.sub(images + images.replace("light", "dark"), source[0])
    for file, name in ELSEWHERE.items():
        source[0] = source[0].replace(f"]({file})", f"]({name})")
    if page == "playground" and (ROOT / "build" / "playground").is_dir():
        source[0] = source[0].replace("\n\n", f"\n\n{PLAYGROUND}\n\n", 1)


def shorten(*event: Any) -> tuple[str, str] | None:
    """Write `AnyTokenizer` where a signature lists its private alternatives."""
    signature, returns = event[-2:]
    return (TOKENIZER.sub("unspool.AnyTokenizer", signature), returns) if signature else None


def hide_private_bases(*event: Any) -> None:
    """Leave only public classes among the bases of a class."""
    bases = event[-1]
    bases[:] = [base for base in bases if not getattr(base, "__name__", "").startswith("_")] or [object]


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: TextElement) -> Element | None:
    """Resolve the name of a private module in a signature to the public name of the same object."""
    if node["refdomain"] != "py":
        return None
    python, name = env.domains.python_domain, node["reftarget"]
    for path in (f"{module}.{end}" for end in (name, name.rpartition(".")[2]) for module in MODULES):
        if path in python.objects:
            return python.resolve_xref(env, node["refdoc"], app.builder, "obj", path, node, text)
    return None


def find_docstrings(_: Sphinx) -> None:
    """Give public constants and type aliases the docstrings of the modules that define them."""
    with mock(autodoc_mock_imports):
        public = {name: import_module(name).__all__ for name in MODULES}
    analyzers = {
        name: ModuleAnalyzer.for_module(name) for name in sorted(sys.modules) if name.startswith("unspool")
    }
    docstrings: dict[str, list[str]] = {}
    for analyzer in analyzers.values():
        analyzer.analyze()
        docstrings |= {name: text for (scope, name), text in analyzer.attr_docs.items() if not scope}
    for module, names in public.items():
        analyzers[module].attr_docs |= {("", name): docstrings[name] for name in names if name in docstrings}


def skip_repeated(app: Sphinx, what: str, name: str, value: object, *_: object) -> bool | None:
    """Describe what several modules have only on the page of the first of them."""
    page = app.env.temp_data.get("docname", "")
    if what != "module" or not page.startswith("api/"):
        return None
    module = page.removeprefix("api/")
    earlier = [sys.modules[other] for other in MODULES[: MODULES.index(module)]]
    return True if any(name in other.__all__ and getattr(other, name) is value for other in earlier) else None


def setup(app: Sphinx) -> None:
    """Register the functions above."""
    app.connect("builder-inited", find_docstrings)
    app.connect("source-read", adapt)
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-skip-member", skip_repeated)
    app.connect("autodoc-process-bases", hide_private_bases)
    app.connect("missing-reference", resolve)
