"""What docs/sweeps.md shows is what works."""

import re

from shown_tests import DOCS, shown_test

from pytest_cloudbench import Mix
from pytest_cloudbench.fixtures.sweep import SweepCall
from pytest_cloudbench.workloads.sweep.named_mixes import FILE_NAME, MIXES, read_mixes
from pytest_cloudbench.workloads.sweep.plan import TIMES

PAGE = (DOCS / "sweeps.md").read_text()


# The other one is a part of test_sweeps.py.
test_reads_stay_under_a_millisecond = shown_test("sweeps", "test_reads_stay_under_a_millisecond")


def test_the_mix_of_the_example_can_be_read_and_made(tmp_path):
    (example,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    path = tmp_path / FILE_NAME
    path.write_text(example)
    read = read_mixes(path)["web-shop"]
    assert f"`{FILE_NAME}`" in PAGE
    assert 'Mix.of("web-shop", {"8k": 90, "64k": 10}, read_percent=75, ...)' in PAGE
    made = Mix.of(
        "web-shop",
        {"8k": 90, "64k": 10},
        read_percent=75,
        random_percent=100,
        source=read.source,
        skew=read.skew,
    )
    assert made == read


def test_every_mix_is_named():
    section = PAGE.split("## Mixes")[1].split("##")[0].split("Every mix")[0]
    named = re.findall(r"`([^`]+)`", section)
    suffixes = [name for name in named if name.startswith("-")]
    whole = {name for name in named if not name.startswith("-")}
    whole |= {f"{name}{suffix}" for name in ("sql-like", "oracle-like") for suffix in suffixes}
    assert whole == set(MIXES)


def test_every_argument_of_the_table_exists():
    table = re.search(r"^\| \| \|\n(.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL).group(1)
    named = re.findall(r"`(\w+)(?:=[^`]*)?`", "\n".join(row.split("|")[1] for row in table.splitlines()))
    known = {*SweepCall.__call__.__annotations__, *TIMES}
    assert named
    assert set(named) <= known
