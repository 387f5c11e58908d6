"""Where labels beside a picture go so that none covers another."""

from __future__ import annotations

from collections.abc import Sequence


def spread(
    wanted: Sequence[float], heights: Sequence[float], *, low: float = 0.0, high: float = 1.0
) -> list[float]:
    """The centres of labels of these heights: as near as can be to those wanted, in their order, none overlapping.

    They stay between ``low`` and ``high`` where all of them fit there; else they start at ``low``.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    bottoms: dict[int, float] = {}
    edge = low
    for index in order:
        bottoms[index] = edge = max(edge, wanted[index] - heights[index] / 2)
        edge += heights[index]
    edge = max(high, low + sum(heights))
    for index in reversed(order):
        bottoms[index] = edge = min(bottoms[index], edge - heights[index])
    return [bottoms[index] + heights[index] / 2 for index in range(len(wanted))]
