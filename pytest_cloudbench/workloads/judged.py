"""What every measurement can be asked: its verdicts, each told to whoever keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_cloudbench.verdicts.verdict import judging

if TYPE_CHECKING:
    from pytest_cloudbench.limits.ceilings import Ceiling
    from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput
    from pytest_cloudbench.verdicts.verdict import Verdict


class Judged:
    """The verdicts of a measurement. ``on_verdict``, where it is not None, is told of every one.

    ``on_comparison``, where it is not None, is told of every verdict that sets runs side by side:
    ``on_comparison(runs, labels=(), title="")``, labels and title where the verdict has words for them.
    """

    _kind: ClassVar[str] = ""
    _of_other_kinds: ClassVar[Mapping[str, str]] = {}
    """What people ask of this kind of run because another one has it, and what there is instead."""

    if not TYPE_CHECKING:  # for a type checker these are not there

        def __getattr__(self, name: str) -> Any:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in type(self)._of_other_kinds:
                text = f"this was a run on {self._kind}, and {name} {self._of_other_kinds[name]}"
            raise AttributeError(text, name=name, obj=self)

    @judging
    def reaches(
        self,
        target: Ceiling | Iops | Throughput | str,
        *,
        within: float = 0.10,
        share: float | None = None,
    ) -> Verdict:
        """Was `target` reached, but for the fraction `within`? With `share`, in that share of the seconds."""
        from pytest_cloudbench.verdicts.reaches import reaches

        return self._told(reaches(self._observed(), target, within=within, share=share))

    @judging
    def capped_by(self, ceiling: Ceiling | Iops | Throughput | str, *, within: float = 0.05) -> Verdict:
        """Does the measurement sit at `ceiling`, neither below nor above, for no other reason?"""
        from pytest_cloudbench.verdicts.capped_by import capped_by

        return self._told(capped_by(self._observed(), ceiling, within=within))

    @judging
    def steady(self, *, within: float = 0.05) -> Verdict:
        """Did the rate stay the same over the run, but for the fraction `within`?"""
        from pytest_cloudbench.verdicts.steady import steady

        return self._told(steady(self._observed(), within=within))

    @judging
    def drops_to(self, level: Ceiling | Rate | str, *, within: float = 0.05) -> Verdict:
        """Did the rate fall to `level`, but for the fraction `within`, and stay there? The verdict says when."""
        from pytest_cloudbench.verdicts.drops_to import drops_to

        return self._told(drops_to(self._observed(), level, within=within))

    @judging
    def burst_ends_at(self, level: Ceiling | Rate | str, *, within: float = 0.05) -> Verdict:
        """Did a burst of storage end at `level`, but for the fraction `within`? The verdict sets beside its
        moment what the credits' arithmetic says."""
        from pytest_cloudbench.verdicts.burst_ends_at import burst_ends_at

        return self._told(burst_ends_at(self._observed(), level, within=within))

    @judging
    def sustains(
        self, rate: Ceiling | Rate | str, *, for_: str | float, share: float = 1.0, within: float = 0.10
    ) -> Verdict:
        """Was `rate`, but for the fraction `within`, held for so long ("10 min") on end?

        In every sample, or with `share` in that share of them.
        """
        from pytest_cloudbench.verdicts.sustains import sustains

        return self._told(sustains(self._observed(), rate, for_=for_, share=share, within=within))

    @judging
    def outperforms(self, other: Any, *, by: float = 0.0) -> Verdict:
        """Is this measurement above `other`, another measurement, by the fraction `by` or more?"""
        from pytest_cloudbench.verdicts.comparison import outperforms

        return self._compared(outperforms(self._observed(), _observed(other), by=by), (self, other))

    @judging
    def resembles(self, other: Any, *, within: float = 0.10) -> Verdict:
        """Are this measurement and `other`, another one, the same but for the fraction `within`?"""
        from pytest_cloudbench.verdicts.comparison import resembles

        return self._compared(resembles(self._observed(), _observed(other), within=within), (self, other))

    def _observed(self) -> Any:
        """The measurement to judge; one that cannot be judged as a whole says so here."""
        return self

    def _compared(
        self, verdict: Verdict, runs: Sequence[Any], labels: Sequence[str] = (), title: str = ""
    ) -> Verdict:
        on_comparison = getattr(self, "on_comparison", None)
        if on_comparison is not None:
            on_comparison(tuple(runs), labels=tuple(labels), title=title)
        return self._told(verdict)

    def _told(self, verdict: Verdict) -> Verdict:
        on_verdict = getattr(self, "on_verdict", None)
        if on_verdict is not None:
            on_verdict(verdict)
        return verdict


@judging
def scales_linearly(measurements: Sequence[Any], *, with_: Sequence[int], within: float = 0.05) -> Verdict:
    """Did the rate grow as `with_`, how many of something each of `measurements` had, but for the fraction `within`?

    `scales_linearly([one, two, five], with_=[1, 2, 5])`. The verdict names the first that falls off, and what bound
    it. It is kept with the last measurement.
    """
    from pytest_cloudbench.verdicts.scales_linearly import scales_linearly as judged

    runs = list(measurements)
    verdict = judged([_observed(run) for run in runs], with_=with_, within=within)
    if not isinstance(runs[-1], Judged):
        return verdict
    return runs[-1]._compared(verdict, runs, [f"with {count:,}" for count in with_], verdict.promise)


def _observed(other: Any) -> Any:
    return other._observed() if isinstance(other, Judged) else other
