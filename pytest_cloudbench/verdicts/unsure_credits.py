"""Verdicts on hardware that something else may have used: its burst credits may not have been full at the start."""

from __future__ import annotations

from dataclasses import replace

from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict

_GOOD_PART = 0.1
"""Least share of seconds at a rate that remains without credits, for spent credits to explain a broken promise."""


def with_unsure_credits(verdict: Verdict, run: Run, unsure: str) -> Verdict:
    """Return a verdict on a run before which something else may have spent credits; ``unsure`` says which.

    A promise that was broken at a rate that remains without credits is undecided: full credits might have kept it. A
    promise about the end of a burst is judged by the fall, which then does not show how long a full burst lasts.
    """
    reason = f"{unsure}, because something else may have used this hardware"
    if verdict.outcome is Outcome.HELD and verdict.asks_for_fall:
        return replace(verdict, sentence=f"{verdict.sentence}; {reason}")
    if verdict.outcome is not Outcome.VIOLATED or not _ended_a_burst(run):
        return verdict
    _, _, said = verdict.sentence.partition(": ")
    text = f"inconclusive: {said}; but {reason}: use new hardware, or let it rest until they are full"
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, sentence=text, bound_by=())


def _ended_a_burst(run: Run) -> bool:
    """Return True if the run, or at least 10 % of its samples, ran at a rate that remains after credits are spent."""
    if run.ends_a_burst(run.rate, ()):
        return True
    line = run.timeline(run.rate)
    spent = sum(run.ends_a_burst(line.rate(value), ()) for value in line.values)
    return spent > 0 and spent >= _GOOD_PART * len(line.values)
