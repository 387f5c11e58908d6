"""docs/gate.md quotes real verdicts and figures, and its options and commands exist."""

import ast
import math
import re
import statistics
from pathlib import Path

import pytest
from test_not_worse_than import SETUP, at_set_load, earlier, now

from pytest_cloudbench.cli import main
from pytest_cloudbench.options import OPTIONS
from pytest_cloudbench.verdicts.not_worse_than import not_worse_than
from pytest_cloudbench.verdicts.repeats import Repeat, over_repeats
from pytest_cloudbench.verdicts.run_to_run import USUAL_NOISE
from pytest_cloudbench.verdicts.verdict import Outcome

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "gate.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)


def test_its_sentences_are_those_of_verdicts():
    changed = SETUP | {"target": "gp3 500 GiB/4,000 IOPS"}
    verdicts = [
        not_worse_than(now(3_996, 4_000), earlier(6_004, 5_990, 6_011, setup=changed), by="5%"),
        not_worse_than(now(5_985), earlier(6_004, 5_990, 6_011, 6_001, 5_997, 6_003), by="5%"),
        not_worse_than(now(5_700), earlier(6_000), by="5%"),
    ]
    assert [line for block in blocks("text") for line in block.splitlines()] == [
        str(each) for each in verdicts
    ]


def row(words):
    (line,) = [line for line in DOCS.splitlines() if line.startswith(f"| {words}")]
    return [float(figure) for figure in re.findall(r"([\d.]+)(?: %)? \|", line.removeprefix(f"| {words}"))]


def half_interval(rates):
    low, high = not_worse_than(now(6_000, samples=6), earlier(*rates, samples=6)).details["interval"]
    return (high - low) / 2 * 100


@pytest.mark.parametrize(
    ("words", "noise"),
    [("±, on AWS, if runs differ by 2 %", USUAL_NOISE), ("±, if runs do not differ at all", 0.0)],
)
def test_its_table_of_intervals(words, noise):
    spread = statistics.NormalDist()
    for runs, figure in zip(row("earlier runs"), row(words), strict=True):
        # Quantiles with the wanted standard deviation in place of random rates.
        raw = [spread.inv_cdf((number + 0.5) / runs) for number in range(int(runs))]
        wanted = noise / statistics.stdev(raw) if runs > 1 else 0.0
        assert half_interval([6_000 * (1 + wanted * each) for each in raw]) == pytest.approx(figure, abs=0.06)


def test_its_intervals_of_latency():
    figures = re.search(
        r"reaches (\d+) % more with one earlier run,\s+(\d+) % with three that differ by 10 %", DOCS
    )
    for figure, earlier_ms in zip(
        figures.groups(), ([1.0], [math.exp(each) for each in (-0.1, 0, 0.1)]), strict=True
    ):
        verdict = not_worse_than(at_set_load(1.0).runs[0].run, at_set_load(*earlier_ms))
        assert round(verdict.details["interval"][1] * 100) == int(figure)


def least_loss(violated):
    """Return the least loss in per cent that is violated, to 0.1 %."""
    return next(loss / 10 for loss in range(1_000) if violated(6_000 * (1 - loss / 1_000)))


def test_its_losses_that_one_earlier_run_shows():
    one = earlier(6_000)

    def judged(rate):
        return not_worse_than(now(rate, samples=6), one, by="5%")

    single = least_loss(lambda rate: judged(rate).outcome is Outcome.VIOLATED)
    assert re.findall(r"a loss of more than (\d+) %", DOCS) == [f"{single:.0f}"]
    repeated = least_loss(
        lambda rate: (
            over_repeats([Repeat(number, judged(rate)) for number in range(6)]).outcome is Outcome.VIOLATED
        )
    )
    assert re.findall(r"then it is (\d+) %", DOCS) == [f"{repeated:.0f}"]


def test_its_options_and_commands_exist():
    known = {option.flag for option in OPTIONS}
    assert set(re.findall(r"--cloudbench-[a-z-]+", DOCS)) <= known
    for block in blocks("python"):
        ast.parse(block)
    for command in ("history", "compare"):
        assert f"cloudbench {command}" in DOCS
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0
