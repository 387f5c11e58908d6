"""Errors of sweeps. None of them is a violated promise, and each keeps the steps measured before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_cloudbench.workloads.fio.errors import BadFioJob, FioError

if TYPE_CHECKING:
    from pytest_cloudbench.workloads.sweep.curve import Curve


class BadSweep(BadFioJob):
    """The sweep cannot run as written; nothing was started."""


class UnknownMix(BadSweep):
    """No mix has this name, neither a bundled one nor one of the project."""

    def __init__(self, name: object, nearest: Sequence[str], known: Sequence[str]) -> None:
        self.nearest = tuple(nearest)
        hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"use {', '.join(known)}"
        super().__init__(f"unknown mix {name!r}: {hint}")


class BadMix(BadSweep):
    """The shares or sizes of a mix are invalid."""


class SweepBroken(FioError):
    """A step could not be measured. `curve` holds the maximum and the steps before it; None if there are none."""

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
    """The user ended the sweep. `curve` holds the maximum and the steps until then; None if there are none."""

    def __init__(self, curve: Curve | None) -> None:
        self.curve = curve
        done = (
            f" after {len(curve.steps)} steps:\n{curve.table()}"
            if curve is not None
            else " before its first step"
        )
        super().__init__(f"the sweep was interrupted{done}")
