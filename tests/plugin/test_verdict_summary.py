"""How the verdicts at the end are broken into lines: between words on a terminal, not at all in a file."""

from types import SimpleNamespace

import pytest

from pytest_cloudbench.options import OPTIONS
from pytest_cloudbench.reports.properties import UNDECIDED_PROPERTY
from pytest_cloudbench.reports.summary import (
    CONDITION_PROPERTY,
    VERDICT_PROPERTY,
    shortcomings,
    write_verdicts,
)

HELD = "held: fell at 902 s from 9.94 Gbit/s to 2.49 Gbit/s, within 0.4 % of m5.2xlarge network baseline, 2.5 Gbit/s"
PROPERTIES = [
    (VERDICT_PROPERTY, HELD),
    (CONDITION_PROPERTY, "time compressed 60 times: 1,800 s ran in 30 s"),
    (CONDITION_PROPERTY, "2 iperf3 processes"),
]


class Terminal:
    """The part of pytest's reporter that `write_verdicts` uses."""

    verbosity = 0

    def __init__(self, *, isatty, width):
        self.isatty = isatty
        self.config = SimpleNamespace(
            get_terminal_writer=lambda: SimpleNamespace(fullwidth=width),
            getoption=lambda name, default=None: default,
            getini={option.ini: option.default for option in OPTIONS}.get,
        )
        report = SimpleNamespace(
            nodeid="test_a.py::test_it", when="call", passed=True, user_properties=PROPERTIES
        )
        self.stats = {"passed": [report]}
        self.lines = []
        self.colours = []

    def write_sep(self, _, title):
        self.lines.append(title)

    def write_line(self, line, **colour):
        self.lines.append(line)
        self.colours.append([name for name, wanted in colour.items() if wanted])


@pytest.mark.parametrize("width", [40, 80, 200])
def test_on_a_terminal_sentences_are_wrapped_between_words(width):
    terminal = Terminal(isatty=True, width=width)
    write_verdicts(terminal)
    said = terminal.lines[2:]
    assert all(len(line) <= width for line in said)
    assert " ".join(line.strip() for line in said) == (
        f"{HELD} (time compressed 60 times: 1,800 s ran in 30 s; 2 iperf3 processes)"
    )
    first = [line for line in said if not line.startswith("    ")]
    assert [line[:7] for line in first] == ["  held:", "  (time"], "continuation lines are indented further"
    green = [line for line, colour in zip(said, terminal.colours[1:], strict=True) if colour == ["green"]]
    assert " ".join(line.strip() for line in green) == HELD


def test_in_a_file_a_sentence_is_one_line():
    terminal = Terminal(isatty=False, width=40)
    write_verdicts(terminal)
    assert terminal.lines == [
        "cloudbench verdicts (embedded region, quick pace)",
        "test_a.py::test_it",
        f"  {HELD}",
        "  (time compressed 60 times: 1,800 s ran in 30 s; 2 iperf3 processes)",
    ]


@pytest.mark.parametrize(
    ("tests", "held", "said"),
    [
        (1, 0, "1 test was skipped as inconclusive: "),
        (1, 1, "1 test was skipped as inconclusive, although 1 of its promises held: "),
        (2, 1, "2 tests were skipped as inconclusive, although 2 of their promises held: "),
        (3, 0, "3 tests were skipped as inconclusive: "),
    ],
)
def test_what_skipped_tests_held_is_named_only_if_they_held_something(tests, held, said):
    undecided = (UNDECIDED_PROPERTY, "skipped, not passed: 1 inconclusive")
    properties = [*[(VERDICT_PROPERTY, HELD)] * held, undecided]
    (line,) = shortcomings([properties] * tests)
    assert line.startswith(said)


def repeats(conditions, skipped=()):
    """Reports of repeats under these conditions, one for each; some are skipped."""
    undecided = (UNDECIDED_PROPERTY, "skipped, not passed: 1 inconclusive")
    return [
        SimpleNamespace(
            nodeid=f"test_a.py::test_it[repeat {number} of {len(conditions)}]",
            when="call",
            passed=True,
            user_properties=[
                *((CONDITION_PROPERTY, each) for each in texts),
                *[undecided] * (number in skipped),
            ],
        )
        for number, texts in enumerate(conditions, 1)
    ]


@pytest.mark.parametrize("skipped", [(), (2,), (1, 2), (1, 2, 3)])
def test_a_condition_of_all_tests_is_shown_once_and_each_repeat_that_is_skipped(skipped):
    terminal = Terminal(isatty=False, width=200)
    terminal.stats["passed"] = repeats([["compressed"]] * 3, skipped)
    write_verdicts(terminal)
    assert terminal.lines.count("  skipped, not passed: 1 inconclusive") == len(skipped)
    assert sum("::test_it" in line for line in terminal.lines) == len(skipped)
    assert [line for line in terminal.lines if "compressed" in line] == ["in all tests: compressed"]


def test_repeats_under_equal_conditions_are_shown_once():
    terminal = Terminal(isatty=False, width=200)
    terminal.stats["passed"] = repeats([["warm"], ["warm"], ["cold"]])
    write_verdicts(terminal)
    assert terminal.lines[1:] == [
        "test_a.py::test_it[repeat 1 of 3]",
        "  (warm)",
        "test_a.py::test_it[repeat 3 of 3]",
        "  (cold)",
    ]
