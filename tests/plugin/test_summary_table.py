"""The table at the end, the summary as Markdown, and what JUnit XML carries of a verdict."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.reports.properties import (
    ASKED,
    BOUND_BY,
    MEASURED,
    OUTCOME,
    PROMISE,
    judged_promises,
    verdict_properties,
)
from pytest_cloudbench.reports.summary_file import SummarisedTest, markdown
from pytest_cloudbench.reports.summary_table import broken, rows_of, short_names, table_lines, totals
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict

THROUGHPUT = Ceiling("c5.18xlarge", "EBS throughput", "instance", Throughput.from_mb(2_375))
HELD = Verdict(
    Outcome.HELD,
    "held: 79,969 of 80,000 IOPS (100.0 %, at least 90 % required)",
    "reaches io2 vol-0abc IOPS, 80,000 IOPS within 10 %",
    Iops(80_000),
    Iops(79_969),
)
VIOLATED = Verdict(
    Outcome.VIOLATED,
    "violated: 9,061 of 80,000 IOPS (11 %, at least 90 % required); limited by c5.18xlarge EBS throughput",
    "reaches 80,000 IOPS within 10 %",
    Iops(80_000),
    Iops(9_061),
    (THROUGHPUT,),
)
CAPPED = Verdict(
    Outcome.HELD,
    "held: 2,263 of 2,264.98 MiB/s (99.9 %), capped by c5.18xlarge EBS throughput",
    "capped by c5.18xlarge EBS throughput, 2,264.98 MiB/s, within 5 %",
    Throughput.from_mb(2_375),
    Throughput.from_mib(2_263),
    (THROUGHPUT,),
)
STEADY = Verdict(
    Outcome.INCONCLUSIVE, "inconclusive: 3 seconds are too short", "steady within 5 %", None, Iops(9.0)
)

JUDGES = f"""
import sys

sys.path.append({str(Path(__file__).parent.parent)!r})
"""
JUDGES += """
import dataclasses

import pytest
from workload_stand_ins import stand_in
from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict

THROUGHPUT = Ceiling("c5.18xlarge", "EBS throughput", "instance", Throughput.from_mb(2_375))

@dataclasses.dataclass(frozen=True)
class Measured:
    conditions: tuple = ("quick pace: runtime 300 s -> 6 s",)
    on_verdict: object = None
    on_comparison: object = None

    def __repr__(self):
        return "fio randread 4k on vol-0abc: 9,061 IOPS, 35.4 MiB/s"

    def reaches(self, outcome):
        sentence = f"{outcome.value}: 9,061 of 80,000 IOPS"
        found = Verdict(outcome, sentence, "reaches 80,000 IOPS within 10 %", Iops(80_000), Iops(9_061), (THROUGHPUT,))
        self.on_verdict(found)
        return found

@pytest.fixture(autouse=True)
def _stands_in(monkeypatch):
    def run(target, job, *, pace, on_progress):
        if on_progress is not None:
            from pytest_cloudbench.workloads.fio.progress import Progress
            on_progress(Progress(50.0, 9061.0, 35.4, 3.0))
        return Measured()
    stand_in(monkeypatch, "fio", run)
"""

TESTS = """
    import pytest
    from conftest import Outcome

    def test_held(fio):
        assert fio("volume", rw="randread").reaches(Outcome.HELD)

    @pytest.mark.parametrize("size", ["16k", "a|b"])
    def test_violated(fio, size):
        assert fio("volume", rw="randread").reaches(Outcome.VIOLATED)

    @pytest.mark.ec2_instance("c5.18xlarge")
    def test_refused(fio):
        fio("volume", rw="sideways")

    @pytest.mark.ebs_volume("no spec")
    def test_wrong(ebs_volume):
        pass

    def test_of_something_else():
        assert False
