"""What docs/sweeps.md shows is what works."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cloudbench import Mix
from pytest_cloudbench.fixtures.sweep import SweepCall
from pytest_cloudbench.workloads.sweep.named_mixes import FILE_NAME, MIXES, read_mixes
from pytest_cloudbench.workloads.sweep.plan import TIMES

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "sweeps.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)


@pytest.mark.embedded
def test_the_examples_run(tmp_path):
    """Each verdict is held, or inconclusive because of this machine: never violated, never an error."""
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    for number, example in enumerate(blocks("python")):
        (tmp_path / f"test_example_{number}.py").write_text(example)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "--cloudbench-evidence=off"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b2 (passed|skipped)|1 passed, 1 skipped", done.stdout), done.stdout
    assert len(re.findall(r"^  (held: |inconclusive: )", done.stdout, re.MULTILINE)) >= 2, done.stdout


def test_the_mix_of_the_example_can_be_read_and_made(tmp_path):
    (example,) = blocks("toml")
    path = tmp_path / FILE_NAME
    path.write_text(example)
    read = read_mixes(path)["web-shop"]
    assert f"`{FILE_NAME}`" in DOCS
    assert 'Mix.of("web-shop", {"8k": 90, "64k": 10}, read_percent=75, ...)' in DOCS
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
    section = DOCS.split("## Mixes")[1].split("##")[0].split("Every mix")[0]
    named = re.findall(r"`([^`]+)`", section)
    suffixes = [name for name in named if name.startswith("-")]
    whole = {name for name in named if not name.startswith("-")}
    whole |= {f"{name}{suffix}" for name in ("sql-like", "oracle-like") for suffix in suffixes}
    assert whole == set(MIXES)


def test_every_argument_of_the_table_exists():
    table = re.search(r"^\| \| \|\n(.*?)\n\n", DOCS, re.MULTILINE | re.DOTALL).group(1)
    named = re.findall(r"`(\w+)(?:=[^`]*)?`", "\n".join(row.split("|")[1] for row in table.splitlines()))
    known = {*SweepCall.__call__.__annotations__, *TIMES}
    assert named
    assert set(named) <= known
