"""Typical mistakes, and what each says: docs/mistakes.md has the table, which is compared with the real messages.

After a change of wording, write the page with `python tests/plugin/test_mistakes.py` and read its diff.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

# Loaded here so that the runs inside these tests do not load them again: classes would exist twice.
import pytest_cloudbench.workloads.fio.run
import pytest_cloudbench.workloads.iperf3.run  # noqa: F401

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mistakes.md"
TABLE = re.compile(r"(?<=<!-- mistakes -->\n).*?(?=<!-- end -->)", re.DOTALL)

HEAD = """
import pytest
from pytest_cloudbench import gp2, gp3, io2, st1
"""
CONFTEST = f"""
import sys

sys.path.append({str(Path(__file__).parents[1] / "reports")!r})
"""
CONFTEST += """
import measured_runs

exec(measured_runs.CONFTEST)

from pytest_cloudbench.reports.properties import judged_promises
from pytest_cloudbench.resources.ec2 import Ec2

class Target:
    def __init__(self, label):
        self.label = label
    def __repr__(self):
        return f"<{self.label}>"

@pytest.fixture
def volume():
    return Target("gp3 100 GiB/3,000 IOPS/125 MiB/s vol-0abc")

@pytest.fixture
def pair():
    return Target("m5.large i-0a -> m5.large i-0b")

@pytest.fixture
def instance():
    return Target("m5.large i-0a")

@pytest.fixture
def run(fio):
    return fio(measured(3000.0, 3001.0, 3002.0, 3000.0, 3001.0), rw="randread")

@pytest.fixture
def ec2():
    return Ec2(None, test_name="test_it")

class Messages:
    def pytest_collectreport(self, report):
        self._keep(report)
    def pytest_runtest_logreport(self, report):
        self._keep(report)
    def _keep(self, report):
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            lines = report.longreprtext.strip().splitlines()
            said = next((line for line in lines if line.startswith("E   ")), lines[-1])
            self._write(report, crash.message if crash else said.removeprefix("E   ").strip())
        elif report.passed and getattr(report, "when", "") == "call":
            for judged in judged_promises(report.user_properties):
                self._write(report, f"{judged.sentence}; {judged.note_if_passed()}")
    def _write(self, report, text):
        with open("messages", "a") as file:
            file.write(report.nodeid + "\\t" + text.splitlines()[0] + "\\n")

def pytest_configure(config):
    config.pluginmanager.register(Messages())
