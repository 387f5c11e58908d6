"""The report of the recorded scenarios, opened in headless Chromium: its pictures, categories and requests.

CLOUDBENCH_RECORDED_SCENARIOS names the evidence of a run of scenarios/ (or folders of several, joined by ":"), as
.ci/run records it. These tests replay it without a cloud, add one test for each kind of failure, and open the Allure
report of all. With CLOUDBENCH_SCREENSHOTS=DIR every page is saved there as a picture.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "reports"))

from headless_chromium import BrowserTrouble, browser
from measured_runs import CONFTEST, NO_EVIDENCE

from pytest_cloudbench.cli import main
from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.reports.allure.outcome import LABEL, TestOutcome

PROJECT = Path(__file__).parents[2]
CATEGORY = {outcome.word: outcome.category for outcome in TestOutcome}
RECORDED = os.environ.get("CLOUDBENCH_RECORDED_SCENARIOS", "")
CASES = (
    "test_io2_block_express",
    "test_ebs_striping",
    "test_network_bandwidth",
    "test_instance_store",
    "test_latency_curves",
)
"""The modules of scenarios/ with the five published cases."""
COMPARED = {
    "test_ebs_striping": "scales linearly with 1, 2 and 5",
    "test_network_bandwidth": "c4.4xlarge against m4.4xlarge",
    "test_instance_store": "instance store disk 1 of 4 against",
}
"""The modules that compare runs, and the titles of their pictures."""
BAD_ENDS = """
import pytest
from conftest import measured
from pytest_cloudbench.hosts.errors import HostLost
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict


def judged(fio, word):
    run = fio(measured(*[3000.0 + second % 3 for second in range(20)]), rw="randread")
    verdict = Verdict(Outcome(word), f"{word}: 3,001 of 80,000 IOPS", "reaches 80,000 IOPS")
    run.on_verdict(verdict)
    return verdict


def test_a_promise_is_violated(fio):
    assert judged(fio, "violated")


def test_a_run_proves_nothing(fio):
    assert judged(fio, "inconclusive")


def test_a_host_is_lost(fio):
    raise HostLost("the host is gone")


def test_a_test_has_a_bug(fio):
    raise KeyError("Promise violated, inconclusive, Infrastructure trouble")
