"""``doctor``: what this machine can do for an embedded region, for people or as JSON."""

from __future__ import annotations

import json
from typing import TextIO

from pytest_cloudbench.twin.capabilities import Check, examine, what_is_missing


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


def run(out: TextIO, *, as_json: bool = False) -> int:
    """Examine the machine and write the findings to ``out``. 0 when a region can run, else 1."""
    checks = examine()
    missing = what_is_missing(checks)
    if as_json:
        facts = {"can_run": not missing, "checks": [check.to_json() for check in checks]}
        out.write(json.dumps(facts, indent=2) + "\n")
    else:
        out.write(report(checks) + "\n")
    return 1 if missing else 0
