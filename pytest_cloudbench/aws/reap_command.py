"""`cloudbench reap`: show what runs have left, ask for confirmation, and remove it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_cloudbench.reports.prices import BadPrices, Prices
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import counted

from .access import CloudAccess
from .clients import Clients
from .errors import NoRegion
from .journal import SUFFIX, journal_directory, read_journal
from .keeping import forget_logins
from .ledger import AskPrices
from .reap import Elsewhere, journals, locked, remove_run
from .run import reap_command as run_command
from .survey import FoundRun, all_regions, survey, table
from .waits import Bounds

_ASKS_FOR_REGIONS = "us-east-1"
"""The region whose endpoint lists the regions if none is configured, as in the AWS CLI."""

NOTHING_LEFT, LEFT, NOT_REMOVED, NOT_ASKED = 0, 1, 2, 3
"""Exit codes: all that was chosen is gone; something is left; nothing was removed; a region could not be queried."""


@dataclass(frozen=True)
class Choice:
    """What to remove: the named runs, or all that have ended; of those, the ones of at least this age in seconds.

    kept: also what runs have kept after a failed test.
    """

    runs: tuple[str, ...] = ()
    older_than_s: float = 0.0
    regions: tuple[str, ...] = ()
    all_regions: bool = False
    yes: bool = False
    kept: bool = False


def reap_command(
    choice: Choice,
    *,
    prices: Path | None = None,
    access: CloudAccess | None = None,
    bounds: Bounds | None = None,
    ask: Callable[[str], str] | None = None,
) -> int:
    """Show, ask and remove; return the exit code. `ask` asks the user a question; None if that is not possible."""
    base = access or CloudAccess()
    code, chosen = NOTHING_LEFT, []
    try:
        listed = Prices.read(prices) if prices is not None else None
        places = _places(base, choice, bounds)
    except (CloudError, BadPrices) as error:
        return _fail(error)
    for clients in places:
        try:
            found = survey(clients, ask_prices=_ask_prices(clients, listed))
            chosen += [(clients, run) for run in _choose(found.runs, choice)]
            for problem in found.problems:
                code = _fail(problem)
        except CloudError as error:
            code = _fail(error)
    if elsewhere := _elsewhere({clients.region for clients in places}, choice):
        print(f"cloudbench: {elsewhere}")
    if not chosen:
        print(f"cloudbench: nothing to remove in {', '.join(clients.region for clients in places)}")
        return code
    print("\n".join(table([run for _, run in chosen])))
    if not choice.yes and not _agreed(chosen, ask):
        print("cloudbench: nothing was removed; add --yes to remove without a question")
        return NOT_REMOVED
    for clients, run in chosen:
        try:
            done = _remove(clients, run, choice, _ask_prices(clients, listed), bounds)
        except (CloudError, OSError) as error:
            _fail(error)
            done = LEFT
        except KeyboardInterrupt:
            _fail("interrupted; run the command again for what is left")
            return LEFT
        code = max(code, done, key=[NOTHING_LEFT, NOT_ASKED, LEFT].index)
    return code


def _ask_prices(clients: Clients, listed: Prices | None) -> AskPrices:
    """Return a function for the prices of the file, else of the price list; None if that cannot be read."""

    def ask(types: Sequence[str]) -> Prices | None:
        from .price_list import PriceList

        try:
            return listed or PriceList(clients.access, clients.region).prices(types)
        except CloudError:
            return None

    return ask


def _places(base: CloudAccess, choice: Choice, bounds: Bounds | None) -> list[Clients]:
    if choice.all_regions:
        names: Sequence[str] = all_regions(_any_region(base))
    else:
        names = choice.regions or (Clients(base).region,)
    places = [Clients(replace(base, region=name), bounds) for name in names]
    places[0].identity()  # without credentials nothing can be asked
    return places


def _any_region(base: CloudAccess) -> Clients:
    """Return clients of the configured region, else of one that can list all of them."""
    clients = Clients(base)
    try:
        clients.check_credentials()
    except NoRegion:
        clients = Clients(replace(base, region=_ASKS_FOR_REGIONS))
        clients.check_credentials()
    return clients


def _choose(runs: Sequence[FoundRun], choice: Choice) -> list[FoundRun]:
    """Return the chosen runs, and report those that may be going on and are left alone."""
    now, chosen = time.time(), []
    for found in runs:
        if choice.runs and found.run_id not in choice.runs:
            continue
        if found.age_s(now) < choice.older_than_s:
            continue
        alive = found.alive(now)
        run = found if choice.kept else _leave_kept(found)
        if not run.resources:
            continue
        if alive and not (choice.yes and run.run_id in choice.runs):
            kinds = counted(each.leftover.kind for each in run.resources)
            print(
                f"cloudbench: run {run.run_id} in {run.region} was left alone with {kinds}: {alive}; "
                f"to remove it all the same: cloudbench reap --run {run.run_id} --region {run.region} --yes"
            )
            continue
        chosen.append(run)
    return chosen


def _leave_kept(run: FoundRun) -> FoundRun:
    """Return the run without what it keeps, and report that."""
    others = run.without_kept()
    if others != run:
        kinds = counted(each.leftover.kind for each in run.resources if each.kept)
        command = run_command(run.run_id, run.region, kept=True)
        print(
            f"cloudbench: run {run.run_id} in {run.region} keeps {kinds} of a failed test; to remove it: {command}"
        )
    return others


def _elsewhere(regions: set[str], choice: Choice) -> Elsewhere | None:
    """Return the journals of killed runs in regions that were not queried."""
    runs = []
    for path in journals():
        with locked(path) as stream:
            content = read_journal(path) if stream is not None else None
        if content is not None and content.intentions and content.region not in regions:
            runs.append(content)
    return Elsewhere(tuple(runs)) if runs and not choice.runs else None


def _agreed(chosen: Sequence[tuple[Clients, FoundRun]], ask: Callable[[str], str] | None) -> bool:
    if ask is None:
        return False
    kinds = counted(each.leftover.kind for _, run in chosen for each in run.resources)
    return ask(f"Remove {kinds}? [y/N] ").strip().lower() in ("y", "yes")


def _remove(
    clients: Clients, run: FoundRun, choice: Choice, ask_prices: AskPrices, bounds: Bounds | None
) -> int:
    path = journal_directory() / f"{run.run_id}{SUFFIX}"
    with locked(path) as stream:
        result = remove_run(
            clients, run.run_id, run.journal, bounds=bounds, ask_prices=ask_prices, kept=choice.kept
        )
        if choice.kept and not result.left:
            forget_logins(run.run_id)
        if stream is not None and run.journal is not None and not result.left and not result.problems:
            path.unlink(missing_ok=True)
    removed = counted(each.kind for each in result.removed)
    left = counted(each.kind for each in result.left)
    print(f"cloudbench: run {run.run_id} in {run.region}: removed {removed}; {left} left")
    for sentence in (*result.problems, *(f"{each} still exists" for each in result.left)):
        print(f"cloudbench: {sentence}", file=sys.stderr)
    return LEFT if result.left or result.problems else NOTHING_LEFT


def _fail(error: object) -> int:
    print(f"cloudbench: {error}", file=sys.stderr)
    return NOT_ASKED
