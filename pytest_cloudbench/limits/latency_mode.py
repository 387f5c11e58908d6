"""Whether an embedded region models how long an I/O takes on EBS, or answers as soon as the limits allow."""

from __future__ import annotations

EBS = "ebs"
NONE = "none"
LATENCY_MODES = (EBS, NONE)

_CONDITIONS = {
    EBS: "storage latency modelled by the embedded region",
    NONE: "storage latency not modelled: below a limit it is this machine's own",
}


def latency_conditions(mode: str | None) -> tuple[str, ...]:
    """Return the condition that a mode adds to every result of storage; none for None, as on AWS."""
    return () if mode is None else (_CONDITIONS.get(mode, f"storage latency modelled as {mode!r}"),)