"""

IN_MARKERS = (
    "@pytest.mark.ec2_instnace('m5.large')",
    "def test_it(ec2_instance): ...",
    "def test_it(ec2_instnace): ...",
    "@pytest.mark.ec2_instance('m5.large', zon='us-east-1a')",
    "@pytest.mark.ec2_instance('m5.large', ami='ami-0abc')",
    "@pytest.mark.ec2_instance('i-0123456789abcdef0')",
    "@pytest.mark.ec2_instance(gp3(size_gib=10))",
    "@pytest.mark.ebs_volume('gp3')",
    "@pytest.mark.ebs_volume(gp3(size_gib=10))",
    "@pytest.mark.ebs_volumes(gp3(size_gib=10))",
    "@pytest.mark.ebs_volumes(gp3(size_gib=10), count=2) with def test_it(ebs_volume): ...",
    "@pytest.mark.ebs_volume(gp3(size_gib=10)) twice",
    "@pytest.mark.ebs_volume(gp3(size=10))",
    "@pytest.mark.ebs_volume(gp3(10))",
    "@pytest.mark.ebs_volume(gp3(size_gib='10'))",
    "@pytest.mark.ebs_volume(gp2(size_gib=100, iops=3_000))",
    "@pytest.mark.ebs_volume(io2(size_gib=100))",
    "@pytest.mark.ebs_volume(gp3(size_gib=2, iops=30_000))",
    "@pytest.mark.ebs_volume(st1(size_gib=100))",
    "@pytest.mark.parametrize('ebs_volume', [gp3(size_gib=10)])",
)
IN_TESTS = (
    "ec2.launch('m5.large', ami='ami-0abc')",
    "ec2.launch(instance_type='m5.large')",
    "ec2.create_volume('gp3', instance)",
    "fio('randread', volume)",
    "fio(volume)",
    "fio(volume, rw='randraed')",
    "fio(volume, rw='randread', bs='4q')",
    "fio(volume, rw='randread', iodepth='16x')",
    "fio(volume, rw='randread', queue_depth=32)",
    "fio(volume, rw='randread', runtime='60 seconds')",
    "iperf3(pair, parallel=5)",
    "assert run.reach(3_000)",
    "assert run.reaches('3000')",
    "assert run.reaches('3000 IOP')",
    "assert run.reaches('12,5 MiB/s')",
    "assert run.reaches(3_000, tolerance=0.1)",
    "assert run.reaches(3_000, within=10)",
    "assert run.capped_by('125 MB')",
    "assert run.drops_to(3_000)",
    "assert run.sustains('3000 IOPS', for_='10 mins')",
    "run.reaches('9000 IOPS')",
)
IN_OPTIONS = (
    ("cloudbench_pace = fast", ()),
    ("cloudbench_pase = full", ()),
    ("cloudbench_lease = 10", ()),
    ("", ("--cloudbench-cloud=azure",)),
    ("", ("--cloudbench-regression=5%",)),
)


MISTAKES = (*IN_MARKERS, *IN_TESTS, *(ini or " ".join(options) for ini, options in IN_OPTIONS))


def written(mistake: str) -> str:
    """Return the file of a test with the mistake."""
    if mistake.startswith("def "):
        return mistake
    if mistake.endswith(" twice"):
        marker = mistake.removesuffix(" twice")
        return f"{HEAD}\n{marker}\n{marker}\ndef test_it(ebs_volume):\n    pass\n"
    if " with def " in mistake:
        marker, _, test = mistake.partition(" with ")
        return f"{HEAD}\n@pytest.mark.ec2_instance('m5.large')\n{marker}\n{test}\n"
    if mistake.startswith("@"):
        name = re.match(r"@pytest\.mark\.(?:parametrize\(')?(\w+)", mistake)[1].replace(
            "instnace", "instance"
        )
        return f"{HEAD}\n{mistake}\ndef test_it({name}):\n    pass\n"
    names = [
        each
        for each in ("ec2", "fio", "iperf3", "instance", "volume", "pair", "run")
        if re.search(rf"\b{each}\b", mistake)
    ]
    return f"{HEAD}\ndef test_it({', '.join(names)}):\n    {mistake}\n"


@pytest.fixture
def messages(pytester) -> dict[str, str]:
    """What each mistake says."""
    found = {}
    for ini, options in IN_OPTIONS:
        pytester.makeini(f"[pytest]\n{ini}\n")
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        found[ini or " ".join(options)] = result.stderr.lines[0].removeprefix("ERROR: ")
    pytester.makeini("[pytest]\n")
    pytester.makeconftest(CONFTEST)
    mistakes = [*IN_MARKERS, *IN_TESTS]
    pytester.makepyfile(**{f"test_{number}": written(each) for number, each in enumerate(mistakes)})
    pytester.runpytest_inprocess(
        "-p", "no:cacheprovider", "--cloudbench-evidence=off", "--continue-on-collection-errors"
    )
    for line in (pytester.path / "messages").read_text().splitlines():
        nodeid, _, text = line.partition("\t")
        found[mistakes[int(re.match(r"test_(\d+)", nodeid)[1])]] = text
    return {mistake: found[mistake] for mistake in MISTAKES}


def table(messages: dict[str, str]) -> str:
    """Return the table of the page."""
    rows = [
        f"| `{mistake}` | {text.replace('|', chr(92) + '|').replace('<', '&lt;')} |"
        for mistake, text in messages.items()
    ]
    return "\n".join(["", "| you write | pytest says |", "|---|---|", *rows, "", ""])


def test_every_mistake_says_what_the_page_shows(messages, request):
    assert messages.keys() == {
        *IN_MARKERS,
        *IN_TESTS,
        *(ini or " ".join(options) for ini, options in IN_OPTIONS),
    }
    if request.config.getoption("--write-mistakes", False):
        PAGE.write_text(TABLE.sub(lambda _: table(messages), PAGE.read_text()))
    assert TABLE.search(PAGE.read_text())[0] == table(messages)


class _Writes:
    def pytest_addoption(self, parser):
        parser.addoption("--write-mistakes", action="store_true")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "--write-mistakes", "-p", "no:cacheprovider"], plugins=[_Writes()]))
