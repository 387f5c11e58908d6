"""What a verdict does to the test that asserts it, and what the terminal shows of it."""

import re
from types import SimpleNamespace

import pytest

from pytest_cloudbench.reports.html_report import (
    pytest_html_results_table_html,
    pytest_html_results_table_row,
)
from pytest_cloudbench.reports.properties import VERDICT_PROPERTY

VERDICT = """
    from pytest_cloudbench.verdicts.verdict import Outcome, Verdict

    def verdict(outcome, machine_limited=False):
        sentence = f"{outcome.value}: 9,061 of 80,000 IOPS"
        return Verdict(outcome, sentence, promise="reaches 80,000 IOPS", machine_limited=machine_limited)
"""


@pytest.fixture
def judged(pytester):
    """Make a test that asserts one verdict, and run it with the given options."""
    pytester.makepyfile(judge=VERDICT)

    def run(expression, *options):
        pytester.makepyfile(
            f"from judge import Outcome, verdict\n\ndef test_it():\n    assert {expression}\n"
        )
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)

    return run


def test_held_passes(judged):
    judged("verdict(Outcome.HELD)").assert_outcomes(passed=1)


def test_violated_fails_with_its_sentence(judged):
    result = judged("verdict(Outcome.VIOLATED)")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*assert violated: 9,061 of 80,000 IOPS"])


def test_a_violated_verdict_can_be_what_is_expected(judged):
    judged("not verdict(Outcome.VIOLATED)").assert_outcomes(passed=1)


@pytest.mark.parametrize("expression", ["verdict(Outcome.INCONCLUSIVE)", "not verdict(Outcome.INCONCLUSIVE)"])
def test_inconclusive_fails_with_that_word(judged, expression):
    result = judged(expression)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*inconclusive: 9,061 of 80,000 IOPS"])


@pytest.mark.parametrize(
    ("machine_limited", "options", "outcome"),
    [
        (False, [], "failed"),
        (True, [], "skipped"),
        (True, ["--cloudbench-cloud=aws"], "failed"),
        (True, ["--cloudbench-inconclusive=fail"], "failed"),
        (False, ["--cloudbench-inconclusive=skip"], "skipped"),
        (False, ["--cloudbench-inconclusive=skip", "--cloudbench-cloud=aws"], "skipped"),
    ],
)
def test_inconclusive_skips_when_this_machine_was_the_limit_or_when_told_to(
    judged, machine_limited, options, outcome
):
    result = judged(f"verdict(Outcome.INCONCLUSIVE, machine_limited={machine_limited})", "-rs", *options)
    result.assert_outcomes(**{outcome: 1})
    if outcome == "skipped":
        result.stdout.fnmatch_lines(
            ["SKIPPED*test_inconclusive_skips*.py:*: inconclusive: 9,061 of 80,000 IOPS"]
        )


KEEPS = """
    from pytest_cloudbench.reports.summary import CONDITION_PROPERTY, VERDICT_PROPERTY

    def test_it(record_property):
        record_property(VERDICT_PROPERTY, "held: 80,012 of 80,000 IOPS (100 %)")
        record_property(CONDITION_PROPERTY, "runtime 300 s -> 6 s")
        record_property(CONDITION_PROPERTY, "runtime 300 s -> 6 s")
"""


def test_the_summary_lists_held_verdicts_and_each_condition_once(pytester):
    pytester.makepyfile(KEEPS)
    result = pytester.runpytest_inprocess()
    result.stdout.fnmatch_lines(
        ["*cloudbench verdicts*", "*::test_it", "  held: 80,012 of*", "  (runtime 300 s -> 6 s)"]
    )
    assert str(result.stdout).count("runtime 300 s") == 1


def test_the_summary_lists_the_conditions_of_a_test_without_a_verdict(pytester):
    pytester.makepyfile(
        KEEPS.replace('record_property(VERDICT_PROPERTY, "held: 80,012 of 80,000 IOPS (100 %)")', "")
    )
    pytester.runpytest_inprocess().stdout.fnmatch_lines(["*::test_it", "  (runtime 300 s -> 6 s)"])


def test_the_summary_is_one_line_with_q_and_absent_with_qq_and_without_verdicts(pytester):
    pytester.makepyfile(KEEPS)
    said = [line for line in pytester.runpytest_inprocess("-q").outlines if "cloudbench" in line]
    assert said == ["cloudbench verdicts (embedded region, quick pace): 1 held"]
    pytester.runpytest_inprocess("-qq").stdout.no_fnmatch_line("*cloudbench verdicts*")
    pytester.makepyfile("def test_it():\n    pass\n")
    pytester.runpytest_inprocess().stdout.no_fnmatch_line("*cloudbench verdicts*")


