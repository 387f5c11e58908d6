"""The ``cloudbench`` command, for the embedded region, evidence, reports, and resources left on AWS."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_cloudbench import __version__, launcher
from pytest_cloudbench.errors import InfrastructureError
from pytest_cloudbench.limits.durations import parse_duration
from pytest_cloudbench.limits.region_settings import EBS, LATENCY_MODES, factor_words, parse_time_factor

if TYPE_CHECKING:
    from pytest_cloudbench.reports.pages import Section

T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    rooms = {
        "verify": _verify,
        "evidence": _evidence,
        "report": _report,
        "history": _history,
        "compare": _compare,
        "twin": _twin,
        "reap": _reap,
    }
    try:
        return rooms[options.room](options)
    except (InfrastructureError, OSError) as error:
        _warn(str(error))
        return 3


def _twin(options: argparse.Namespace) -> int:
    try:
        if options.action == "up":
            return _up(options)
        if options.action == "env":
            _print_environment(launcher.kept_region_of_slot(options.slot))
            return 0
        asked = [str(slot) for slot in getattr(options, "slots", ())]
        if options.action == "down" and not asked:
            asked = _slot_of_this_environment()
        asked += ["--json"] if getattr(options, "json", False) else []
        # status and doctor are read-only. They must work without root too: the doctor reports that root is missing.
        command = launcher.twin_command(options.action, *asked, needs_root=options.action == "down")
        return subprocess.run(command, check=False, cwd="/").returncode
    except KeyboardInterrupt:
        return 130


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, does: str, **more: Any
) -> argparse.ArgumentParser:
    """Add a command. ``does`` is its line in the list of commands, and begins its own help."""
    more["description"] = f"{does[0].upper()}{does[1:]}. {more.get('description', '')}"
    return commands.add_parser(name, help=does, **more)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cloudbench", description="Cloud performance promises as pytest cases."
    )
    parser.add_argument("--version", action="version", version=f"pytest-cloudbench {__version__}")
    rooms = parser.add_subparsers(dest="room", required=True, metavar="COMMAND")
    verify = _command(
        rooms,
        "verify",
        "check that an evidence folder is what its run wrote, or name every difference",
        epilog="exit codes: 0 intact, 1 altered, 2 intact but of a run that did not end, 3 no evidence found",
    )
    verify.add_argument("folder", metavar="DIR", type=Path, help="the evidence folder of one run")
    _add_expected(verify)
    evidence = _command(rooms, "evidence", "keep the newest runs of a folder of evidence")
    prune = _command(
        evidence.add_subparsers(dest="action", required=True, metavar="ACTION"),
        "prune",
        "remove the oldest runs",
        description="Removes folders that a run wrote, and no others: no run that goes on, no links, nothing that has "
        "other files in it.",
        epilog="exit codes: 0 done, 3 the folder cannot be pruned",
    )
    prune.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        type=Path,
        default=Path("cloudbench-evidence"),
        help="the folder of runs (default: cloudbench-evidence)",
    )
    prune.add_argument(
        "--keep", metavar="N", type=int, required=True, help="how many of the newest runs stay"
    )
    prune.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    report = _command(
        rooms,
        "report",
        "make an HTML report of Allure results, with the installed Allure 3 or 2, or an audit page of evidence",
        epilog="exit codes: 0 made, 3 no results, no Allure, or Allure failed; with --audit as for verify: 0 intact, "
        "1 altered, 2 of a run that did not end, 3 no evidence; but for 3, the page is made",
    )
    report.add_argument(
        "folder",
        metavar="DIR",
        type=Path,
        help="the folder that --alluredir named; with --audit the evidence folder of one run",
    )
    report.add_argument(
        "--output",
        metavar="PATH",
        type=Path,
        help="folder for the report (default: allure-report beside DIR); with --audit the file (default: "
        "DIR-audit.html beside DIR)",
    )
    report.add_argument(
        "--audit",
        action="store_true",
        help="make one page of an evidence folder, to read or print without Allure: promises, figures, verdicts, "
        "pictures, who ran it, and whether the evidence is intact",
    )
    _add_expected(report)
    report.add_argument(
        "--served",
        action="store_true",
        help="make a folder for a web server, for large reports, instead of one file that opens from the disk",
    )
    history = _command(
        rooms,
        "history",
        "show what each test measured over runs, and between which runs it changed",
        epilog="exit codes: 0 shown, 3 no evidence found",
    )
    history.add_argument(
        "places", metavar="DIR|s3://...", nargs="+", help="evidence folders, or folders of them"
    )
    compare = _command(
        rooms,
        "compare",
        "judge whether a run is worse than an earlier one, or than several",
        epilog="exit codes: 0 nothing is worse, 1 something is, 2 something is inconclusive, 3 nothing to compare",
    )
    compare.add_argument(
        "before", metavar="BEFORE", help="evidence of one or more earlier runs: DIR or s3://..."
    )
    compare.add_argument("now", metavar="NOW", help="evidence of one run: DIR or s3://...")
    compare.add_argument(
        "--by", metavar="SHARE", default="5%", help="how much worse is allowed (default: 5%%)"
    )
    for each in (history, compare):
        each.add_argument(
            "--format", choices=("text", "markdown", "html"), default="text", help="default: text"
        )
        each.add_argument(
            "--output", metavar="FILE", type=Path, help="write to this file, not to the terminal"
        )
    reap = _command(
        rooms,
        "reap",
        "list what runs have left on AWS, with its age and cost, and remove it after a question",
        description="Finds resources by the tag cloudbench:run. A run that may be going on is left alone unless --run "
        "names it and --yes is given: its journal is locked on this machine, or its lease has not ended.",
        epilog="exit codes: 0 nothing of it is left, 1 something is left, 2 nothing was removed (not confirmed), "
        "3 AWS could not be asked",
    )
    reap.add_argument(
        "--run", metavar="ID", action="append", default=[], help="only this run; can be given several times"
    )
    reap.add_argument(
        "--older-than",
        metavar="AGE",
        type=_checked(parse_duration),
        default=0.0,
        help="only runs that have created nothing for this long, such as 6h",
    )
    place = reap.add_mutually_exclusive_group()
    place.add_argument(
        "--region",
        metavar="NAME",
        action="append",
        default=[],
        help="AWS region; can be given several times (default: that of your AWS configuration)",
    )
    place.add_argument("--all-regions", action="store_true", help="all regions that the account has enabled")
    reap.add_argument(
        "--prices",
        metavar="FILE",
        type=Path,
        help="prices as for pytest --cloudbench-prices (default: the AWS Price List)",
    )
    reap.add_argument(
        "--kept",
        action="store_true",
        help="also what pytest --cloudbench-keep-failed has kept, with its keys",
    )
    reap.add_argument("--yes", action="store_true", help="remove without asking, as in CI")
    twin = _command(rooms, "twin", "control the EC2 region embedded on this machine")
    actions = twin.add_subparsers(dest="action", required=True, metavar="ACTION")
    up = _command(actions, "up", "start a region, keep it, and print the environment to export")
    up.add_argument(
        "--backing", metavar="DIR", help="keep the volumes' data in this folder instead of in memory (slower)"
    )
    up.add_argument(
        "--time",
        metavar="FACTOR",
        type=_checked(parse_time_factor),
        help="drain and refill burst credits this many times faster than the clock, 1 to 3600 (default: 1)",
    )
    up.add_argument(
        "--latency",
        choices=LATENCY_MODES,
        help="ebs: answer each I/O after a service time by volume type; none: as soon as the limits allow "
        "(default: ebs)",
    )
    up.add_argument(
        "--limits",
        metavar="FILE",
        type=_checked(_limits_file),
        help="offer the volume types of this cloudbench-limits.toml too",
    )
    up.add_argument(
        "--weather",
        metavar="WEATHER",
        type=_checked(_weather),
        help="let the API be as slow and unreliable as EC2's: aws, aws,seed=3,lost-answers=2%%, or a TOML file "
        "(default: as fast as it can)",
    )
    up.add_argument(
        "--outbound",
        metavar="HOST,...",
        nargs="?",
        const="",
        help="let its hosts install packages from this machine's package mirrors, and from these hosts (default: "
        "no way out)",
    )
    down = _command(
        actions, "down", "end the kept region that this environment names, and remove what a crash left"
    )
    down.add_argument(
        "slots",
        metavar="SLOT",
        nargs="*",
        type=int,
        help="end these instead, by the number that up and status show",
    )
    env = _command(actions, "env", "print the environment of a region that is kept already")
    env.add_argument("slot", metavar="SLOT", type=int, help="the number that up and status show")
    _command(actions, "status", "list the regions on this machine")
    doctor = _command(actions, "doctor", "list what this machine can and cannot do, with remedies")
    doctor.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _add_expected(command: argparse.ArgumentParser) -> None:
    """Add the options for facts about the evidence that are known from another source."""
    command.add_argument(
        "--signer",
        metavar="FILE",
        type=Path,
        help="check that this key signed it: a public key, or a file of allowed signers as for ssh-keygen",
    )
    command.add_argument(
        "--manifest", metavar="SHA256", help="check the manifest's sum, which the run printed at its end"
    )


def _verify(options: argparse.Namespace) -> int:
    from pytest_cloudbench.evidence.verify import verify

    found = verify(options.folder, signers=options.signer, manifest_sha256=options.manifest)
    print(found)
    return found.exit_code


def _evidence(options: argparse.Namespace) -> int:
    from pytest_cloudbench.evidence.retention import prune

    pruned = prune(options.folder, keep=options.keep, dry=options.dry_run)
    print(f"would have {pruned}" if options.dry_run else pruned)
    return 0


def _reap(options: argparse.Namespace) -> int:
    from pytest_cloudbench.aws.reap_command import NOT_REMOVED, Choice, reap_command

    choice = Choice(
        tuple(options.run),
        options.older_than,
        tuple(options.region),
        options.all_regions,
        options.yes,
        options.kept,
    )
    try:
        return reap_command(choice, prices=options.prices, ask=input if sys.stdin.isatty() else None)
    except (KeyboardInterrupt, EOFError):
        _warn("interrupted; run the command again for what is left")
        return NOT_REMOVED


def _checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a type for argparse that raises ArgumentTypeError, whose text argparse shows unchanged."""

    def checked(text: str) -> T:
        try:
            return parse(text)
        except (ValueError, OSError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def _weather(text: str) -> str:
    from pytest_cloudbench.limits.weather import read_weather

    return str(read_weather(text, lambda name: Path(name).read_text(encoding="utf-8")))


def _limits_file(text: str) -> str:
    from pytest_cloudbench.limits.limits_file import parse_limits

    parse_limits(Path(text).read_text(encoding="utf-8"), text)
    return text


def _report(options: argparse.Namespace) -> int:
    if options.audit:
        return _audit(options)
    from pytest_cloudbench.reports.allure.html_report import make_report

    output = options.output or options.folder.absolute().with_name("allure-report")
    page, allure = make_report(options.folder, output, single_file=not options.served)
    served = f"; serve it with: python3 -m http.server --directory {shlex.quote(str(page.parent))}"
    served = served if options.served else ""
    print(f"{page} made by {allure}{served}")
    return 0


def _audit(options: argparse.Namespace) -> int:
    from pytest_cloudbench.evidence.folder import EvidenceError
    from pytest_cloudbench.reports.audit_page import audit_page

    folder: Path = options.folder.absolute()
    output: Path = (options.output or folder.with_name(f"{folder.name}-audit.html")).absolute()
    if output.is_relative_to(folder):
        raise EvidenceError(f"{output} lies in the evidence, which must not change: give another --output")
    page, checked = audit_page(options.folder, signers=options.signer, manifest_sha256=options.manifest)
    output.write_text(page, encoding="utf-8")
    print(f"{output}\n{checked}")
    return checked.exit_code


def _history(options: argparse.Namespace) -> int:
    from pytest_cloudbench.evidence.folder import EvidenceError
    from pytest_cloudbench.evidence.measured import runs_in
    from pytest_cloudbench.evidence.places import evidence_at
    from pytest_cloudbench.reports.run_history import history

    runs, unreadable = runs_in(evidence_at(options.places, _warn))
    sections = history(runs, unreadable)
    if not sections:
        found = f"no run with a measurement was found in {', '.join(options.places)}"
        raise EvidenceError("; ".join((found, *unreadable.values())))
    _show("History of what was measured", sections, options)
    return 0


def _compare(options: argparse.Namespace) -> int:
    from pytest_cloudbench.evidence.folder import EvidenceError
    from pytest_cloudbench.evidence.places import evidence_at
    from pytest_cloudbench.evidence.reader import Evidence
    from pytest_cloudbench.reports.run_history import compare
    from pytest_cloudbench.verdicts.not_worse_than import checked_by
    from pytest_cloudbench.verdicts.verdict import Outcome

    try:
        by = checked_by(options.by)
        before, now = (evidence_at([place], _warn) for place in (options.before, options.now))
        if len(now) != 1:
            raise EvidenceError(f"{options.now} has {len(now)} runs: name the folder of one")
        title, sections, worst = compare(before, Evidence(now[0]), by=by)
        _show(title, sections, options)
    except ValueError as error:
        _warn(str(error))
        return 3
    return {Outcome.HELD: 0, Outcome.VIOLATED: 1, Outcome.INCONCLUSIVE: 2}[worst]


def _warn(text: str) -> None:
    print(f"cloudbench: {text}", file=sys.stderr)


def _show(title: str, sections: Sequence[Section], options: argparse.Namespace) -> None:
    from pytest_cloudbench.reports.pages import page

    if options.output is None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(page(title, sections, options.format, width), end="")
    else:
        options.output.write_text(page(title, sections, options.format), encoding="utf-8")


def _up(options: argparse.Namespace) -> int:
    """Start a region, or use the one that this environment names if it has the requested settings.

    Print shell lines, so that ``eval "$(cloudbench twin up)"`` works.
    """
    record = None
    with contextlib.suppress(launcher.RegionEnded):  # a new region replaces the ended one
        record = launcher.kept_region_with(options.time, options.latency, options.weather, options.outbound)
    verb = "is" if record is None else "was already"
    if record is None:
        arguments = [
            *launcher.backed_by(options.backing),
            *launcher.time_compressed(options.time or 1),
            *launcher.with_latency(options.latency or EBS),
            *launcher.with_limits(options.limits),
            *launcher.under_weather(options.weather or ""),
            *launcher.with_outbound(options.outbound),
        ]
        record = launcher.start_kept_region(arguments)
    print(
        f"# the region {verb} up (slot {record.slot}, process {record.pid}); end it with: "
        f"cloudbench twin down {record.slot}"
    )
    if record.time_compression != 1:
        factor = factor_words(record.time_compression)
        print(
            f"# its credits drain {factor} times faster than the clock: pytest --cloudbench-twin-time={factor}"
        )
    if record.latency != EBS:
        print(
            f"# its storage has latency {record.latency}: pytest --cloudbench-twin-latency={record.latency}"
        )
    if record.weather:
        print(f"# its API has weather: pytest --cloudbench-twin-weather={record.weather}")
    _print_environment(record)
    return 0


def _print_environment(record: launcher.RegionRecord) -> None:
    for name, value in record.environment().items():
        print(f"export {name}={shlex.quote(value)}")


def _slot_of_this_environment() -> list[str]:
    """Return the slot of the kept region that this environment names; empty if it names none, or one that has ended."""
    with contextlib.suppress(launcher.RegionEnded):
        record = launcher.kept_region()
        return [] if record is None else [str(record.slot)]
    return []


if __name__ == "__main__":
    sys.exit(main())
