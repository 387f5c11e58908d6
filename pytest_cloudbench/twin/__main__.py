"""``python -m pytest_cloudbench.twin``: serve an embedded region; list, end and sweep this machine's regions."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pytest_cloudbench.limits.limits_file import parse_limits
from pytest_cloudbench.limits.region_settings import EBS, LATENCY_MODES
from pytest_cloudbench.limits.volume_types import add_volume_types
from pytest_cloudbench.limits.weather import Weather, parse_weather

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status of the process."""
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
        "--keep", action="store_true", help="keep it until `down`, also when its standard input ends"
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
    serve.add_argument(
        "--limits",
        type=Path,
        metavar="FILE",
        help="offer the volume types of this cloudbench-limits.toml too",
    )
    serve.add_argument(
        "--weather", type=_weather, metavar="WEATHER", help="answer like EC2 on a bad day (docs/weather.md)"
    )
    serve.add_argument(
        "--outbound",
        metavar="HOST,...",
        help="let hosts install packages from this machine's mirrors and these hosts (may be empty)",
    )
    serve.set_defaults(run=_serve)

    down = commands.add_parser("down", help="end regions, and remove what killed ones left")
    down.add_argument("slots", nargs="*", type=int, metavar="SLOT", help="their slots, leased ones too")
    down.set_defaults(run=_down)

    status = commands.add_parser("status", help="list the regions of this machine")
    status.add_argument("--json", action="store_true", help="for programs")
    status.set_defaults(run=_status)

    doctor = commands.add_parser("doctor", help="report what this machine can do and what it lacks")
    doctor.add_argument("--json", action="store_true", help="for programs")
    doctor.set_defaults(run=_doctor)

    sweep = commands.add_parser("sweep", help="remove what killed regions left")
    sweep.set_defaults(run=_sweep)
    return parser


def _time_factor(text: str) -> float:
    from pytest_cloudbench.limits.region_settings import parse_time_factor

    try:
        return parse_time_factor(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _weather(text: str) -> Weather:
    try:
        return parse_weather(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _serve(asked: argparse.Namespace) -> int:
    from pytest_cloudbench.twin.serve import serve

    if asked.limits is not None:
        add_volume_types(
            parse_limits(asked.limits.read_text(encoding="utf-8"), str(asked.limits)).volume_types
        )
    options = {
        "backing": asked.backing,
        "time_compression": asked.time,
        "latency": asked.latency,
        "outbound": None if asked.outbound is None else [host for host in asked.outbound.split(",") if host],
    }
    return serve(asked.keep, asked.owner, asked.weather, options)


def _down(asked: argparse.Namespace) -> int:
    from pytest_cloudbench.twin.regions import END_LIMIT_S, end_regions, known_regions, sweep

    if not _is_root("down"):
        return 1
    ended, stuck = end_regions(asked.slots)
    sweep()
    for slot in ended:
        print(f"slot {slot}: ended")
    for slot in stuck:
        print(f"slot {slot}: still running {END_LIMIT_S:.0f} s after the request to end", file=sys.stderr)
    if not asked.slots:
        kept = [record.slot for record in known_regions() if record.kept and record.alive]
        for slot in kept:
            print(
                f"slot {slot}: still up, because this environment does not name it; end it with: "
                f"cloudbench twin down {slot}",
                file=sys.stderr,
            )
        if not kept:
            print("no kept region is up")
        return 1 if kept else 0
    for slot in sorted({*asked.slots} - {*ended, *stuck}):
        print(f"slot {slot}: no region is up")
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
    from pytest_cloudbench.twin.doctor import examine, missing_checks, report

    checks = examine()
    print(json.dumps([asdict(check) for check in checks]) if asked.json else report(checks))
    return 1 if missing_checks(checks) else 0


def _sweep(_asked: argparse.Namespace) -> int:
    from pytest_cloudbench.twin.regions import sweep

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
    # `su` keeps the login user's PATH, which lacks root's programs.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SBIN])
    sys.exit(main())
