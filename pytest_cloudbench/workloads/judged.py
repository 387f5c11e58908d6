"""The verdicts of a measurement, and the registry for expectations from outside the package."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from pytest_cloudbench.verdicts.verdict import judging

if TYPE_CHECKING:
    from pytest_cloudbench.limits.ceilings import Ceiling
    from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput
    from pytest_cloudbench.verdicts.bottleneck import Bottleneck
    from pytest_cloudbench.verdicts.not_worse_than import Earlier
    from pytest_cloudbench.verdicts.verdict import Verdict

_F = TypeVar("_F", bound="Callable[..., Verdict]")
_R = TypeVar("_R", bound="Judged")
_expectations: dict[str, Callable[..., Verdict]] = {}


class Judged:
    """A measurement with its verdicts.

    ``on_verdict``, if not None, is called with every verdict. ``on_comparison``, if not None, is called for every
    verdict that compares runs: ``on_comparison(runs, labels=(), title="")``, with labels and title if the verdict
    has them.
    """

    _kind: ClassVar[str] = ""
    _of_other_kinds: ClassVar[Mapping[str, str]] = {}
    """Attributes of other kinds of runs, each with the end of the message that explains it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if clash := _expectations.keys() & {*vars(cls), *inspect.get_annotations(cls)}:
            raise TypeError(
                f"{cls.__name__} has names of registered expectations: {', '.join(sorted(clash))}"
            )

    if not TYPE_CHECKING:  # hidden from type checkers

        def __getattr__(self, name: str) -> Any:
            if name in _expectations:
                return functools.partial(self.expect, name)
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in type(self)._of_other_kinds:
                text = f"this was a run on {self._kind}, and {name} {self._of_other_kinds[name]}"
            raise AttributeError(text, name=name, obj=self)

    @property
    def bottleneck(self) -> Bottleneck:
        """What held the run back: the suspects with the evidence for and against each, the most likely first.

        `print(run.bottleneck)` says it in a sentence. If the rate fell for good, it describes the part after the
        last fall.
        """
        from pytest_cloudbench.verdicts.attribution import bottleneck_of
        from pytest_cloudbench.verdicts.run import run_of

        return bottleneck_of(run_of(self._observed()))

    @judging
    def reaches(
        self,
        target: Ceiling | Iops | Throughput | str,
        *,
        within: float | str = 0.10,
        share: float | str | None = None,
    ) -> Verdict:
        """Was `target` reached, within the fraction `within`? With `share`, in that share of the seconds."""
        from pytest_cloudbench.verdicts.reaches import reaches

        return self._reported(reaches(self._observed(), target, within=within, share=share))

    @judging
    def capped_by(self, ceiling: Ceiling | Iops | Throughput | str, *, within: float | str = 0.05) -> Verdict:
        """Was the rate at `ceiling`, neither below nor above, and for no other reason?"""
        from pytest_cloudbench.verdicts.capped_by import capped_by

        return self._reported(capped_by(self._observed(), ceiling, within=within))

    @judging
    def steady(
        self, *, within: float | str = 0.05, method: Literal["seconds", "snia"] = "seconds"
    ) -> Verdict:
        """Did the rate stay the same over the run, within the fraction `within`, or by SNIA's five rounds?"""
        from pytest_cloudbench.verdicts.steady import steady

        return self._reported(steady(self._observed(), within=within, method=method))

    @judging
    def drops_to(self, level: Ceiling | Rate | str, *, within: float | str = 0.05) -> Verdict:
        """Did the rate fall to `level`, within the fraction `within`, and stay there? The verdict says when."""
        from pytest_cloudbench.verdicts.drops_to import drops_to

        return self._reported(drops_to(self._observed(), level, within=within))

    @judging
    def burst_ends_at(self, level: Ceiling | Rate | str, *, within: float | str = 0.05) -> Verdict:
        """Did a burst of storage end at `level`, within the fraction `within`?

        The verdict compares the moment with the arithmetic of the credits.
        """
        from pytest_cloudbench.verdicts.burst_ends_at import burst_ends_at

        return self._reported(burst_ends_at(self._observed(), level, within=within))

    @judging
    def sustains(
        self,
        rate: Ceiling | Rate | str,
        *,
        for_: str | float,
        share: float | str = 1.0,
        within: float | str = 0.10,
    ) -> Verdict:
        """Was `rate`, within the fraction `within`, held without a break for the time `for_` ("10 min")?

        In every sample, or with `share` in that share of them.
        """
        from pytest_cloudbench.verdicts.sustains import sustains

        return self._reported(sustains(self._observed(), rate, for_=for_, share=share, within=within))

    @judging
    def outperforms(self, other: Any, *, by: float | str = 0.0) -> Verdict:
        """Is this measurement above `other`, another measurement, by the fraction `by` or more?"""
        from pytest_cloudbench.verdicts.comparison import outperforms

        return self._compared(outperforms(self._observed(), _observed(other), by=by), (self, other))

    @judging
    def resembles(self, other: Any, *, within: float | str = 0.10) -> Verdict:
        """Are this measurement and `other`, another one, the same within the fraction `within`?"""
        from pytest_cloudbench.verdicts.comparison import resembles

        return self._compared(resembles(self._observed(), _observed(other), within=within), (self, other))

    @judging
    def not_worse_than(self, earlier: Any, *, by: float | str = 0.05) -> Verdict:
        """Is the rate at most the share `by` (0.05 or "5%") below that of earlier runs?

        `earlier` is the `baseline` fixture, another measurement, or several.
        """
        from pytest_cloudbench.verdicts.not_worse_than import not_worse_than

        return self._reported(not_worse_than(self._observed(), _earlier(self, earlier), by=by))

    @judging
    def expect(self, name: str, *arguments: Any, **options: Any) -> Verdict:
        """Return the verdict of a registered `expectation`: `run.expect("recovers_within", "10 s")`.

        Raises LookupError for an unknown name, TypeError if the function returns no verdict.
        """
        from pytest_cloudbench.verdicts.details import unusable
        from pytest_cloudbench.verdicts.run import run_of
        from pytest_cloudbench.verdicts.verdict import Verdict

        judge = _expectations.get(name)
        if judge is None:
            known = ", ".join(sorted(_expectations)) or "none"
            raise LookupError(f"no expectation {name!r} is registered; registered: {known}")
        run = run_of(self._observed())
        if wrong := unusable(run, run.rate):
            verdict = Verdict.inconclusive(wrong.text, machine_limited=wrong.machine_limited)
        else:
            verdict = judge(run, *arguments, **options)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"the expectation {name!r} returned {verdict!r}: return a Verdict")
        if not verdict.promise:
            asked = [str(value) for value in (*arguments, *options.values())]
            verdict = replace(verdict, promise=" ".join([name.replace("_", " "), *asked]))
        return self._reported(verdict)

    def _observed(self) -> Any:
        """Return the measurement to judge; one that cannot be judged as a whole raises here."""
        return self

    def _compared(
        self, verdict: Verdict, runs: Sequence[Any], labels: Sequence[str] = (), title: str = ""
    ) -> Verdict:
        on_comparison = getattr(self, "on_comparison", None)
        if on_comparison is not None:
            on_comparison(tuple(runs), labels=tuple(labels), title=title)
        return self._reported(verdict)

    def _named_parts(self) -> Sequence[tuple[str, Any]]:
        """Return the name and the measurement of each host or pair of a run on several; empty for any other run."""
        return ()

    def _of_part(self, part: _R) -> _R:
        """Return a part of this run with the callbacks and the unsure credits of the whole."""
        of_whole = {name: getattr(self, name) for name in ("credits_unsure", "on_verdict", "on_comparison")}
        return replace(part, **of_whole)  # type: ignore[type-var]

    def _reported(self, verdict: Verdict) -> Verdict:
        if len(parts := self._named_parts()) > 1:
            from pytest_cloudbench.verdicts.run import run_of
            from pytest_cloudbench.verdicts.straggler import with_slowest

            verdict = with_slowest(verdict, {name: run_of(part) for name, part in parts})
        if unsure := getattr(self, "credits_unsure", ""):
            from pytest_cloudbench.verdicts.run import run_of
            from pytest_cloudbench.verdicts.unsure_credits import with_unsure_credits

            verdict = with_unsure_credits(verdict, run_of(self._observed()), unsure)
        on_verdict = getattr(self, "on_verdict", None)
        if on_verdict is not None:
            on_verdict(verdict)
        return verdict


