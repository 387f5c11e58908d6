"""A test's own assertion about what it measured is a promise, in the terminal, JUnit XML and the summary."""

import pytest
from measured_runs import CONFTEST, NO_EVIDENCE


@pytest.fixture
def run(pytester):
    pytester.makeconftest(CONFTEST)

    def run(body, *options):
        pytester.makepyfile(test_own="from conftest import measured\n\n" + body)
        return pytester.runpytest_inprocess(*NO_EVIDENCE, *options)

    return run


def test_it_is_violated_with_its_statement_and_its_figures(run, pytester):
    result = run(
        """
def test_it(fio):
    run = fio(measured(3000.0, 3010.0, 2990.0), rw="randread")
    share = run.throughput_mib / 7
    assert share > 9_000, "too slow for us"
""",
        "--junit-xml=out.xml",
        "--cloudbench-summary=out.md",
    )
    result.assert_outcomes(failed=1)
    sentence = "violated: too slow for us; assert share > 9_000"
    result.stdout.fnmatch_lines([f"*{sentence}*; 1.67411 > 9000*"])
    assert sentence.replace(">", "&gt;") in (pytester.path / "out.xml").read_text()
    assert "1 violated" in (pytester.path / "out.md").read_text()


def test_an_assertion_of_a_verdict_is_reported_once(run, pytester):
    run(
        """
def test_it(fio):
    run = fio(measured(*[3000.0] * 30), rw="randread")
    assert run.reaches("9,000 IOPS"), "too slow"
""",
        "--cloudbench-summary=out.md",
    )
    assert "### cloudbench: 1 " in (pytester.path / "out.md").read_text()


def test_what_says_nothing_of_a_measurement_is_no_promise(run, pytester):
    result = run(
        """
def test_before(fio):
    assert 1 == 2

def test_error(fio):
    fio(measured(3000.0), rw="randread")
    1 / 0

def test_raises(fio):
    import pytest
    fio(measured(3000.0), rw="randread")
    with pytest.raises(ValueError, match="this"):
        raise ValueError("that")
""",
        "--cloudbench-summary=out.md",
    )
    result.assert_outcomes(failed=3)
    assert "violated" not in (pytester.path / "out.md").read_text()


def test_in_a_subtest_it_is_a_promise_too(run, pytester):
    run(
        """
def test_it(fio, subtests):
    run = fio(measured(3000.0), rw="randread")
    for least in (1_000, 9_000, 20_000):
        with subtests.test(least=least):
            assert run.iops > least
""",
        "--junit-xml=out.xml",
    )
    text = (pytester.path / "out.xml").read_text()
    assert "violated: assert run.iops &gt; least; 3000.0 &gt; 9000" in text
    assert "violated: assert run.iops &gt; least; 3000.0 &gt; 20000" in text


def test_one_gate_of_several_verdicts_reports_each(run, pytester):
    result = run(
        """
from pytest_cloudbench import cloudbench_all_of

def test_it(fio):
    run = fio(measured(*[3000.0] * 30), rw="randread")
    with cloudbench_all_of():
        assert run.reaches("9,000 IOPS")
        assert run.steady()
        run.reaches("3,000 IOPS")
        assert run.iops < 10
""",
        "--cloudbench-summary=out.md",
    )
    result.assert_outcomes(failed=1)
    summary = (pytester.path / "out.md").read_text()
    assert "### cloudbench: 2 held, 2 violated" in summary
    result.stdout.fnmatch_lines(["*violated: assert run.iops < 10; 3000.0 < 10"])
