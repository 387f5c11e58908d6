"""The verdict itself: its truth value, its text, and how an assert shows it."""

import copy
import pickle

import pytest

from pytest_cloudbench import Inconclusive, Outcome, Verdict


def verdict(outcome):
    return Verdict(outcome, f"{outcome.value}: 1 of 2 IOPS", "reaches 2 IOPS")


def test_held_is_true_and_violated_is_false():
    assert verdict(Outcome.HELD)
    assert not verdict(Outcome.VIOLATED)


def test_inconclusive_has_no_truth():
    undecided = verdict(Outcome.INCONCLUSIVE)
    with pytest.raises(Inconclusive, match="inconclusive: 1 of 2 IOPS") as raised:
        bool(undecided)
    assert raised.value.verdict is undecided
    assert isinstance(raised.value, AssertionError)


def test_an_assert_shows_the_sentence():
    with pytest.raises(AssertionError, match="violated: 1 of 2 IOPS"):
        assert verdict(Outcome.VIOLATED)


def test_its_text_is_the_sentence():
    assert repr(verdict(Outcome.HELD)) == str(verdict(Outcome.HELD)) == "held: 1 of 2 IOPS"


def test_verdicts_and_their_error_travel_between_processes():
    undecided = verdict(Outcome.INCONCLUSIVE)
    assert pickle.loads(pickle.dumps(undecided)) == undecided
    assert pickle.loads(pickle.dumps(Inconclusive(undecided))).verdict == undecided
    assert copy.copy(undecided) == undecided
    assert hash(undecided) == hash(copy.copy(undecided))
