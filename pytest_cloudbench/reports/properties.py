"""A test's measurements and verdicts as user properties, pairs of plain texts, which this module writes and reads.

They go into JUnit XML as they are, and through pytest-xdist to the controller, which prints the summary. Each verdict
starts with its sentence; the properties up to the next sentence belong to it. This module is a pytest plugin.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cloudbench.options import setting

if TYPE_CHECKING:
    from pytest_cloudbench.limits.cost import Cost

_PREFIX = "cloudbench."

VERDICT_PROPERTY = "cloudbench.verdict"
"""Name of the property that holds a verdict's sentence."""

REPEAT_PROPERTY = "cloudbench.repeat_verdict"
"""Name of the property for a verdict of one repeat, or one job of a search, which counts only with the others."""

CONDITION_PROPERTY = "cloudbench.condition"
"""Name of the property for what was done differently from what the test says, such as a shortened run."""

MEASUREMENT_PROPERTY = "cloudbench.measurement"
"""Name of the property for each measurement, in one line."""

CLOUD_PROPERTY = "cloudbench.cloud"
"""Name of the property of every test that requests an instance: the cloud it measures in."""

NOT_COMPARED_PROPERTY = "cloudbench.not_compared"
"""Name of the property for a measurement that no earlier run can be compared with, and why."""

UNDECIDED_PROPERTY = "cloudbench.undecided"
"""Name of the property of a test that was skipped because a promise is inconclusive: how many of its promises are."""

COST_PROPERTY = "cloudbench.cost"
"""Name of the property for the cost of a test, if prices are known; only the teardown's report has it."""
EXACT_COST_PROPERTY = "cloudbench.exact_cost"
"""Name of the property for the same cost with six decimals, from which sums are made."""
NOT_PRICED_PROPERTY = "cloudbench.no_price"
"""Name of the property for a thing without a price that a test used; the test's cost does not include it."""

KEPT_PROPERTY = "cloudbench.kept"
"""Name of the property for an instance that stays because its test failed; only the teardown's report has it."""

XFAILED_PROPERTY = "cloudbench.xfailed"
"""Name of the property of a test that failed as its marker ``xfail`` expects: the reason of the marker."""

OTHERWISE_PROPERTY = "cloudbench.judged_otherwise"
"""Name of the property for a verdict of a replay whose outcome differs from the recorded one."""

OUTCOME, PROMISE, ASKED, MEASURED, BOUND_BY, SUBTEST = _PARTS = tuple(
    f"{_PREFIX}{name}" for name in ("outcome", "promise", "asked", "measured", "bound_by", "subtest")
)

Property = tuple[str, Any]

REPEATED: pytest.StashKey[str] = pytest.StashKey()
"""What a test's verdicts are a part of, such as "repeat 1 of 6" or "search"; absent if they count by themselves."""

XFAILED = "xfailed"
"""pytest's word, in place of the outcome of a promise that a test expects to be broken."""

_FALLEN: pytest.StashKey[list[tuple[float, Property]]] = pytest.StashKey()
"""Time and sentence of each verdict that is not yet assigned to a subtest."""
_running: list[pytest.Item] = []
"""The running test: the report of a subtest has only its id."""

_CLAIMS = ("reaches", "capped by", "drops to")
"""First words of promises that are complete with these words and the figure."""


# Writing ----------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remove the properties of an earlier attempt, which pytest keeps for a rerun, and write the cloud."""
    _running[:] = [item]
    item.stash[_FALLEN] = []
    if item.user_properties:
        item.user_properties[:] = [each for each in item.user_properties if not _is_ours(each)]
    if "ec2" in getattr(item, "fixturenames", ()):
        item.user_properties.append((CLOUD_PROPERTY, setting(item.config, "cloud")))


@pytest.hookimpl(tryfirst=True)
def pytest_cloudbench_measurement(item: pytest.Item, measurement: Any) -> None:
    """Write the measurement and its conditions."""
    item.user_properties.append((MEASUREMENT_PROPERTY, str(measurement)))
    item.user_properties += [(CONDITION_PROPERTY, text) for text in getattr(measurement, "conditions", ())]


