"""A finished picture, and the check that matplotlib is installed."""

from __future__ import annotations

from dataclasses import dataclass


class PlotsMissing(ImportError):
    """A picture cannot be drawn, because matplotlib is not installed."""


@dataclass(frozen=True)
class Picture:
    """A picture in two formats: ``svg`` for screens and paper, ``png`` for viewers without SVG."""

    name: str
    svg: bytes
    png: bytes


def check_can_draw() -> None:
    """Raise PlotsMissing, which names the extra, if matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise PlotsMissing(
            "pictures need matplotlib, which is not installed: pip install 'pytest-cloudbench[plots]'"
        ) from error
