"""Type checkers in a user's project: known options are typed, misspelt ones are errors."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent.parent
RIGHT = """
from pytest_cloudbench import (
    SQLIO, CreateFilesCall, Curve, FioCall, Iperf3Call, Measurement, Pair, SweepCall, Volume, cloudbench_all_of,
)


def test_storage(ebs_volume: Volume, fio: FioCall) -> None:
    run: Measurement = fio(ebs_volume, rw="randread", bs="4k", iodepth=16, numjobs=64, runtime=300, rate_iops=4_000)
    assert run.reaches(ebs_volume.iops)
    fio(ebs_volume, rw="read", size="500m", options={"norandommap": 1, "refill_buffers": True})
    for job in SQLIO:
        fio(ebs_volume, **job, runtime=60)
    assert run.cost < 0.50 and run.cost.per_hour
    with cloudbench_all_of():
        assert run.latency.at_most(p99="2 ms")
        run.reaches(ebs_volume.iops)


def test_network(ec2_pair: Pair, iperf3: Iperf3Call) -> None:
    run = iperf3(ec2_pair, streams=5, duration=1800, bitrate="5 Gbit/s", window="4m", dscp="ef")
    assert run.reaches("4.97 Gbit/s")
    assert run.rtt.at_most(mean="1 ms", max=0.005)


def test_the_rest(ebs_volume: Volume, create_files: CreateFilesCall, sweep: SweepCall) -> None:
    assert create_files(ebs_volume.mounted(), count=10, size="1m", workers=4, content="zero").complete
    curve: Curve = sweep(ebs_volume, "4k-random-read", threads=16, steps=(10, 50), step_time=20)
    sweep.plot(curve, to="curve")
"""
HEAD = """
from pytest_cloudbench import CreateFilesCall, FioCall, Iperf3Call, Pair, SweepCall, Volume


def test_it(
    ebs_volume: Volume, ec2_pair: Pair, fio: FioCall, iperf3: Iperf3Call, sweep: SweepCall,
    create_files: CreateFilesCall,
) -> None:
"""
WRONG = {
    'fio(ebs_volume, rw="read", iodepht=16)': "iodepht",
    'fio(ebs_volume, rw="read", iodepth="16")': "iodepth",
    "iperf3(ec2_pair, parallel=5)": "parallel",
    "iperf3(ec2_pair, streams=2.5)": "streams",
    "sweep(ebs_volume, steptime=5)": "steptime",
    "create_files(ebs_volume.mounted(), worker=2)": "worker",
}


def tutorial() -> str:
    """Return the file that a reader of the tutorial has before its last step, and the last line of that step."""
    text = (_ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    return "\n\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def mypy_errors(folder: Path) -> list[str]:
    """Check with the package's settings, which are strict, so that its own modules come from the cache."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [sys.executable, "-m", "mypy", *map(str, sorted(folder.glob("*.py")))]
    environment = {**os.environ, "MYPYPATH": "."}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=_ROOT, env=environment)
    assert done.returncode in (0, 1), done.stderr
    return [
        f"{Path(path).name}.py:{rest}"
        for path, rest in (line.split(".py:", 1) for line in done.stdout.splitlines() if ": error:" in line)
    ]


def pyright_errors(folder: Path) -> list[str]:
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(_ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [pyright, "--outputjson", f"--pythonpath={sys.executable}", "-p", "."]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    try:
        found = json.loads(done.stdout)["generalDiagnostics"]
    except ValueError:
        pytest.skip(f"pyright does not run here: {done.stderr.strip() or done.stdout.strip()}")
    return [
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in found
        if each["severity"] == "error"
    ]


@pytest.mark.parametrize("errors_of", [mypy_errors, pyright_errors])
def test_known_options_are_typed_and_misspelt_ones_are_errors(tmp_path, errors_of):
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "test_storage.py").write_text(tutorial())
    (tmp_path / "wrong.py").write_text(HEAD + "".join(f"    {call}\n" for call in WRONG))
    errors = errors_of(tmp_path)
    assert [line for line in errors if not line.startswith("wrong.py")] == []
    first = len(HEAD.splitlines()) + 1
    for number, (call, said) in enumerate(WRONG.items(), start=first):
        assert any(line.startswith(f"wrong.py:{number}:") and said in line for line in errors), (call, errors)
