"""What all runs have left in a region: by their tags in the API, and by the journals on this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_cloudbench.reports.prices import Prices
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Leftover

from .clients import Clients
from .journal import SUFFIX, JournalContent, journal_directory, read_journal
from .kinds import KINDS, Kind
from .lease import LEASE_TAG, why_alive
from .ledger import AskPrices, hourly_cost, instance_types, seconds
from .reap import is_of, is_of_this_boot, journals, ledger_of, locked
from .run import CREATED_TAG, KEPT_TAG, RUN_TAG, tags_of


@dataclass(frozen=True)
class Found:
    """A resource of a run, when it was created, and the end of its lease; in seconds since 1970, None if unknown.

    kept: it stays until its removal is requested.
    """

    leftover: Leftover
    created: float | None = None
    lease_end: float | None = None
    kept: bool = False


@dataclass(frozen=True)
class FoundRun:
    """A run that has resources in a region. journal: its journal, if it is on this machine."""

    run_id: str
    region: str
    resources: tuple[Found, ...] = ()
    journal: JournalContent | None = None

    def age_s(self, now: float) -> float:
        """Return the age of its newest resource in seconds; 0 if that is unknown."""
        created = [each.created for each in self.resources]
        return max(0.0, min(now - each if each is not None else 0.0 for each in created)) if created else 0.0

    def alive(self, now: float) -> str:
        """Return why the run may still be going on: a part of a sentence; "" if it has ended.

        A run of this machine holds the lock of its journal. A run elsewhere is judged by its lease, which it renews, or
        by its age if it has no lease.
        """
        path = journal_directory() / f"{self.run_id}{SUFFIX}"
        if path.exists():
            with locked(path) as stream:
                if stream is None:
                    return "its journal is locked"
                if is_of_this_boot(read_journal(path)):
                    return ""
        others = self.without_kept()
        ends = [each.lease_end for each in others.resources if each.lease_end is not None]
        return why_alive(ends, now - others.age_s(now), now) if others.resources else ""

    def without_kept(self) -> FoundRun:
        """Return the run without what it keeps."""
        return replace(self, resources=tuple(each for each in self.resources if not each.kept))


@dataclass
class Survey:
    """The runs found in one region, and what could not be queried."""

    runs: list[FoundRun] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def survey(clients: Clients, *, ask_prices: AskPrices = lambda _: None) -> Survey:
    """Return the runs that have resources in the region of these clients. A kind that cannot be listed is a problem."""
    described: list[tuple[Kind, dict[str, Any]]] = []
    result = Survey()
    for kind in KINDS:
        try:
            all_of_kind = kind.find(clients, [{"Name": "tag-key", "Values": [RUN_TAG]}], "of all runs")
        except CloudError as error:
            result.problems.append(str(error))
            continue
        described += [(kind, each) for each in all_of_kind if kind.state(each) not in kind.gone]
    prices = ask_prices(instance_types(each for _, each in described)) if described else None
    found: dict[str, list[Found]] = {}
    for kind, each in described:
        if run_id := tags_of(each).get(RUN_TAG):
            found.setdefault(run_id, []).append(_found(kind, each, prices))
    runs = {run_id: FoundRun(run_id, clients.region, tuple(those)) for run_id, those in found.items()}
    for path in journals():
        content = read_journal(path)
        if content.intentions and is_of(content, clients):
            runs[content.run_id] = _with_journal(clients, runs.get(content.run_id), content, ask_prices)
    result.runs = sorted((run for run in runs.values() if run.resources), key=lambda run: run.run_id)
    return result


def _found(kind: Kind, description: Mapping[str, Any], prices: Prices | None) -> Found:
    tags = tags_of(description)
    cost = hourly_cost(kind, description, prices)
    return Found(
        Leftover(kind.name, description[kind.id_key], kind.state(description), cost),
        seconds(tags.get(CREATED_TAG)),
        seconds(tags.get(LEASE_TAG)),
        KEPT_TAG in tags,
    )


def _with_journal(
    clients: Clients, run: FoundRun | None, content: JournalContent, ask_prices: AskPrices
) -> FoundRun:
    """Add what only the journal knows, such as a resource whose tags were removed."""
    run = replace(run or FoundRun(content.run_id, clients.region), journal=content)
    known = {each.leftover.id for each in run.resources}
    there = ledger_of(clients, content.run_id, content, ask_prices=ask_prices).remaining()
    created = seconds(content.intentions[-1].time)
    more = [Found(each, created) for each in there if each.id not in known]
    return replace(run, resources=(*run.resources, *more))


def all_regions(clients: Clients) -> list[str]:
    """Return the regions that the account has enabled. Raises CloudError."""
    answer = clients.call("list the regions", "ec2", "describe_regions")
    return sorted(each["RegionName"] for each in answer["Regions"])


def table(runs: Sequence[FoundRun]) -> list[str]:
    """Return the lines of a table of all resources of these runs."""
    now = time.time()
    rows = [("RUN", "REGION", "KIND", "ID", "STATE", "AGE", "COST")]
    for run in runs:
        for each in run.resources:
            one = each.leftover
            age = "" if each.created is None else age_words(now - each.created)
            rows.append((run.run_id, run.region, one.kind, one.id, one.state, age, one.hourly))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def age_words(seconds: float) -> str:
    """Return an age in words: "40 s", "12 min", "6.5 h", "3 days"."""
    if seconds < 60:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:.0f} days"
