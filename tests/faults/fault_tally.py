"""A plugin of pytest that counts what comes of the tests that cause faults."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pytest

KINDS = ("kill", "API", "SSH", "disks", "network", "secrets", "evidence", "parsers")


@dataclass
class Tally:
    """What came of one fault."""

    tests: int = 0
    tried: int = 0
    leaked: int = 0
    told_wrong: int = 0
    skipped: int = 0


class Faults:
    """A plugin of pytest that keeps the tests that cause faults of some kinds, and counts what comes of them."""

    def __init__(self, kinds: tuple[str, ...] = KINDS) -> None:
        self._kinds = kinds
        self.tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
        self._causes: dict[str, tuple[Tally, bool]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the tests with a fault of these kinds."""
        others = []
        for item in items:
            kind, what, leak = fault_of(item)
            if kind not in self._kinds:
                others.append(item)
                continue
            tally = self.tallies[kind, what]
            tally.tests += 1
            self._causes[item.nodeid] = (tally, leak)
        items[:] = [item for item in items if item.nodeid in self._causes]
        config.hook.pytest_deselected(items=others)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test."""
        if report.nodeid not in self._causes:
            return
        tally, leak = self._causes[report.nodeid]
        if report.skipped:
            tally.skipped += 1
        elif report.when == "call":
            tally.tried += int(dict(report.user_properties).get("tried", 1))
        if report.failed:
            # What a fixture finds after a test is a leftover.
            if leak or report.when == "teardown":
                tally.leaked += 1
            else:
                tally.told_wrong += 1

    def lines(self) -> list[str]:
        """Return a table with one line for each fault, in the order of the kinds."""
        lines = [f"{'kind':9} {'fault':60} {'tried':>9} {'leaked':>7} {'told wrong':>11}"]
        order = sorted(self.tallies.items(), key=lambda one: (KINDS.index(one[0][0]), one[0][1]))
        for (kind, what), each in order:
            skipped = f"  ({each.skipped} of {each.tests} tests skipped)" if each.skipped else ""
            lines.append(f"{kind:9} {what:60} {each.tried:9,} {each.leaked:7} {each.told_wrong:11}{skipped}")
        tried, leaked, wrong = (
            sum(getattr(each, name) for each in self.tallies.values())
            for name in ("tried", "leaked", "told_wrong")
        )
        lines.append(f"{len(order):3} faults {'':59} {tried:9,} {leaked:7} {wrong:11}")
        return lines


def fault_of(item: pytest.Item) -> tuple[str, str, bool]:
    """Return kind, name and whether the test looks for leftovers; empty strings if the test causes no fault."""
    marker = item.get_closest_marker("fault")
    if marker is None:
        return "", "", False
    kind, what = marker.args
    if kind not in KINDS:
        raise pytest.UsageError(f"{item.nodeid}: no kind of fault {kind!r}: use one of {', '.join(KINDS)}")
    return kind, what, marker.kwargs.get("leak", False)
