"""What a verdict does to the test that asserts it, and what the terminal shows of it."""

import pytest

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
        record_property(CONDITION_PROPERTY, "quick pace: runtime 300 s -> 6 s")
        record_property(CONDITION_PROPERTY, "quick pace: runtime 300 s -> 6 s")
"""


def test_the_summary_lists_held_verdicts_and_each_condition_once(pytester):
    pytester.makepyfile(KEEPS)
    result = pytester.runpytest_inprocess()
    result.stdout.fnmatch_lines(
        ["*cloudbench verdicts*", "*::test_it", "  held: 80,012 of*", "  (quick pace: runtime 300 s -> 6 s)"]
    )
    assert str(result.stdout).count("quick pace") == 1


def test_the_summary_lists_the_conditions_of_a_test_without_a_verdict(pytester):
    pytester.makepyfile(
        KEEPS.replace('record_property(VERDICT_PROPERTY, "held: 80,012 of 80,000 IOPS (100 %)")', "")
    )
    pytester.runpytest_inprocess().stdout.fnmatch_lines(
        ["*::test_it", "  (quick pace: runtime 300 s -> 6 s)"]
    )


def test_the_summary_is_silent_with_q_and_without_verdicts(pytester):
    pytester.makepyfile(KEEPS)
    pytester.runpytest_inprocess("-q").stdout.no_fnmatch_line("*cloudbench verdicts*")
    pytester.makepyfile("def test_it():\n    pass\n")
    pytester.runpytest_inprocess().stdout.no_fnmatch_line("*cloudbench verdicts*")


def test_the_summary_works_under_xdist(pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile(KEEPS)
    pytester.runpytest_subprocess("-n1").stdout.fnmatch_lines(["*cloudbench verdicts*", "  held: 80,012 of*"])
