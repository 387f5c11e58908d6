"""What docs/storage.md, docs/credits.md and docs/create_files.md show is what works."""

import re
import subprocess
import sys

import pytest
from shown_tests import DOCS, shown_test

from pytest_cloudbench import gp2, gp3, io1
from pytest_cloudbench.limits.quantities import Iops
from pytest_cloudbench.workloads.create_files.creation import FileCreation


def text(name):
    return (DOCS / f"{name}.md").read_text()


def blocks(name):
    return re.findall(r"^```python\n(.*?)^```$", text(name), re.MULTILINE | re.DOTALL)


# The other one is a part of test_stops_and_local_disks.py.
test_five_striped_volumes = shown_test("storage", "test_five_striped_volumes")


@pytest.mark.embedded
@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=8))
def test_files_are_created_as_shown(ebs_volume, create_files):
    (lines,) = blocks("create_files")
    names = {"ebs_volume": ebs_volume, "create_files": create_files}
    exec(lines, names)
    assert 0 < names["run"].written_s < names["run"].on_device_s


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
