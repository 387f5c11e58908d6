"""``python -m pytest_cloudbench.twin``: serve an embedded region, and look after those that there are."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_cloudbench.limits.latency_mode import EBS, LATENCY_MODES

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status of the process."""
    asked = _parser().parse_args(argv)
    status: int = asked.run(asked)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_cloudbench.twin", description="An EC2 region embedded in this machine."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="serve a region until its standard input ends")
    serve.add_argument(
        "--keep", action="store_true", help="keep it until `down`, whatever its standard input does"
    )
    serve.add_argument(
        "--backing",
        type=Path,
        metavar="DIR",
        help="keep the volumes' data in this directory instead of in memory",
    )
    serve.add_argument("--owner", type=int, metavar="UID", help="the user who may read a kept region's key")
    serve.add_argument(
        "--time",
        type=_time_factor,
        default=1.0,
        metavar="FACTOR",
        help="let burst credits drain and refill this many times faster than the clock (1 to 3600)",
    )
    serve.add_argument(
        "--latency",
        choices=LATENCY_MODES,
        default=EBS,
        help="ebs: answer each I/O after a service time by volume type; none: as soon as the limits allow "
        "(default: ebs)",
    )
    serve.set_defaults(run=_serve)

    down = commands.add_parser("down", help="end the kept regions")
    down.add_argument("slots", nargs="*", type=int, metavar="SLOT", help="these slots only, leased ones too")
    down.set_defaults(run=_down)

    status = commands.add_parser("status", help="list the regions of this machine")
    status.add_argument("--json", action="store_true", help="for programs")
    status.set_defaults(run=_status)

    doctor = commands.add_parser("doctor", help="say what this machine can do and what it lacks")
    doctor.add_argument("--json", action="store_true", help="for programs")
    doctor.set_defaults(run=_doctor)

    sweep = commands.add_parser("sweep", help="remove what killed regions left")
    sweep.set_defaults(run=_sweep)
    return parser


def _time_factor(text: str) -> float:
    from pytest_cloudbench.limits.time_factor import parse_time_factor

    try:
        return parse_time_factor(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _serve(asked: argparse.Namespace) -> int:
    from pytest_cloudbench.twin.serve import serve

    return serve(
        keep=asked.keep,
        backing=asked.backing,
        owner=asked.owner,
        time_compression=asked.time,
        latency=asked.latency,
    )


def _down(asked: argparse.Namespace) -> int:
    from pytest_cloudbench.twin.regions import END_LIMIT_S, end_kept_regions
    from pytest_cloudbench.twin.sweep import sweep

    if not _is_root("down"):
        return 1
    ended, stuck = end_kept_regions(asked.slots or None)
    sweep()
    for slot in ended:
        print(f"slot {slot}: ended")
    for slot in stuck:
        print(f"slot {slot}: still there {END_LIMIT_S:.0f} s after being asked to end", file=sys.stderr)
    if not ended and not stuck:
        print("no kept region is up")
    return 1 if stuck else 0


def _status(asked: argparse.Namespace) -> int:
    from pytest_cloudbench.twin.regions import region_statuses

    statuses = region_statuses()
    if asked.json:
        print(json.dumps([status.to_json() for status in statuses]))
        return 0
    for status in statuses:
        print(status)
    if not statuses:
        print("no region is up")
    return 0


def _doctor(asked: argparse.Namespace) -> int:
    from pytest_cloudbench.twin import examine, report, what_is_missing

    checks = examine()
    print(json.dumps([check.to_json() for check in checks]) if asked.json else report(checks))
    return 1 if what_is_missing(checks) else 0


def _sweep(_asked: argparse.Namespace) -> int:
    from pytest_cloudbench.twin.sweep import sweep

    if not _is_root("sweep"):
        return 1
    swept = sweep()
    for slot in swept:
        print(f"slot {slot}: swept")
    if not swept:
        print("nothing was left behind")
    return 0


def _is_root(command: str) -> bool:
    if os.geteuid() == 0:
        return True
    print(f"`{command}` needs root: the regions run as root.", file=sys.stderr)
    return False


if __name__ == "__main__":
    # Programs of root are not in the PATH of a login user, which `su` keeps.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SBIN])
    sys.exit(main())