def expectation(name: str) -> Callable[[_F], _F]:
    """Register a function as an expectation of every measurement: ``@expectation("recovers_within")``.

    The function takes the view of a run (`Run`) and what the test passes, and returns a `Verdict`; it does no I/O and
    changes nothing. A test calls it as ``run.recovers_within("10 s")`` or ``run.expect("recovers_within", "10 s")``.
    Runs without a usable rate or series are inconclusive and never reach the function.

    Raises ValueError if the name is not an identifier, is taken, or is an attribute of a measurement.
    """

    def register(judge: _F) -> _F:
        if not name.isidentifier() or name.startswith("_"):
            raise ValueError(
                f"{name!r} cannot name an expectation: use an identifier such as 'recovers_within'"
            )
        if owner := _owner_of(name):
            raise ValueError(f"{name!r} is already an attribute of {owner}: choose another name")
        taken = _expectations.get(name)
        if taken is not None and _place_of(taken) != _place_of(judge):
            raise ValueError(f"an expectation {name!r} is already registered by {_place_of(taken)}")
        _expectations[name] = judge
        return judge

    return register


def _owner_of(name: str) -> str | None:
    """Return the class of measurements that has an attribute of this name; None if none has."""
    from pytest_cloudbench.workloads import measurement, network_measurement  # noqa: F401  # their classes count

    kinds: list[type[Any]] = [Judged]
    for kind in kinds:
        kinds += kind.__subclasses__()
    for kind in kinds:
        if hasattr(kind, name) or name in getattr(kind, "__dataclass_fields__", {}):
            return kind.__name__
    return None


