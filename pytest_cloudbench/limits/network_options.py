"""What a launch may request of an instance's network: its bandwidth weighting, and ENA Express."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.bandwidth_weighting import DEFAULT, WEIGHTINGS
from pytest_cloudbench.limits.instances import InstanceLimits

UDP_TOO = "udp"


@dataclass(frozen=True)
class NetworkOptions:
    """The network options of an instance.

    ``weighting`` is its bandwidth weighting. With ``ena_express`` its TCP flows use ENA Express, with
    ``ena_express_udp`` its UDP flows as well, if the other end has the same.
    """

    weighting: str = DEFAULT
    ena_express: bool = False
    ena_express_udp: bool = False

    @classmethod
    def of(cls, bandwidth_weighting: object, ena_express: object) -> NetworkOptions:
        """Return the options for a user's arguments. Raises ValueError for invalid ones."""
        if bandwidth_weighting not in WEIGHTINGS:
            raise ValueError(
                f"invalid bandwidth_weighting={bandwidth_weighting!r}: use one of {', '.join(map(repr, WEIGHTINGS))}"
            )
        if not isinstance(ena_express, bool) and ena_express != UDP_TOO:
            raise ValueError(
                f"invalid ena_express={ena_express!r}: use True for TCP, 'udp' for TCP and UDP, or False"
            )
        return cls(str(bandwidth_weighting), bool(ena_express), ena_express == UDP_TOO)

    def check(self, limits: InstanceLimits) -> None:
        """Raise UnsupportedOption (a ValueError) if an instance type does not support them."""
        limits.check_options(weighting=self.weighting, ena_express=self.ena_express)

    def __bool__(self) -> bool:
        return self != NetworkOptions()

    def __str__(self) -> str:
        express = f"ENA Express for {'TCP and UDP' if self.ena_express_udp else 'TCP'}"
        return ", ".join(
            [
                *([f"bandwidth weighting {self.weighting}"] if self.weighting != DEFAULT else []),
                *([express] if self.ena_express else []),
            ]
        )


PLAIN_NETWORK = NetworkOptions()
"""The network options of a launch by default."""
