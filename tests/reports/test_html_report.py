"""The HTML report of a run: the Allure that generates it, its configuration, and pages without requests."""

import json
import shutil
import stat
import sys

import pytest

from pytest_cloudbench.cli import main
from pytest_cloudbench.reports.allure.files import write_categories
from pytest_cloudbench.reports.allure.html_report import (
    NoReport,
    installed_allure,
    keep_on_this_machine,
    make_report,
)

COUNTS_VISITS = """<!DOCTYPE html><html><head><title>Allure</title></head><body><div id="app"></div>
<script async src="https://www.googletagmanager.com/gtag/js?id=G-FVWC4GKEYS"></script>
<script>
  window.dataLayer = window.dataLayer || [];
  function gtag(){dataLayer.push(arguments);}
  gtag('js', new Date());
</script>
<script>window.data = 1;</script></body></html>"""

STAND_IN = """#!{python} -I
import pathlib, shutil, sys
if "--version" in sys.argv:
    print("{version}")
    sys.exit(0)
arguments = sys.argv[1:]
output = pathlib.Path(arguments[arguments.index("--output") + 1])
here = pathlib.Path(__file__).parent
(here / "asked").write_text("\\n".join(arguments))
if "--config" in arguments:
    config = arguments[arguments.index("--config") + 1]
    shutil.copy(config, here / "config.json")
    import json
    with open(json.load(open(config))["historyPath"], "a") as history:
        history.write("a run\\n")
elif "--single-file" not in arguments:
    results = pathlib.Path(arguments[arguments.index("generate") + 1])
    runs = len(list((results / "history").glob("*"))) if (results / "history").is_dir() else 0
    (output / "history").mkdir(parents=True)
    for number in range(runs + 1):
        (output / "history" / f"run-{{number}}.json").write_text("1")
output.mkdir(parents=True, exist_ok=True)
(output / "index.html").write_text({page!r})
sys.exit({exit_code})
"""


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "allure-results"
    folder.mkdir()
    (folder / "1-result.json").write_text("{}")
    write_categories(folder)
    return folder


@pytest.fixture
def install(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    monkeypatch.setenv("PATH", str(bin_folder))

    def install(version, exit_code=0, folder=bin_folder):
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "allure"
        program.write_text(
            STAND_IN.format(python=sys.executable, version=version, page=COUNTS_VISITS, exit_code=exit_code)
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return folder

    return install


def test_without_any_allure_it_says_how_to_install_one(install, results, capsys):
    assert main(["report", str(results)]) == 3
    said = capsys.readouterr().err
    assert "npm install --global allure`" in said
    assert "allure-commandline" in said


@pytest.mark.parametrize("version", ["3.18.0", "2.46.1"])
def test_the_installed_allure_generates_the_report_beside_the_results(install, results, capsys, version):
    install(version)
    assert main(["report", str(results)]) == 0
    page = results.with_name("allure-report") / "index.html"
    assert f"{page} made by Allure {version}" in capsys.readouterr().out
    text = page.read_text()
    assert "googletagmanager" not in text
    assert "gtag" not in text
    assert "window.data = 1" in text
    assert text.count("Content-Security-Policy") == 1
    assert sorted(path.name for path in results.iterdir()) == ["1-result.json", "categories.json"]


def test_allure_3_is_configured_with_categories_and_history(install, results):
    told = install("3.18.0")
    make_report(results, results.with_name("shown"))
    config = json.loads((told / "config.json").read_text())
    assert config["categories"]["rules"][0]["name"] == "Promise violated"
    assert all(
        rule["traceRegex"].startswith("^cloudbench outcome: ") for rule in config["categories"]["rules"]
    )
    assert config["historyPath"] == str(results.with_name("shown-history") / "history.jsonl")


def test_history_gains_one_entry_for_each_run_not_for_each_report(install, results):
    install("3.18.0")
    output = results.with_name("shown")
    history = results.with_name("shown-history") / "history.jsonl"
    for _ in range(3):
        make_report(results, output)
    assert len(history.read_text().splitlines()) == 1
    (results / "2-result.json").write_text("{}")
    make_report(results, output)
    assert len(history.read_text().splitlines()) == 2


def test_the_history_of_allure_2_continues_too(install, results):
    install("2.46.1")
    output, kept = results.with_name("shown"), results.with_name("shown-history") / "history"
    for number in (1, 2, 3):
        (results / f"{number}-result.json").write_text("{}")
        for _ in range(2):
            make_report(results, output)
        assert len(list(kept.iterdir())) == number


def test_the_newest_allure_is_used_also_from_the_project(install, tmp_path):
    install("2.46.1")
    own = install("3.18.0", folder=tmp_path / "node_modules/.bin")
    assert installed_allure(near=(tmp_path / "below",)).command == str(own / "allure")


def test_a_folder_that_is_not_a_report_is_not_replaced(install, results, tmp_path):
    install("3.18.0")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(NoReport, match="not an Allure report"):
        make_report(results, tmp_path / "mine")
    assert (tmp_path / "mine/thesis.txt").exists()


def test_a_failing_allure_keeps_the_earlier_report(install, results):
    install("3.18.0")
    page, _ = make_report(results, results.with_name("shown"))
    install("3.18.0", exit_code=7)
    (results / "2-result.json").write_text("{}")
    with pytest.raises(NoReport, match="exit code 7"):
        make_report(results, results.with_name("shown"))
    assert page.exists()


@pytest.mark.parametrize(("folder", "said"), [("nowhere", "does not exist"), (".", "no Allure results")])
def test_a_folder_without_results_is_refused(install, tmp_path, capsys, folder, said):
    assert main(["report", str(tmp_path / folder)]) == 3
    assert said in capsys.readouterr().err


def test_a_page_is_confined_to_this_machine_once(tmp_path):
    page = tmp_path / "index.html"
    page.write_text(COUNTS_VISITS)
    assert keep_on_this_machine(page)
    first = page.read_text()
    assert keep_on_this_machine(page)
    assert page.read_text() == first
    page.write_text("no page")
    assert not keep_on_this_machine(page)


@pytest.mark.skipif(shutil.which("allure") is None, reason="no Allure is installed")
@pytest.mark.parametrize("single_file", [True, False])
def test_the_installed_allure_generates_a_report_without_requests(pytester, tmp_path, single_file):
    pytester.makepyfile("def test_it(fio):\n    assert 0\n")
    pytester.runpytest_inprocess(
        "--alluredir=out", "--cloudbench-evidence=off", "-p", "no:cacheprovider"
    ).assert_outcomes(failed=1)
    page, _ = make_report(pytester.path / "out", tmp_path / "shown", single_file=single_file)
    text = page.read_text()
    assert "googletagmanager" not in text
    assert "Content-Security-Policy" in text