"""

pytestmark = [
    pytest.mark.skipif(not RECORDED, reason="CLOUDBENCH_RECORDED_SCENARIOS names no evidence"),
    pytest.mark.timeout(900),
]


COUNT = "document.querySelectorAll('[data-testid=tree-leaf]').length"
TITLE = "document.querySelector('[data-testid=test-result-info-title]').innerText"


@dataclass
class Page:
    """The report in the browser, and its results."""

    page: object
    address: str
    results: list
    folder: Path

    def leaves(self):
        """Open the report, and return the names of all tests that it lists, after its groups are expanded."""
        self._open()
        if self.page.run(COUNT) < len(self.results):  # groups without failures are collapsed at first
            self.page.run("document.querySelector('[data-testid=tree-subtree-toggle]').click()")
        self.page.until(f"{COUNT} >= {len(self.results)}")
        return self.page.run(
            "[...document.querySelectorAll('[data-testid=tree-leaf-title]')].map(e => e.innerText)"
        )

    def _open(self):
        # Rarely Allure's page stays empty, in one of some hundred loads. A reader loads it again.
        for attempt in range(3):
            self.page.open("about:blank")
            self.page.open(self.address)
            try:
                self.page.until("document.querySelector('[data-testid=tree-section]')", timeout_s=15)
                break
            except BrowserTrouble:
                if attempt == 2:
                    raise

    def back_to_list(self):
        """Return from a test to the list of tests."""
        self.page.run("history.back()")
        self.page.until(f"{COUNT} >= {len(self.results)}")

    def open_test(self, number):
        """Open the test with this number in the list, with all its attachments visible."""
        self.page.run(f"document.querySelectorAll('[data-testid=tree-leaf]')[{number}].click()")
        self.page.until(TITLE)


def run_pytest(*arguments, cwd):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    print(done.stdout[-4000:], done.stderr[-2000:])
    return done.returncode


@pytest.fixture(scope="module")
def evidence():
    return [Evidence(Path(folder)) for folder in RECORDED.split(":")]


@pytest.fixture(scope="module")
def results(evidence, tmp_path_factory):
    """Return the Allure results of a replay of the recorded tests, and of the failing tests."""
    folder = tmp_path_factory.mktemp("report") / "allure-results"
    for each in evidence:
        tests = sorted({test.nodeid for test in each.tests})
        assert tests, f"{each.root} holds no tests"
        run_pytest("-n", 2, *tests, f"--cloudbench-replay={each.root}", f"--alluredir={folder}", cwd=PROJECT)
    bad = tmp_path_factory.mktemp("bad_ends")
    (bad / "conftest.py").write_text(CONFTEST)
    (bad / "pytest.ini").write_text("[pytest]\n")
    (bad / "test_bad_ends.py").write_text(BAD_ENDS)
    assert run_pytest(*NO_EVIDENCE, f"--alluredir={folder}", cwd=bad) == pytest.ExitCode.TESTS_FAILED
    return folder


@pytest.fixture(scope="module")
def replayed(results):
    return [json.loads(path.read_text()) for path in results.glob("*-result.json")]


@pytest.fixture(scope="module")
def report(results, replayed, tmp_path_factory):
    """The report in a fresh browser."""
    made = results.parent / "report"
    assert main(["report", str(results), "--output", str(made)]) == 0
    with browser(tmp_path_factory.mktemp("profile")) as page:
        page.size(1400, 1200)
        yield Page(page, (made / "index.html").as_uri(), replayed, results)


@pytest.fixture(scope="module")
def modules(evidence):
    """Return the modules whose pictures are required: all five cases if the whole folder was recorded."""
    recorded = {Path(test.nodeid.partition("::")[0]).stem for each in evidence for test in each.tests}
    if any(whole(each.run["command"]) for each in evidence):
        assert recorded >= set(CASES), "the whole folder was recorded, so every case must be there"
    return recorded & set(CASES)


def whole(command):
    """Return whether a session ran all of scenarios/ without deselection."""
    chosen = any(word.startswith(("-k", "-m", "--deselect", "--ignore", "--lf", "--sw")) for word in command)
    return not chosen and any(Path(word).name == "scenarios" for word in command)


def pictures(result):
    """Return the names of a result's pictures, each of which is there once."""
    found = [each["name"] for each in result.get("attachments", ()) if each["type"].startswith("image/")]
    assert len(found) == len(set(found))
    return found


def labels(result):
    return {label["name"]: label["value"] for label in result["labels"]}


def keep_picture(page, name):
    if folder := os.environ.get("CLOUDBENCH_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(Path(folder, re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") + ".png"))


def test_the_evidence_is_intact(evidence, capsys):
    for each in evidence:
        assert main(["verify", str(each.root)]) == 0, capsys.readouterr().out


def test_a_replay_ends_as_the_run_did(evidence, replayed):
    last = {test.nodeid: test.outcome for each in evidence for test in each.tests}
    words = {"error": "failed", "broken": "failed"}
    recorded = Counter((nodeid.partition("::")[2], words.get(word, word)) for nodeid, word in last.items())
    replayed = Counter((result["name"], words.get(result["status"], result["status"])) for result in replayed)
    assert not recorded - replayed


def test_every_test_is_listed(report):
    assert len(report.leaves()) == len(report.results)
    keep_picture(report.page, "0 results")
    environment = (Path(report.folder) / "environment.properties").read_text()
    assert re.search(r"^replayed=run \d{8}-\d{6}-", environment, re.MULTILINE), environment
    shown = report.page.run("document.body.innerText")
    for feature in {labels(result).get("feature") for result in report.results} - {None}:
        assert feature in shown


def test_categories_have_the_tests_with_their_outcome(report):
    wanted = Counter(CATEGORY[labels(result)[LABEL]] for result in report.results if LABEL in labels(result))
    assert set(wanted) == set(CATEGORY.values()), "each kind of failure is there"
    report.leaves()
    report.page.run("document.querySelector('[data-testid=nav-tab-categories]').click()")
    report.page.until("document.body.innerText.includes('Promise violated')")
    sections = report.page.run(
        "[...document.querySelectorAll('[data-testid=tree-section]')].map(e => e.innerText.split('\\n'))"
    )
    keep_picture(report.page, "0 categories")
    found = {lines[0]: sum(int(each) for each in lines[1:] if each.isdigit()) for lines in sections}
    assert found == wanted