JUDGES = """
    import pytest
    from pytest_cloudbench.limits.quantities import Iops
    from pytest_cloudbench.reports.hooks import call_hook
    from pytest_cloudbench.verdicts.verdict import Outcome, Verdict

    @pytest.fixture
    def reaches(request):
        def reaches(iops):
            outcome = Outcome.HELD if iops <= 3000 else Outcome.VIOLATED
            sentence = f"{outcome.value}: 3,000 of {iops:,} IOPS; limited by {'a very long name, ' * 15}9 IOPS"
            verdict = Verdict(outcome, sentence, "reaches x", Iops(iops), Iops(3000))
            call_hook(request.node, "verdict", verdict=verdict, measurement=None)
            return verdict
        return reaches
"""
"""A fixture whose verdicts are reported as those of a measurement."""


@pytest.fixture
def judges(pytester, monkeypatch):
    """Run the text of a test file whose tests have the fixture ``reaches``."""
    pytester.makeconftest(JUDGES)
    for name in ("CI", "BUILD_NUMBER"):  # with them pytest cuts no line of its short summary
        monkeypatch.delenv(name, raising=False)

    def run(text, *options):
        pytester.makepyfile(test_a=text)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)

    return run


FAILS = """
    def test_it(reaches):
        assert reaches(1000)
        assert reaches(9000)
"""


def test_the_sentence_of_a_failing_test_is_shown_once_in_full_and_once_in_the_short_summary(judges):
    result = judges(FAILS)
    sentence = f"violated: 3,000 of 9,000 IOPS; limited by {'a very long name, ' * 15}9 IOPS"
    assert [line for line in result.outlines if sentence in line] == [f"E       {sentence}"]
    said = [line for line in result.outlines if "violated: 3,000" in line]
    assert len(said) == 2
    assert said[1].startswith("FAILED ")
    assert " - violated: 3,000 of" in said[1]
    result.stdout.no_fnmatch_line("*where*")


@pytest.mark.parametrize("options", [["--tb=no"], ["--tb=short"], ["--tb=native"], ["--full-trace"]])
def test_the_sentence_is_shown_in_full_with_every_kind_of_traceback(judges, options):
    lines = judges(FAILS, *options).outlines
    assert (
        sum(
            f"violated: 3,000 of 9,000 IOPS; limited by {'a very long name, ' * 15}9" in line
            for line in lines
        )
        == 1
    )


def test_an_asserted_verdict_keeps_what_the_test_says_beside_it(judges):
    lines = judges(
        """
        def test_message(reaches):
            assert reaches(9000), "the disk is too small"

        def test_negated(reaches):
            assert not reaches(1000)

        def test_two(reaches):
            assert reaches(1000) and reaches(9000)

        def test_figure(reaches):
            reaches(9000)
            assert 1 == 2
        """
    ).outlines
    assert any(line.startswith("E ") and "the disk is too small" in line for line in lines)
    assert any(line.startswith("E ") and "not held: 3,000 of 1,000 IOPS" in line for line in lines)
    assert any(line.startswith("E ") and "(held: 3,000 of" in line for line in lines)
    assert any(line.startswith("E ") and "assert 1 == 2" in line for line in lines)


def test_subtests_do_not_multiply_verdicts(judges, pytester):
    result = judges(
        """
        def test_it(reaches, subtests):
            for iops in (1000, 2000, 9000):
                with subtests.test(iops=iops):
                    assert reaches(iops)
        """,
        "--cloudbench-summary=summary.md",
    )
    result.stdout.fnmatch_lines(["*promised and measured: 2 held, 1 violated*"])
    table = str(result.stdout).partition("promised and measured")[2].partition("short test summary")[0]
    assert [table.count(f"{iops:,} IOPS") for iops in (1000, 2000, 9000)] == [1, 1, 1]
    summary = (pytester.path / "summary.md").read_text()
    assert "cloudbench: 2 held, 1 violated" in summary
    assert [summary.count(f"| {iops:,} IOPS |") for iops in (1000, 2000, 9000)] == [1, 1, 1]


