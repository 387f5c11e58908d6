"""Moments and lengths of a run in words."""

from __future__ import annotations

from pytest_cloudbench.limits.quantities import figure


def moment(seconds: float) -> str:
    """A time of the test: "45.3 s", "1,260 s (21 min)"."""
    text = f"{figure(seconds, 1 if seconds < 100 else 0)} s"
    if seconds < 120:
        return text
    return f"{text} ({figure(seconds / 60, 0 if abs(seconds / 60 - round(seconds / 60)) < 0.05 else 1)} min)"
