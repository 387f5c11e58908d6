"""Compare a pytest session that uses no cloudbench fixture with and without the plugin."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Autoload is off so that other installed plugins do not count. -p reads the metadata of all installed packages, as
# autoload does, so both sessions have one.
WITHOUT = ["--disable-plugin-autoload", "-p", "plugin_that_does_nothing"]
WITH = ["--disable-plugin-autoload", "-p", "pytest_cloudbench.plugin"]
# Sessions of users load compiled modules; without this setting each session would compile the plugin again.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def session_s(folder: Path, options: list[str]) -> float:
    """Return the wall time of one session in ``folder``, in seconds."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    return time.perf_counter() - began


def main() -> None:
    """Run both kinds of session in turn and print their medians and the difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_nothing.py").write_text("def test_nothing():\n    assert 1 + 1 == 2\n")
        (folder / "plugin_that_does_nothing.py").touch()
        for options in (WITHOUT, WITH):
            session_s(folder, options)
        for _ in range(rounds):
            times["without"].append(session_s(folder, WITHOUT))
            times["with"].append(session_s(folder, WITH))
    without, with_plugin = (statistics.median(times[kind]) * 1000 for kind in ("without", "with"))
    paired = statistics.median(b - a for a, b in zip(times["without"], times["with"], strict=True)) * 1000
    print(
        f"without the plugin {without:.0f} ms, with it {with_plugin:.0f} ms (medians of {rounds} sessions each)"
    )
    print(f"difference {paired:+.1f} ms (median of the pairs), ratio {with_plugin / without:.3f}")


if __name__ == "__main__":
    main()
