"""Several verdicts as one gate: all are judged, then one error reports them if any does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

from pytest_cloudbench.verdicts.verdict import (
    Inconclusive,
    Outcome,
    Verdict,
    truth_by,
    truth_in_force,
    verdicts_drawn_to,
)


class cloudbench_all_of:
    """Judge every verdict of a block, also after one that does not hold: ``with cloudbench_all_of(): ...``.

    Each verdict drawn in the block is a promise of the test, asserted or not, and counts as true until the block ends.
    Then the block raises AssertionError with all sentences if one of them is violated, else `Inconclusive` if one is
    inconclusive. An assertion about plain figures ends the block at once, as everywhere; its error also reports the
    verdicts drawn before it, if one of them does not hold. A skip after a violated verdict becomes an AssertionError.
    Other errors pass unchanged. ``assert not`` of a verdict is refused.
    """

    def __enter__(self) -> None:
        self._verdicts: list[Verdict] = []
        self._outer = truth_in_force()
        with ExitStack() as entered:
            entered.enter_context(truth_by(self._kept))
            entered.enter_context(verdicts_drawn_to(self._kept))
            self._entered = entered.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self._entered.close()
        # A skip must not hide an earlier violated verdict: outside of a block, its assert would have failed.
        skipped = kind is not None and kind.__name__ == "Skipped"
        if error is not None and not (skipped or isinstance(error, AssertionError)):
            return
        if error is not None and negated(error, self._verdicts):
            raise AssertionError(
                "`assert not` of a verdict cannot be used in cloudbench_all_of(), which judges its verdicts at the end "
                f"of the block: assert what the run should show instead. Here: {str(error).splitlines()[0]}"
            ) from None
        if self._outer is not None:  # in a repeat, or in another block, which judges at its own end
            for verdict in self._verdicts:
                self._outer(verdict)
            return
        failed = [
            each
            for each in self._verdicts
            if each.outcome is Outcome.VIOLATED or (each.outcome is not Outcome.HELD and not skipped)
        ]
        if error is None:
            raise_unless_held(self._verdicts)
        elif failed:
            sentences = [each.sentence for each in _worst_first(self._verdicts)]
            raise AssertionError("\n".join([*sentences, f"then: {error}"])) from error

    def _kept(self, verdict: Verdict) -> bool:
        if not any(each is verdict for each in self._verdicts):
            self._verdicts.append(verdict)
        return True


def raise_unless_held(verdicts: Sequence[Verdict]) -> None:
    """Raise AssertionError with all sentences if one is violated, else `Inconclusive` if one is inconclusive."""
    __tracebackhide__ = True
    ordered = _worst_first(verdicts)
    if not ordered or ordered[0].outcome is Outcome.HELD:
        return
    if ordered[0].outcome is Outcome.VIOLATED:
        raise AssertionError("\n".join(each.sentence for each in ordered))
    # A session skips a test if only its machine made the first verdict inconclusive, so other reasons come first.
    raise Inconclusive(ordered[0], ordered[1:])


def negated(error: BaseException, verdicts: Sequence[Verdict]) -> bool:
    """Return True if an assertion failed because it negates one of these verdicts."""
    lines = str(error).splitlines()
    return any(line.startswith(f"assert not {each.sentence}") for line in lines for each in verdicts)


def _worst_first(verdicts: Sequence[Verdict]) -> list[Verdict]:
    order = (Outcome.VIOLATED, Outcome.INCONCLUSIVE, Outcome.HELD)
    return sorted(verdicts, key=lambda each: (order.index(each.outcome), each.machine_limited))
