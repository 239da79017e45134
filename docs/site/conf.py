"""The settings of the web edition. `tools/site.py` copies this file next to all pages and starts Sphinx."""

import re

project = "kafkagroups"
author = "The kafkagroups maintainers"
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
smartquotes = False  # A quote or two hyphens can be part of a command.

# The lessons. Their saved outputs are shown; nothing is executed.
nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show = "Show the solution"
nb_code_prompt_hide = "Hide the solution"
nb_ipywidgets_js = {}  # The default addresses are on another host.
myst_heading_anchors = 4
myst_enable_extensions = []  # A dollar sign is a dollar sign, not a formula.
highlight_language = "none"

# The reference. A name in backquotes becomes a link if the reference has it, and is code otherwise.
default_role = "py:obj"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
add_module_names = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 60

html_theme = "pydata_sphinx_theme"
html_title = "kafkagroups"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/icon.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_use_index = False
html_domain_indices = False
html_sidebars = {"index": []}
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "primary_sidebar_end": [],
    "footer_start": [],
    "footer_end": [],
    "show_toc_level": 2,
    "search_bar_text": "Search",
}


def mark_code(_app, _what, _name, _object, _options, lines):
    """Make everything in single backquotes code, if it is not a name, because Sphinx would read `.log` as a name.

    Two attributes that share a description would become one attribute with a type. Removing the space prevents this.
    """

    def mark(match):
        return match[0] if NAME.fullmatch(match[1]) else f"``{match[1]}``"

    lines[:] = [SHARED.sub(":ivar \\1,\\2:", CODE.sub(mark, line)) for line in lines]


def repair_html(_app, _page, _template, context, _doctree):
    """Replace what screen readers cannot use, and the two hyphens after the name of a parameter.

    Sphinx writes the parameters of a signature as a list of definitions without terms, and the empty corner of a table
    as a heading.
    """
    body = context.get("body", "")
    body = SIGNATURE.sub(lambda match: LIST_TAG.sub(r"<\1span>", match[0]), body)
    body = FIELD_LIST.sub(lambda match: HYPHENS.sub(r"\1: ", match[0]), body)
    body = body.replace("<strong>,</strong>", "<strong>, </strong>")
    context["body"] = body.replace('<th class="head"><p></p></th>', "<td></td>")


SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
SHARED = re.compile(r"^:ivar (\w+), (\w+):")
HYPHENS = re.compile(r"([>)]) -- ")
FIELD_LIST = re.compile(r'<dl class="field-list .*?</dl>', re.DOTALL)
LIST_TAG = re.compile(r"<(/?)d[ld]>")
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
NAME = re.compile(r"[A-Za-z_][\w.]*")


def setup(app):
    app.connect("autodoc-process-docstring", mark_code)
    app.connect("html-page-context", repair_html)
