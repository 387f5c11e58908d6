"""A finished picture, and that the library which draws it is there."""

from __future__ import annotations

from dataclasses import dataclass


class PlotsMissing(ImportError):
    """A picture was wanted and the library that draws it is not installed."""


@dataclass(frozen=True)
class Picture:
    """A picture twice: ``svg`` for screens and paper, ``png`` for whatever cannot show that."""

    name: str
    svg: bytes
    png: bytes


def check_can_draw() -> None:
    """Raise PlotsMissing, naming the extra, where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise PlotsMissing(
            "pictures need matplotlib, which is not installed: pip install 'pytest-cloudbench[plots]'"
        ) from error
