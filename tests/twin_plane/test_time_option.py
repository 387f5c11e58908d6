"""`serve --time FACTOR --latency MODE`: the region reports both, or why a value is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pytest_cloudbench.twin.__main__ import main

SERVE = [sys.executable, "-m", "pytest_cloudbench.twin", "serve"]


@pytest.mark.embedded
@pytest.mark.skipif(os.geteuid() != 0, reason="starts the region itself, as root")
@pytest.mark.parametrize(
    ("arguments", "factor", "latency"),
    [([], 1.0, "ebs"), (["--time", "60", "--latency", "none"], 60.0, "none")],
)
def test_the_ready_line_has_factor_and_latency(arguments, factor, latency):
    process = subprocess.Popen([*SERVE, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        ready = json.loads(process.stdout.readline())
        assert (ready["time_compression"], ready["latency"]) == (factor, latency)
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
        process.stdout.close()


@pytest.mark.parametrize("factor", ["0", "0.5", "3601", "fast", "nan"])
def test_an_invalid_factor_is_refused_before_anything_is_made(factor, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--time", factor])
    assert ended.value.code == 2
    assert f"argument --time: invalid time factor '{factor}'" in capsys.readouterr().err


def test_an_unknown_latency_is_refused_before_anything_is_made(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--latency", "aws"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "argument --latency: invalid choice: 'aws'" in said
    assert "ebs" in said
    assert "none" in said
