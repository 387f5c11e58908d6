"""What the README prints is what works, and what its pictures show."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from shown_tests import shown_blocks

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.embedded
@pytest.mark.alone
def test_the_published_limits_hold(tmp_path):
    """Each verdict is held, or inconclusive because of this machine: never violated, never an error."""
    [example] = shown_blocks("how-to/published-limits")
    (tmp_path / "test_example.py").write_text(example)
    # Time goes twice as fast as on the page, so that the burst takes 18 s.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "--cloudbench-twin-time=120"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^  (held: |inconclusive: )", done.stdout, re.MULTILINE)) >= 3, done.stdout
    if "skipped" not in done.stdout:
        assert "c5.18xlarge EBS throughput" in done.stdout


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


def test_the_readme_is_short_and_its_pictures_exist():
    assert len(README.split()) < 700
    pictures = re.findall(
        r"!\[[^]]+\]\(https://raw\.githubusercontent\.com/[\w-]+/[\w-]+/main/([^)]+)\)", README
    )
    assert len(pictures) == 2
    assert [name for name in pictures if not (ROOT / name).is_file()] == []


def test_everything_that_the_readme_installs_is_installed_by_the_tutorial_and_the_recipes():
    packages = set(re.search(r"apt-get install -y ([a-z0-9 -]+) &&", README).group(1).split())
    for name, given in (
        ("tutorial.md", ""),
        ("recipes/gitlab-ci.yml", "python3-venv"),
        ("recipes/github-actions.yml", "python3-venv sudo"),
    ):
        text = (ROOT / "docs" / name).read_text().replace("\\\n", " ")
        [installed] = re.findall(r"apt-get install -y --no-install-recommends +(.+)$", text, re.MULTILINE)
        assert set(installed.split()) == packages - set(given.split()), name
