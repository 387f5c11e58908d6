"""Money: an amount with its currency."""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering

from pytest_cloudbench.limits.quantities import figure

HOUR_S = 3600.0


@total_ordering
@dataclass(frozen=True, eq=False)
class Cost:
    """What hardware costs over ``seconds``, in ``currency``. ``float()`` returns the amount.

    Costs of one currency add and compare, and compare with plain numbers, which then mean the same currency. Adding or
    ordering costs of different currencies raises TypeError.
    """

    amount: float
    currency: str = "USD"
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{amount_text(self.amount)} {self.currency}"

    def __float__(self) -> float:
        return self.amount

    def __hash__(self) -> int:
        return hash(self.amount)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Cost):
            return (self.amount, self.currency) == (other.amount, other.currency)
        return self.amount == other

    def __lt__(self, other: Cost | float) -> bool:
        return self.amount < (self._same(other).amount if isinstance(other, Cost) else other)

    def __add__(self, other: Cost) -> Cost:
        """Return the sum of the amounts and of the times. Raises TypeError for another currency."""
        return Cost(self.amount + self._same(other).amount, self.currency, self.seconds + other.seconds)

    @property
    def per_hour(self) -> float | None:
        """The amount for each hour; None if it covers no time."""
        return self.amount / self.seconds * HOUR_S if self.seconds > 0 else None

    def _same(self, other: Cost) -> Cost:
        if other.currency != self.currency:
            raise TypeError(f"{self} and {other} have different currencies: convert one of them first")
        return other


def amount_text(amount: float) -> str:
    """Return an amount as people read it: "1,234.50"; a small one with two significant digits: "0.0031"."""
    if 0 < abs(amount) < 0.1:
        return figure(float(f"{amount:.2g}"), 6)
    return f"{amount:,.2f}"