def _place_of(judge: Callable[..., Any]) -> str:
    return f"{judge.__module__}.{judge.__qualname__}"


@judging
def scales_linearly(
    measurements: Sequence[Any], *, with_: Sequence[int], within: float | str = 0.05
) -> Verdict:
    """Did the rate grow in proportion to `with_`, within the fraction `within`?

    `with_` counts something in each of `measurements`: `scales_linearly([one, two, five], with_=[1, 2, 5])`. The
    verdict names the first measurement that falls below, and the limit that held it. The last reports the verdict.
    """
    from pytest_cloudbench.verdicts.scales_linearly import scales_linearly as judged

    runs = list(measurements)
    verdict = judged([_observed(run) for run in runs], with_=with_, within=within)
    if not isinstance(runs[-1], Judged):
        return verdict
    return runs[-1]._compared(verdict, runs, [f"with {count:,}" for count in with_], verdict.promise)


def _earlier(run: Judged, given: Any) -> Earlier:
    """Return the earlier runs that a test compares ``run`` with. Raises TypeError for anything else."""
    from pytest_cloudbench.verdicts.not_worse_than import Earlier, EarlierRun

    if hasattr(given, "earlier_than"):
        found: Earlier = given.earlier_than(run)
        return found
    runs = list(given) if isinstance(given, list | tuple) else [given]
    if not runs or not all(isinstance(each, Judged) for each in runs):
        raise TypeError(
            f"not_worse_than({given!r}): pass the baseline fixture, another measurement, or a list of them"
        )
    names = [f"measurement {number}" for number in range(1, len(runs) + 1)]
    return Earlier(tuple(EarlierRun(*pair) for pair in zip(names, map(_observed, runs), strict=True)))


def _observed(other: Any) -> Any:
    return other._observed() if isinstance(other, Judged) else other
