"""Several verdicts as one gate: all are judged, and one error has all sentences."""

import pickle

import pytest
from synthetic_runs import run_of

from pytest_cloudbench import cloudbench_all_of
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.verdict import Inconclusive, Outcome, Verdict, judging, truth_by

HELD = Verdict.held("3,000 IOPS")
VIOLATED = Verdict.violated("2,000 of 3,000 IOPS")
UNDECIDED = Verdict.inconclusive("not steady")
OF_MACHINE = Verdict.inconclusive("the machine was late", machine_limited=True)


@judging
def drawn(verdict):
    """Draw a verdict, as the methods of a measurement do."""
    return verdict


def error_of(*steps):
    """Return the error of a block of these steps: a verdict is asserted, a function is called."""
    error = None
    try:
        with cloudbench_all_of():
            for step in steps:
                if isinstance(step, Verdict):
                    assert step
                else:
                    step()
    except Exception as raised:
        error = raised
    assert error is not None
    return error


def too_few():
    assert 5 > 9


def test_held_verdicts_pass():
    with cloudbench_all_of():
        assert HELD
        drawn(HELD)


def test_one_violated_verdict_fails_with_all_sentences_the_worst_first():
    error = error_of(HELD, VIOLATED, UNDECIDED)
    assert not isinstance(error, Inconclusive)
    assert str(error).splitlines() == [VIOLATED.sentence, UNDECIDED.sentence, HELD.sentence]


def test_without_a_violated_one_it_is_inconclusive_for_a_reason_that_is_not_the_machine_s():
    error = error_of(OF_MACHINE, HELD, UNDECIDED)
    assert isinstance(error, Inconclusive)
    assert error.verdict is UNDECIDED
    assert str(error).splitlines() == [UNDECIDED.sentence, OF_MACHINE.sentence, HELD.sentence]
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_verdicts_that_are_drawn_and_not_asserted_count_once():
    def reached():
        drawn(reaches(run_of(2_000), "3,000 IOPS"))

    error = error_of(VIOLATED, lambda: drawn(VIOLATED), reached)
    first, second = str(error).splitlines()
    assert first == VIOLATED.sentence
    assert second.startswith("violated: 2,000 of 3,000 IOPS (67 %")


def test_after_the_block_verdicts_are_their_outcome_again():
    error_of(VIOLATED)
    assert not drawn(VIOLATED)


def test_an_assertion_about_figures_ends_the_block_with_the_verdicts_before_it():
    error = error_of(VIOLATED, too_few, UNDECIDED)
    assert str(error).splitlines() == [VIOLATED.sentence, "then: assert 5 > 9"]
    assert str(error_of(HELD, too_few)) == "assert 5 > 9"


def test_other_errors_pass_unchanged():
    def lost():
        raise ConnectionError("the host is gone")

    assert isinstance(error_of(VIOLATED, lost), ConnectionError)


def test_a_skip_hides_no_violated_verdict():
    def skip_after(verdict):
        with cloudbench_all_of():
            assert drawn(verdict)
            pytest.skip("no more")

    with pytest.raises(AssertionError, match=r"2,000 of 3,000 IOPS.*\n.*then: no more"):
        skip_after(VIOLATED)
    with pytest.raises(pytest.skip.Exception, match="no more"):
        skip_after(UNDECIDED)


def test_the_contrary_of_a_verdict_is_refused():
    def contrary():
        assert not drawn(VIOLATED)

    assert str(error_of(contrary)).startswith("`assert not` of a verdict")


def test_blocks_nest_and_the_outer_one_judges():
    def inner():
        with cloudbench_all_of():
            drawn(VIOLATED)

    assert str(error_of(inner, UNDECIDED)).splitlines() == [VIOLATED.sentence, UNDECIDED.sentence]


def test_in_a_repeat_the_verdicts_are_the_repeat_s():
    asserted = []
    with truth_by(lambda verdict: asserted.append(verdict) or True), cloudbench_all_of():
        assert drawn(VIOLATED)
        drawn(UNDECIDED)
    assert [each.outcome for each in asserted] == [Outcome.VIOLATED, Outcome.INCONCLUSIVE]
