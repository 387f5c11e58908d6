"""Run every test that causes a fault, and print one line for each fault: tried, leaked, told wrong.

    python tests/faults                     all of them; embedded regions need root
    python tests/faults disks secrets       some kinds
    python tests/faults --list              the faults and how many tests cause each; nothing is run

A test or module says which fault it causes: ``@pytest.mark.fault("disks", "a volume is lost while fio runs")``. It
stays in the folder of what it tests, so CI runs it once. A failure counts as told wrong, or as leaked with
``leak=True``, for tests that look for leftovers. ``record_property("tried", 1000)`` is for a test that tries its fault
1,000 times. Each channel of a session, of which there are 27, gets 15 secrets here (`CLOUDBENCH_TEST_PLANTED`), and 2
in CI. The exit code is 0 if every fault was tried, nothing leaked and no cause was told wrong. Further options go to
pytest.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from fault_tally import KINDS, Faults

ROOT = Path(__file__).resolve().parents[2]


def main(words: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the faults below a root that were asked for and print their lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)} (default: all)")
    parser.add_argument("--list", action="store_true", help="list the faults, run no test")
    asked, further = parser.parse_known_args(words)
    if unknown := set(asked.kinds) - {*KINDS}:
        parser.error(f"unknown kind {', '.join(sorted(unknown))}: use {', '.join(KINDS)}")
    os.environ.setdefault("CLOUDBENCH_TEST_PLANTED", "15")
    faults = Faults(tuple(asked.kinds) or KINDS)
    # pyproject.toml's addopts are for the terminal.
    options = (
        ["--collect-only", "-p", "no:terminal", "-o", "addopts="] if asked.list else ["-q", "--timeout=900"]
    )
    code = pytest.main(
        [str(root / "tests"), f"--rootdir={root}", "-m", "fault", *options, *further], plugins=[faults]
    )
    if asked.list:
        for (kind, what), each in faults.tallies.items():
            print(f"{kind:9} {what:60} {each.tests:3} tests")
        return int(code)
    print("\n".join(faults.lines()))
    untried = any(not each.tried for each in faults.tallies.values())
    return int(code) or int(untried)


if __name__ == "__main__":
    sys.exit(main())
