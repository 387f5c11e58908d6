"""The ``cloudbench`` command: the embedded region by itself, and what this machine can do."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence

from pytest_cloudbench import launcher


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.action == "up":
            return _up(options.backing)
        asked = [str(slot) for slot in getattr(options, "slots", ())]
        return _ask_twin(options.action, asked + (["--json"] if getattr(options, "json", False) else []))
    except launcher.RegionUnavailable as error:
        print(f"cloudbench: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cloudbench", description="Cloud performance promises as pytest cases."
    )
    rooms = parser.add_subparsers(dest="room", required=True, metavar="COMMAND")
    twin = rooms.add_parser("twin", help="the EC2 region embedded on this machine")
    actions = twin.add_subparsers(dest="action", required=True, metavar="ACTION")
    up = actions.add_parser("up", help="start the region, keep it, and print the environment to export")
    up.add_argument(
        "--backing", metavar="DIR", help="folder for the volumes' data instead of memory (slower)"
    )
    down = actions.add_parser("down", help="end the regions that are kept, and sweep what a crash left")
    down.add_argument(
        "slots", metavar="SLOT", nargs="*", type=int, help="only these, by the number status shows"
    )
    actions.add_parser("status", help="list the regions on this machine")
    doctor = actions.add_parser("doctor", help="list what this machine can and cannot do, with the remedy")
    doctor.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _up(backing: str | None) -> int:
    """Print shell lines, so that ``eval "$(cloudbench twin up)"`` works."""
    record = launcher.kept_region()
    if record is None:
        record = launcher.start_kept_region(launcher.backed_by(backing))
        print(f"# the region is up (process {record.pid}); end it with: cloudbench twin down")
    else:
        print(f"# the region was up already (process {record.pid}); end it with: cloudbench twin down")
    for name, value in record.environment().items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def _ask_twin(action: str, arguments: list[str]) -> int:
    # The others only look, and must answer the user who lacks root too: it is what the doctor has to tell him.
    command = launcher.twin_command(action, *arguments, needs_root=action == "down")
    return subprocess.run(command, check=False, cwd="/").returncode


if __name__ == "__main__":
    sys.exit(main())
