"""What the README prints is what works."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.embedded
@pytest.mark.alone
def test_the_example_runs(tmp_path):
    """Each verdict is held, or inconclusive because of this machine: never violated, never an error."""
    example, _ = blocks("python")
    (tmp_path / "test_example.py").write_text(example)
    # Time goes twice as fast as on the page, so that the burst takes 15 s.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "--cloudbench-twin-time=120"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^  (held: |inconclusive: )", done.stdout, re.MULTILINE)) >= 3, done.stdout
    if "skipped" not in done.stdout:
        assert "c5.18xlarge EBS throughput" in done.stdout


def test_the_example_on_a_host_is_the_one_of_its_page():
    """That page's tests run it."""
    _, example = blocks("python")
    assert example in (ROOT / "docs" / "hosts.md").read_text()


def test_the_two_commands_install_the_same_and_end_in_their_environments():
    commands = [line for block in blocks("sh") for line in block.splitlines() if "tox" in line]
    assert [command.split()[-1] for command in commands] == ["scenarios", "tests"]
    first, second = (command.removesuffix(command.split()[-1]) for command in commands)
    assert first == second
    packages = re.search(r"apt-get install -y ([a-z0-9 -]+) &&", first).group(1).split()
    ci = (ROOT / ".ci" / "run").read_text()
    assert [package for package in packages if package not in ci.split()] == []


def test_every_option_the_readme_names_exists():
    from pytest_cloudbench.options import OPTIONS

    named = set(re.findall(r"--cloudbench-[a-z-]+", README))
    assert named <= {option.flag for option in OPTIONS}