def test_every_picture_is_visible(report):
    """On each test's page the pictures are expanded, loaded, as wide as the page, and not empty."""
    attached = {result["name"]: len(pictures(result)) for result in report.results}
    assert sum(attached.values()) > 0
    names = report.leaves()
    for number, name in enumerate(names):
        if not attached.get(name):
            continue
        report.open_test(number)
        assert report.page.run(TITLE) == name
        report.page.until("document.querySelector('[data-testid=test-result-attachment]')")
        report.page.run(UNFOLD)
        report.page.until(f"document.images.length >= {attached[name]}")
        report.page.until("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
        for picture in report.page.run(LOOK):
            assert picture["width"] > 600, (name, picture)
            assert picture["height"] > 100, (name, picture)
            assert picture["colours"] > 5, f"{name} has an empty picture: {picture}"
        if os.environ.get("CLOUDBENCH_SCREENSHOTS"):
            report.page.size(1400, min(12_000, report.page.run(HEIGHT) + 100))
            keep_picture(report.page, f"{number + 1} {name}")
            report.page.size(1400, 1200)
        report.back_to_list()


UNFOLD = """
[...document.querySelectorAll('[data-testid=test-result-attachment-header]')]
    .filter(header => header.innerText.includes('image/')).forEach(header => header.querySelector('button').click())
"""
HEIGHT = "Math.max(...[...document.querySelectorAll('body, body *')].map(each => each.scrollHeight))"
LOOK = """
[...document.images].map(image => {
    const canvas = document.createElement('canvas');
    canvas.width = 300; canvas.height = 150;
    const pen = canvas.getContext('2d');
    pen.drawImage(image, 0, 0, 300, 150);
    const seen = new Set(new Uint32Array(pen.getImageData(0, 0, 300, 150).data.buffer));
    const place = image.getBoundingClientRect();
    return {width: place.width, height: place.height, colours: seen.size};
})
"""


def test_measurements_have_their_pictures(replayed, modules):
    assert modules, "none of the five cases was recorded"
    for module in modules:
        drawn = [
            name for result in replayed if f".{module}#" in result["fullName"] for name in pictures(result)
        ]
        assert drawn, f"{module} has no picture"


def test_compared_runs_are_one_picture(replayed, modules):
    """Stripes of increasing width, families of instances, EBS against the instance store."""
    compared = [name for result in replayed for name in pictures(result) if name.startswith("comparison: ")]
    for module in modules & set(COMPARED):
        assert any(COMPARED[module] in name for name in compared), (module, compared)


def test_every_sweep_has_its_curve(replayed, modules):
    sweeps = [result for result in replayed if ".test_latency_curves#" in result["fullName"]]
    assert bool(sweeps) == ("test_latency_curves" in modules)
    for result in sweeps:
        assert any(name.endswith(": latency over load") for name in pictures(result)), result["name"]


@pytest.mark.parametrize(
    ("command", "all_of_it"),
    [
        ("pytest scenarios --cloudbench-twin-time=60", True),
        ("pytest /somewhere/scenarios/ -q", True),
        ("pytest scenarios -k five_striped", False),
        ("pytest scenarios/test_io2_block_express.py", False),
    ],
)
def test_whether_the_whole_folder_was_recorded(command, all_of_it):
    assert whole(command.split()) == all_of_it


def test_there_were_no_errors_and_no_requests_to_the_network(report):
    """All requests of the tests above; if run alone, of the first page."""
    report.leaves()
    assert report.page.errors == []
    assert any(address.startswith("file:") for address in report.page.asked)
    assert report.page.asked_elsewhere == []


@pytest.mark.parametrize(
    "asks",
    [
        '<img src="http://127.0.0.1:9/picture.png">',
        '<script>fetch("http://127.0.0.1:9/count")</script>',
        '<script async src="https://counter.example/visits.js"></script>',
    ],
)
def test_a_request_to_the_network_is_detected(tmp_path, asks):
    """The check above must see such a request if a page makes one."""
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><html><head><title>asks</title></head><body>here{asks}</body></html>")
    with browser(tmp_path / "profile") as seen:
        seen.open(page.as_uri())
        seen.until("document.body.innerText.includes('here')")
        assert len(seen.asked_elsewhere) == 1