@pytest.hookimpl(tryfirst=True)
def pytest_cloudbench_verdict(item: pytest.Item, verdict: Any) -> None:
    """Write the verdict's sentence and its parts; for one repeat, or one job of a search, only the sentence."""
    if REPEATED in item.stash:
        item.user_properties.append((REPEAT_PROPERTY, str(verdict)))
    else:
        written = verdict_properties(verdict)
        item.user_properties += written
        item.stash.setdefault(_FALLEN, []).append((time.time(), written[0]))


def add_not_compared(item: pytest.Item, why: str) -> None:
    """Write which measurement was not compared with earlier runs, and why."""
    item.user_properties.append((NOT_COMPARED_PROPERTY, why))


def add_condition(item: pytest.Item, condition: str) -> None:
    """Write a condition of what the test measured or compared, once."""
    if (CONDITION_PROPERTY, condition) not in item.user_properties:
        item.user_properties.append((CONDITION_PROPERTY, condition))


def add_undecided(item: pytest.Item) -> str:
    """Write that a test is skipped because a promise is inconclusive. Return the totals: "2 held, 1 inconclusive"."""
    words = [judged.outcome for judged in judged_promises(item.user_properties)] or ["inconclusive"]
    counts = counted(words)
    item.user_properties.append((UNDECIDED_PROPERTY, f"skipped, not passed: {counts}"))
    return counts


def counted(words: Sequence[str]) -> str:
    """Return how often each word occurs, in the order of the words: "2 held, 1 inconclusive"."""
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))


def add_cost(item: pytest.Item, cost: Cost, not_priced: Iterable[str] = ()) -> None:
    """Write what the test cost, such as "0.42 USD", and what has no price."""
    item.user_properties.append((COST_PROPERTY, str(cost)))
    item.user_properties.append((EXACT_COST_PROPERTY, f"{cost.amount:.6f} {cost.currency}"))
    item.user_properties += [(NOT_PRICED_PROPERTY, what) for what in not_priced]


def add_changed_verdict(item: pytest.Item, recorded: str) -> None:
    """Write that a replay's verdict differs in its outcome from the ``recorded`` sentence."""
    item.user_properties.append((OTHERWISE_PROPERTY, f"judged differently when it was recorded: {recorded}"))


def verdict_properties(verdict: Any) -> list[tuple[str, str]]:
    """Return the properties of a verdict, its sentence first; parts that it lacks are left out."""
    outcome = getattr(verdict, "outcome", None)
    parts: dict[str, Any] = {
        OUTCOME: getattr(outcome, "value", None),
        PROMISE: getattr(verdict, "promise", None),
        ASKED: getattr(verdict, "asked", None),
        MEASURED: getattr(verdict, "figure", None),
        BOUND_BY: "; ".join(str(ceiling) for ceiling in getattr(verdict, "bound_by", ())),
    }
    known = [(name, str(value)) for name, value in parts.items() if value not in (None, "")]
    return [(VERDICT_PROPERTY, str(verdict)), *known]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write that the test failed as expected, once the marker ``xfail`` has decided so."""
    report = yield
    if report.skipped and hasattr(report, "wasxfail") and of_cloudbench(item.user_properties):
        expected = (XFAILED_PROPERTY, report.wasxfail.removeprefix("reason: "))
        item.user_properties.append(expected)
        report.user_properties.append(expected)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write which subtest judged each verdict, once the subtest has ended."""
    if not of_subtest(report) or not _running or _running[0].nodeid != report.nodeid:
        return
    item = _running[0]
    began: float = report.start
    left = []
    for at, sentence in item.stash.get(_FALLEN, []):
        if at < began:
            left.append((at, sentence))
            continue
        place = next(n for n, each in enumerate(item.user_properties) if each is sentence)
        item.user_properties.insert(place + 1, (SUBTEST, _subtest_name(report)))
    item.stash[_FALLEN] = left


