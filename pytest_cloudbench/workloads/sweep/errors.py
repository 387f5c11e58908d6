"""What can go wrong with a sweep. None of it is a violation; what was measured until then is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_cloudbench.workloads.fio.errors import BadFioJob, FioError

if TYPE_CHECKING:
    from pytest_cloudbench.workloads.sweep.curve import Curve


class BadSweep(BadFioJob):
    """The sweep as written cannot be run: nothing was started."""


class UnknownMix(BadSweep):
    """There is no mix of that name, neither here nor in the project's own file."""

    def __init__(self, name: object, nearest: Sequence[str], known: Sequence[str]) -> None:
        self.nearest = tuple(nearest)
        hint = f"nearest: {', '.join(nearest)}" if nearest else f"there are {', '.join(known)}"
        super().__init__(f"there is no mix {name!r}; {hint}")


class BadMix(BadSweep):
    """A mix whose shares or sizes cannot be."""


class SweepBroken(FioError):
    """A step could not be measured. `curve` holds the steps done before it, None where there were none."""

    def __init__(self, sentence: str, curve: Curve | None) -> None:
        self.curve = curve
        done = f"; the steps done before it:\n{curve.table()}" if curve is not None else ""
        super().__init__(f"{sentence}{done}")

    @property
    def measurement(self) -> Curve | None:
        """The curve, under the name that all workloads share."""
        return self.curve

    @measurement.setter
    def measurement(self, curve: Curve | None) -> None:
        self.curve = curve


class SweepInterrupted(KeyboardInterrupt):
    """Somebody ended the sweep. `curve` holds the steps done before that, None where there were none."""

    def __init__(self, curve: Curve | None) -> None:
        self.curve = curve
        done = (
            f" after {len(curve.steps)} steps:\n{curve.table()}"
            if curve is not None
            else " before its first step"
        )
        super().__init__(f"the sweep was interrupted{done}")
