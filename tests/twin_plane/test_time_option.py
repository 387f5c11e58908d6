"""`serve --time FACTOR`: the region says its factor, or why it is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pytest_cloudbench.twin.__main__ import main
from pytest_cloudbench.twin.throttle import needs_delegated_scope

SERVE = [sys.executable, "-m", "pytest_cloudbench.twin", "serve"]


@pytest.mark.embedded
@pytest.mark.skipif(os.geteuid() != 0 or needs_delegated_scope(), reason="starts the region itself, as root")
@pytest.mark.parametrize(("arguments", "factor"), [([], 1.0), (["--time", "60"], 60.0)])
def test_the_ready_line_says_the_factor(arguments, factor):
    process = subprocess.Popen([*SERVE, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert json.loads(process.stdout.readline())["time_compression"] == factor
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
        process.stdout.close()


@pytest.mark.parametrize("factor", ["0", "0.5", "3601", "fast", "nan"])
def test_what_is_no_factor_is_refused_before_anything_is_made(factor, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--time", factor])
    assert ended.value.code == 2
    assert f"argument --time: '{factor}' is no factor of time" in capsys.readouterr().err