"""

OPTIONS = ("-p", "no:cacheprovider", "--cloudbench-evidence=off")


@pytest.fixture
def judged_run(pytester):
    pytester.makeconftest(JUDGES)
    pytester.makepyfile(test_a=TESTS)

    def run(*options, apart=False):
        start = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        return start(*OPTIONS, *options)

    return run


def judged(*verdicts):
    return judged_promises([pair for verdict in verdicts for pair in verdict_properties(verdict)])


def test_properties_keep_their_verdict():
    first, second = judged(VIOLATED, STEADY)
    assert first.sentence == VIOLATED.sentence
    assert first.parts == {
        OUTCOME: "violated",
        PROMISE: "reaches 80,000 IOPS within 10 %",
        ASKED: "80,000 IOPS",
        MEASURED: "9,061 IOPS",
        BOUND_BY: "c5.18xlarge EBS throughput, 2,264.98 MiB/s",
    }
    assert ASKED not in second.parts
    assert all(type(value) is str for _, value in verdict_properties(CAPPED)), (
        "they are sent between processes"
    )


def test_a_verdict_without_parts_is_a_sentence():
    (found,) = judged_promises(verdict_properties("held: fell at 902 s"))
    assert (found.sentence, found.parts) == ("held: fell at 902 s", {})
    assert judged("held: fell at 902 s")[0].outcome == "held"


@pytest.mark.parametrize(
    ("verdict", "promised"),
    [
        (HELD, "80,000 IOPS"),
        (CAPPED, "capped by 2,264.98 MiB/s"),
        (STEADY, "steady within 5 %"),
        (
            Verdict(
                Outcome.HELD, "held", "reaches 80,000 IOPS within 10 % for 99.9 % of the time", Iops(80_000)
            ),
            "80,000 IOPS for 99.9 % of the time",
        ),
    ],
)
def test_a_promise_in_few_words(verdict, promised):
    assert judged(verdict)[0].promised == promised


def rows():
    return rows_of(
        [
            ("scenarios/test_io2.py::test_io2_reaches_its_provisioned_iops", judged(HELD, STEADY)),
            ("scenarios/test_io2.py::test_throughput_is_capped_by_the_instance", judged(CAPPED)),
            ("scenarios/test_io2.py::test_many[a-very-long-parameter-of-this-test]", judged(VIOLATED)),
        ]
    )


@pytest.mark.parametrize("width", [60, 79, 80, 99, 100, 119, 120, 200])
def test_the_table_fits_and_says_everything(width):
    lines = table_lines(rows(), width)
    assert max(len(line) for line in lines) <= width
    assert lines == [line.rstrip() for line in lines]
    text = "".join("".join(lines).split())
    for word in ("79,969IOPS", "capped", "2,264.98MiB/s", "inconclusive", "c5.18xlarge", "test_io2_"):
        assert word in text
    assert ("limited by" in lines[0]) is (width >= 100)


def test_only_the_outcomes_are_coloured():
    lines = table_lines(rows(), 80, lambda text, outcome: f"<{outcome}|{text}>")
    assert [line.count("<") for line in lines].count(1) == 4
    plain = [line.replace("<held|held>", "held") for line in lines]
    plain = [line.replace("<violated|violated>", "violated") for line in plain]
    assert [line.replace("<inconclusive|inconclusive>", "inconclusive") for line in plain] == table_lines(
        rows(), 80
    )


def test_names_are_as_short_as_possible():
    assert short_names(["a/test_x.py::test_1", "a/test_x.py::test_2"]) == ["test_1", "test_2"]
    assert short_names(["a/test_x.py::test_1", "b/test_y.py::K::test_1"]) == [
        "test_x.py::test_1",
        "test_y.py::K::test_1",
    ]
    assert short_names([]) == []


def test_totals_count_outcomes():
    assert totals(judged(HELD, VIOLATED, CAPPED)) == "2 held, 1 violated"


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=80), st.integers(1, 40))
def test_wrapping_loses_nothing(text, width):
    lines = broken(text, width)
    assert all(len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_promise_of_latency_shows_the_measured_latency():
    slow = Verdict(
        Outcome.VIOLATED,
        "violated: latency: mean 64 ms, at most 5 ms required",
        "latency: mean at most 5 ms",
        None,
        Iops(1_000),
        latency="mean 64 ms",
    )
    [found] = judged(slow)
    assert (found.promised, found.measured) == ("latency: mean at most 5 ms", "mean 64 ms")


def test_the_run_ends_with_sentences_and_the_table(judged_run):
    result = judged_run()
    result.stdout.fnmatch_lines(
        [
            "*cloudbench verdicts*",
            "*::test_held",
            "  held: 9,061 of 80,000 IOPS",
            "*quick pace: runtime 300 s -> 6 s*",
            "*1 held, 2 violated*",
            "test *promised *measured *verdict",
            "test_held *80,000 IOPS *9,061 IOPS *held",
            "  limited by c5.18xlarge EBS throughput, 2,264.98 MiB/s",
        ]
    )


@pytest.mark.parametrize("options", [[], ["-n2"], ["-p", "no:terminal"]], ids=str)
def test_the_summary_as_markdown(judged_run, pytester, options):
    if "-n2" in options:
        pytest.importorskip("xdist")
    judged_run("--cloudbench-summary=summary.md", *options)
    text = (pytester.path / "summary.md").read_text()
    assert text.startswith("### cloudbench: 1 held, 2 violated, 2 not judged\n\n| | test | promised |")
    assert (
        "| ✅ | `test_held` | 80,000 IOPS | 9,061 IOPS | held | c5.18xlarge EBS throughput, 2,264.98 MiB/s |"
        in text
    )
    assert "| ❌ | `test_violated[a\\|b]` | 80,000 IOPS | 9,061 IOPS | **violated** |" in text
    assert "- `test_refused`: " in text
    assert "BadFioJob" in text
    assert "- `test_wrong`: setup: " in text
    assert "something_else" not in text
    assert "_quick pace: runtime 300 s -> 6 s_" in text
    assert text.rstrip().endswith("<sub>pytest-cloudbench: cloud embedded, quick pace</sub>")


def test_a_run_without_measurements_has_a_summary_too(pytester):
    pytester.makepyfile("def test_it():\n    pass\n")
    pytester.runpytest_inprocess("--cloudbench-summary=summary.md").stdout.fnmatch_lines(
        ["cloudbench summary is in *"]
    )
    assert "nothing was measured" in (pytester.path / "summary.md").read_text()


def test_a_missing_folder_is_refused_before_anything_runs(judged_run, pytester):
    result = judged_run("--cloudbench-summary=gone/summary.md")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --cloudbench-summary=*gone/summary.md: *gone *"])
    assert "test_held" not in str(result.stdout)
    result = judged_run(f"--cloudbench-summary={pytester.path}")
    result.stderr.fnmatch_lines(["*that is a folder*"])


def test_only_sentences_are_left_out_of_a_very_long_summary():
    tests = [SummarisedTest(f"test_a.py::test_{number}", tuple(judged(VIOLATED))) for number in range(400)]
    text = markdown(tests, about="here")
    assert len(text) < 65_536
    assert text.count("| ❌ |") == 400
    assert "more lines" in text


def test_cells_escape_markdown():
    odd = Verdict(Outcome.HELD, "held: <a|b> *c* `d` _e_", "reaches x", Iops(1), Iops(1))
    text = markdown([SummarisedTest("t.py::test_`x`", tuple(judged(odd)))], about="<here>")
    assert "held: &lt;a\\|b> \\*c\\* \\`d\\` \\_e\\_" in text
    assert "`test_'x'`" in text
    assert "&lt;here>" in text


@pytest.mark.parametrize("width", [40, 79, 120])
def test_the_id_of_a_volume_stays_on_one_line(width):
    volume = "vol-353379c1962cbc32a"
    verdict = Verdict(
        Outcome.VIOLATED,
        "violated: x",
        "reaches x",
        Iops(9000),
        Iops(3000),
        bound_by=(Ceiling(f"gp3 {volume}", "volume IOPS", "volume", Iops(3000)),),
    )
    lines = table_lines(rows_of([("t.py::test_it", judged(verdict))]), width)
    assert sum(volume in line for line in lines) == 1
    assert all(len(line) <= width for line in lines)


@pytest.mark.parametrize("options", [[], ["-n1"]], ids=str)
def test_junit_carries_promise_measurement_and_verdict(judged_run, pytester, options):
    if options:
        pytest.importorskip("xdist")
    judged_run("--junitxml=junit.xml", *options, apart="-n1" in options)
    cases = {
        case.get("name"): [(each.get("name"), each.get("value")) for each in case.iter("property")]
        for case in ElementTree.parse(pytester.path / "junit.xml").getroot().iter("testcase")
    }
    assert cases["test_violated[16k]"] == [
        ("cloudbench.measurement", "fio randread 4k on vol-0abc: 9,061 IOPS, 35.4 MiB/s"),
        ("cloudbench.condition", "quick pace: runtime 300 s -> 6 s"),
        ("cloudbench.verdict", "violated: 9,061 of 80,000 IOPS"),
        ("cloudbench.outcome", "violated"),
        ("cloudbench.promise", "reaches 80,000 IOPS within 10 %"),
        ("cloudbench.asked", "80,000 IOPS"),
        ("cloudbench.measured", "9,061 IOPS"),
        ("cloudbench.bound_by", "c5.18xlarge EBS throughput, 2,264.98 MiB/s"),
    ]
    assert cases["test_of_something_else"] == []


def test_a_rerun_test_forgets_its_earlier_verdicts(pytester):
    pytester.makeconftest(
        JUDGES
        + """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    runtestprotocol(item, nextitem=nextitem, log=False)
    item._initrequest()
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""
    )
    pytester.makepyfile(TESTS.partition("@pytest.mark.parametrize")[0])
    result = pytester.runpytest_inprocess(*OPTIONS)
    assert str(result.stdout).count("  held: 9,061 of 80,000 IOPS") == 1


def test_workers_write_plain_lines_that_name_worker_and_test(judged_run):
    pytest.importorskip("xdist")
    result = judged_run("-n2", "--cloudbench-progress=on", "-k", "held", apart=True)
    said = str(result.stdout) + str(result.stderr)
    assert "] test_held: fio randread 4 KiB: 50 % 9,061 IOPS 35.4 MiB/s, 3 s left" in said
    quiet = judged_run("-n2", "-k", "held", apart=True)
    assert "35.4 MiB/s, 3 s" not in str(quiet.stdout) + str(quiet.stderr), "short workloads print no progress"
