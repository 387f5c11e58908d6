"""The documentation as a site: it builds without a warning, is complete, and asks for nothing from elsewhere."""

import ast
import importlib
import re
import sys
import textwrap
from pathlib import Path

import pytest
from built_site import ROOT, build_site, needs_builder

from pytest_cloudbench.cli import main
from pytest_cloudbench.options import OPTIONS

DOCS = ROOT / "docs"
RECIPES = sorted(path.relative_to(ROOT) for path in DOCS.glob("recipes/*.yml"))
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return build_site(tmp_path_factory.mktemp("site"))


def test_every_page_is_in_the_navigation():
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == PAGES


@needs_builder
def test_the_site_builds_without_a_warning_and_has_every_page(site):
    assert {path.relative_to(site).with_suffix(".md").as_posix() for path in site.rglob("*.html")} == {
        "404.md",
        *PAGES,
    }


@needs_builder
def test_no_page_loads_anything_from_elsewhere(site):
    loads = re.compile(r"<(?:script|img|iframe|link|source)\b[^>]*?(?:src|href)=\"([^\"]+)\"")
    loaded = {
        address
        for page in site.rglob("*.html")
        for address in loads.findall(page.read_text(encoding="utf-8"))
    }
    assert len(loaded) > 5
    assert [address for address in loaded if re.match(r"(https?:)?//", address)] == []


def test_the_reference_is_what_the_code_says():
    pytest.importorskip("griffe", reason="the extra docs is not installed")
    sys.path.insert(0, str(ROOT / ".ci"))
    try:
        from reference_pages import FOLDER, pages
    finally:
        sys.path.remove(str(ROOT / ".ci"))
    stale = [name for name, text in pages().items() if (FOLDER / f"{name}.md").read_text() != text]
    assert stale == [], "run: python .ci/reference_pages.py"


def blocks(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^( *)```python\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for _, block in found]


def test_readme_and_home_page_show_the_test_of_the_tutorial():
    [home], first = blocks("docs/index.md"), blocks("docs/tutorial.md")[0]
    assert home == first
    assert blocks("README.md") == [re.sub(r": Volume|: FioCall| -> None|FioCall, Volume, ", "", first)]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_is_valid_and_imports_what_exists(page):
    for block in blocks(f"docs/{page}"):
        for node in ast.walk(ast.parse(textwrap.dedent(block))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_cloudbench"):
                module = importlib.import_module(node.module)
                assert [each.name for each in node.names if not hasattr(module, each.name)] == []


NOT_RUN = {
    "test_burst_ends_at_the_baseline": "published-limits.md, whose tests run, has it too",
    "test_the_baseline_is_enough": "takes 40 s: run it by hand",
    "test_raw_reads": "needs a disk",
}


def test_shown_tests_are_run_by_tests():
    run = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)
    )
    shown = {
        (page, name)
        for page in PAGES
        for name in re.findall(r"^def (test_\w+)", "\n".join(blocks(f"docs/{page}")), re.MULTILINE)
    }
    assert len(shown) > 25
    left_out = {name for page, name in shown if name not in run and page not in RUN_AS_A_WHOLE}
    assert left_out - set(NOT_RUN) == set()


RUN_AS_A_WHOLE = {
    "extending.md", "hosts.md", "how-to/published-limits.md", "index.md", "lifetimes.md", "search.md",
}  # fmt: skip
"""Pages all of whose tests are run, without being named: `recipes.py` and others read them from the page."""


@pytest.mark.parametrize("page", [*(f"docs/{page}" for page in PAGES), *map(str, RECIPES)])
def test_options_and_commands_of_a_page_exist(page, capsys):
    text = (ROOT / page).read_text(encoding="utf-8")
    flags = {flag.rstrip("-") for flag in re.findall(r"--cloudbench-[a-z-]+", text)}
    assert flags - {option.flag for option in OPTIONS} - {"--cloudbench"} == set()
    names = set(re.findall(r"^ *(cloudbench_[a-z_]+) *=", text, re.MULTILINE))
    assert names - {option.ini for option in OPTIONS} == set()
    with pytest.raises(SystemExit):
        main(["--help"])
    known = set(re.findall(r"^    ([a-z]+) ", capsys.readouterr().out, re.MULTILINE))
    assert len(known) > 5
    assert set(re.findall(r"(?:^|`|    |\n)cloudbench ([a-z]+)\b", text)) - known == set()
