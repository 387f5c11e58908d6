"""What docs/storage.md, docs/credits.md and docs/create_files.md show is what works."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cloudbench import gp2, gp3, io1
from pytest_cloudbench.limits.quantities import Iops
from pytest_cloudbench.workloads.create_files.creation import FileCreation

DOCS = Path(__file__).resolve().parents[2] / "docs"


def text(name):
    return (DOCS / f"{name}.md").read_text()


def blocks(name):
    return re.findall(r"^```python\n(.*?)^```$", text(name), re.MULTILINE | re.DOTALL)


def in_a_test(lines, fixtures, marks):
    """The lines of an example as a whole test."""
    indented = "".join(f"    {line}\n" for line in lines.splitlines())
    return f"{marks}\ndef test_it({fixtures}):\n{indented}    print(run.written_s, run.on_device_s)\n"


@pytest.mark.embedded
def test_the_examples_run(tmp_path):
    """Each verdict is held, or inconclusive because of this machine: never violated, never an error."""
    stripe, local = blocks("storage")
    (files,) = blocks("create_files")
    volume = '@pytest.mark.ec2_instance("m5.large")\n@pytest.mark.ebs_volume(gp3(size_gib=8))'
    head = "import pytest\nfrom pytest_cloudbench import gp3\n\n"
    (tmp_path / "test_stripe.py").write_text(head + stripe)
    (tmp_path / "test_local.py").write_text(head + local)
    (tmp_path / "test_files.py").write_text(head + in_a_test(files, "ebs_volume, create_files", volume))
    command = [
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "--cloudbench-evidence=off",
        "--cloudbench-pace=quick",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = {word: int(number) for number, word in re.findall(r"\b(\d) (passed|skipped)", done.stdout)}
    assert sum(outcomes.values()) == 3, done.stdout
    assert len(re.findall(r"^  (held: |inconclusive: )", done.stdout, re.MULTILINE)) >= 2, done.stdout


def test_the_arithmetic_of_credits_is_as_shown():
    """Every line with a comment: what stands before it is the figure that the comment begins with."""
    rules, *specs = blocks("credits")
    names = {"gp2": gp2, "gp3": gp3, "io1": io1, "Iops": Iops}
    checked = 0
    for line in rules.splitlines():
        code, _, comment = line.partition("  # ")
        if not comment:
            exec(code, names)
            continue
        shown = float(re.match(r"[\d,.]+", comment).group().rstrip(",").replace(",", ""))
        given = eval(code, names)
        value = given.per_second if isinstance(given, Iops) else given
        assert value == pytest.approx(shown, abs=0.5), line
        checked += 1
    assert checked == 4
    assert [eval(spec, names).check().tags for spec in specs] == [
        {"cloudbench:io-unit": "16k"},
        {"cloudbench:first-touch": "0.5"},
    ]


def test_everything_that_is_said_of_a_run_of_files_exists():
    named = set(re.findall(r"`run\.(\w+)", text("create_files")))
    assert len(named) >= 10
    assert named <= {*dir(FileCreation), *FileCreation.__dataclass_fields__}


@pytest.mark.embedded
def test_data_in_a_folder_and_a_slow_start_are_said(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "test_it.py").write_text(SAID)
    command = [
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--cloudbench-evidence=off",
        f"--cloudbench-twin-backing={data}",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


SAID = """
import pytest
from pytest_cloudbench import gp3

@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=1, first_touch=0.5))
def test_it(ebs_volume, fio):
    # Each piece of 64 KiB once: where it was used already, a volume is fast.
    run = fio(ebs_volume, rw="randread", bs="64k", iodepth=16, runtime=3)
    assert any("data in a folder of the embedded region's machine" in said for said in run.conditions)
    assert any("not initialised" in said and "50 %" in said for said in run.conditions)
    assert run.throughput_mib < 125 * 0.5 * 1.05
"""
