"""``doctor``: what this machine can do for an embedded region, and what to do about the rest."""

from __future__ import annotations

from pytest_cloudbench.twin.capabilities import Check, examine, what_is_missing

__all__ = ["Check", "examine", "report", "what_is_missing"]


def report(checks: list[Check]) -> str:
    """The findings, one below the other, and the conclusion."""
    missing = what_is_missing(checks)
    limited = [check for check in checks if check.state == "limited"]
    if missing:
        end = f"No embedded region can run here: {', '.join(check.name for check in missing)} missing."
    elif limited:
        end = f"An embedded region can run here, limited by: {', '.join(check.name for check in limited)}."
    else:
        end = "An embedded region can run here."
    return "\n".join([*(str(check) for check in checks), "", end])