@pytest.mark.parametrize("options", [[], ["-n1"]])
def test_verdicts_are_named_by_their_subtest(judges, pytester, options):
    result = judges(
        """
        def test_it(reaches, subtests):
            assert reaches(500)
            with subtests.test("reads", iops=1000):
                assert reaches(1000)
                assert reaches(1500)
            for iops in (2000, 9000):
                with subtests.test(iops=iops):
                    assert reaches(iops)
            assert reaches(700)
        """,
        "--cloudbench-summary=summary.md",
        "--junitxml=junit.xml",
        *options,
    )
    text = str(result.stdout).partition("promised and measured")[2].partition("short test summary")[0]
    table = [
        re.split(r"\s{2,}", line.strip())
        for line in text.splitlines()
        if "held" in line or "violated" in line
    ]
    rows = [" ".join(row) for row in table]
    assert any(row.startswith("test_it 500 IOPS") for row in rows), rows
    assert any(row.startswith("[reads] (iops=1000) 1,000 IOPS") for row in rows), rows
    assert any(row.startswith("1,500 IOPS") for row in rows), rows
    assert any(row.startswith("(iops=2000) 2,000 IOPS") for row in rows), rows
    assert any(row.startswith("(iops=9000) 9,000 IOPS") for row in rows), rows
    assert any(row.startswith("test_it 700 IOPS") for row in rows), rows
    result.stdout.fnmatch_lines(["  (iops=2000) held: *"])
    assert "(iops=9000)" in (pytester.path / "summary.md").read_text()
    assert 'name="cloudbench.subtest" value="(iops=2000)"' in (pytester.path / "junit.xml").read_text()


@pytest.mark.parametrize("options", [[], ["-n1"]])
def test_a_test_that_fails_as_expected_violates_nothing(judges, pytester, options):
    result = judges(
        """
        import pytest

        @pytest.mark.xfail(reason="older firmware")
        def test_known(reaches):
            assert reaches(1000)
            assert reaches(9000)
        """,
        "--cloudbench-summary=summary.md",
        "--junitxml=junit.xml",
        *options,
    )
    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines(
        ["  xfailed, as expected: older firmware", "*promised and measured: 1 held, 1 xfailed*", "* xfailed"]
    )
    assert "cloudbench: 1 held, 1 xfailed" in (pytester.path / "summary.md").read_text()
    assert "older firmware" in (pytester.path / "junit.xml").read_text()


def test_a_test_that_passes_unexpectedly_keeps_its_verdicts(judges):
    result = judges(
        """
        import pytest

        @pytest.mark.xfail
        def test_known(reaches):
            assert reaches(1000)
        """
    )
    result.stdout.fnmatch_lines(["*promised and measured: 1 held*"])


@pytest.mark.parametrize("options", [[], ["-n1"]])
def test_a_violated_verdict_of_a_test_that_passed_says_so(judges, pytester, options):
    result = judges(
        """
        import pytest

        def test_forgotten(reaches):
            reaches(1000)
            reaches(9000)
        def test_asserted(reaches):
            assert reaches(8000)
        def test_failing_otherwise(reaches):
            reaches(7000)
            raise ValueError
        @pytest.mark.xfail
        def test_known(reaches):
            assert reaches(6000)
        """,
        "--cloudbench-summary=summary.md",
        "--tb=no",
        *options,
    )
    result.assert_outcomes(passed=1, failed=2, xfailed=1)
    markdown = (pytester.path / "summary.md").read_text()
    for text in (str(result.stdout), markdown):
        lines = text.splitlines()
        [place] = [number for number, line in enumerate(lines) if "the test passed" in line]
        assert "violated: 3,000 of 9,000 IOPS" in lines[place - 1]


@pytest.mark.parametrize("options", [[], ["-n1"]])
def test_the_report_of_pytest_html_has_every_verdict(judges, pytester, options):
    pytest.importorskip("pytest_html")
    result = judges(FAILS, "--html=report.html", "--self-contained-html", *options)
    result.assert_outcomes(failed=1)
    page = (pytester.path / "report.html").read_text()
    assert "<th>Verdicts</th>" in page
    assert "1 held, 1 violated" in page
    assert all(
        f"{word}: 3,000 of {iops} IOPS" in page for word, iops in (("held", "1,000"), ("violated", "9,000"))
    )


def test_texts_in_the_report_of_pytest_html_are_escaped():
    report = SimpleNamespace(user_properties=[(VERDICT_PROPERTY, "violated: <3,000> & less")])
    data, cells = [], ["<td>Failed</td>", "<td>test_it</td>", "<td>1 ms</td>"]
    pytest_html_results_table_html(report, data)
    pytest_html_results_table_row(report, cells)
    assert "violated: &lt;3,000&gt; &amp; less" in data[0]
    assert cells[2] == "<td>1 violated</td>"
    other = SimpleNamespace(user_properties=[])
    pytest_html_results_table_html(other, data)
    assert len(data) == 1


def test_the_summary_works_under_xdist(pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile(KEEPS)
    pytester.runpytest_subprocess("-n1").stdout.fnmatch_lines(["*cloudbench verdicts*", "  held: 80,012 of*"])