def _subtest_name(report: Any) -> str:
    """Return what pytest shows of a subtest: "[reads] (iops=3000)"."""
    words = [f"[{report.context.msg}]"] if report.context.msg is not None else []
    if report.context.kwargs:
        words.append(f"({', '.join(f'{name}={value}' for name, value in report.context.kwargs.items())})")
    return " ".join(words) or "(<subtest>)"


# Reading ----------------------------------------------------------------------------------------------


class JudgedPromise:
    """A verdict as strings; unknown parts are empty. ``xfailed`` is True if its test failed as expected."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        self.parts: dict[str, str] = {}
        self.xfailed = False

    @property
    def outcome(self) -> str:
        """The outcome's word; XFAILED in place of violated and inconclusive if the test was expected to fail."""
        word = self.parts.get(OUTCOME) or self.sentence.partition(":")[0]
        return XFAILED if self.xfailed and word != "held" else word

    @property
    def promised(self) -> str:
        """The promise in few words: "80,000 IOPS", "capped by 2,264.98 MiB/s", "steady within 5 %"."""
        promise, asked = self.parts.get(PROMISE, ""), self.parts.get(ASKED, "")
        claim = next((claim for claim in _CLAIMS if promise.startswith(f"{claim} ")), None)
        if claim is None or not asked:
            return promise or asked
        share = promise.rpartition(" for ")[2] if promise.endswith(" of the time") else ""
        words = [*([claim] if claim != _CLAIMS[0] else []), asked, *([f"for {share}"] if share else [])]
        return " ".join(words)

    @property
    def measured(self) -> str:
        return self.parts.get(MEASURED, "")

    @property
    def subtest(self) -> str:
        """The subtest that judged: "(iops=3000)"."""
        return self.parts.get(SUBTEST, "")

    @property
    def bound_by(self) -> str:
        return self.parts.get(BOUND_BY, "")

    def note_if_passed(self) -> str:
        """Return what to add if its test passed; "" unless it is violated. A subtest may have failed by itself."""
        violated = self.outcome == "violated" and not self.subtest
        return "the test passed: no assert failed on this verdict" if violated else ""


def judged_promises(properties: Iterable[Property]) -> list[JudgedPromise]:
    found: list[JudgedPromise] = []
    for name, value in properties:
        if name == VERDICT_PROPERTY:
            found.append(JudgedPromise(str(value)))
        elif name == XFAILED_PROPERTY:
            for judged in found:
                judged.xfailed = True
        elif found and name in _PARTS:
            found[-1].parts[name] = str(value)
    return found


def texts_in(properties: Iterable[Property], name: str) -> list[str]:
    """Return the texts of the properties of this name."""
    return [str(value) for each, value in properties if each == name]


def exact_costs_in(properties: Iterable[Property]) -> list[Cost]:
    """Return what the test cost, with six decimals; nothing if unknown."""
    from pytest_cloudbench.limits.cost import Cost

    texts = [text.split(" ") for text in texts_in(properties, EXACT_COST_PROPERTY)]
    return [Cost(float(amount), currency) for amount, currency in texts]


def phase_reports(terminal: pytest.TerminalReporter, when: str) -> list[pytest.TestReport]:
    """Return the reports of all tests on one phase, "call" or "teardown", in the order in which they ran."""
    every = (report for reports in terminal.stats.values() for report in reports)
    found = [report for report in every if getattr(report, "when", None) == when and not of_subtest(report)]
    return sorted(found, key=lambda report: getattr(report, "start", 0.0))


def of_subtest(report: pytest.TestReport) -> bool:
    """Return True for the report of a subtest: it repeats the properties of its test, whose own report follows."""
    return hasattr(report, "context")


def of_cloudbench(properties: Sequence[Property]) -> bool:
    """Return whether the test requested an instance, measured or judged anything."""
    return any(_is_ours(each) for each in properties)


def _is_ours(pair: Property) -> bool:
    return str(pair[0]).startswith(_PREFIX)
