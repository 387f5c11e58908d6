"""The recipes of docs/recipes are valid, and their shell steps do what they say. fio is a stand-in here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import recorded_runs

yaml = pytest.importorskip("yaml")
RECIPES = Path(__file__).resolve().parents[2] / "docs" / "recipes"
GITHUB, GITLAB = RECIPES / "github-actions.yml", RECIPES / "gitlab-ci.yml"
TEST = """
import os
from conftest import rates

def test_it(volume, fio):
    rates[:] = [float(os.environ["RATE"])]
    run = fio(volume, rw="randread", iodepth=16, runtime=60)
    assert run.reaches("1,000 IOPS")
"""
STUB = """#!/bin/sh
echo "$0 $*" >> "$STUB_LOG"
while [ $# -gt 0 ]; do
    case $1 in --output) to=$2 ;; */artifacts/*) cp "$EARLIER_ZIP" "$to" ;; esac
    shift
done
"""
"""In place of programs that talk to GitHub and GitLab."""


@pytest.mark.parametrize(("recipe", "schema"), [(GITHUB, "github-workflows"), (GITLAB, "gitlab-ci")])
def test_a_recipe_is_valid(recipe, schema):
    checker = Path(sys.executable).with_name("check-jsonschema")
    if not checker.exists():
        pytest.skip("check-jsonschema is not installed")
    transform = ["--data-transform", "gitlab-ci"] if recipe is GITLAB else []
    command = [checker, "--builtin-schema", f"vendor.{schema}", *transform, recipe]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Project:
    """A project in a folder, whose jobs run the shell steps of a recipe."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "conftest.py").write_text(recorded_runs.STANDS_IN)
        (folder / "test_it.py").write_text(TEST)
        (folder / "pytest.ini").write_text(
            "[pytest]\naddopts = -p no:cacheprovider -p no:randomly -p no:xdist\n"
        )
        (folder / "bin").mkdir()
        for name in ("gh", "curl"):
            (folder / "bin" / name).write_text(STUB)
            (folder / "bin" / name).chmod(0o755)
        self.log = folder / "log"

    def run(self, script, rate, **environment):
        """Return the exit code of a step."""
        path = os.pathsep.join(
            [str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        )
        given = {
            **os.environ, "PATH": path, "RATE": str(rate), "STUB_LOG": str(self.log),
            "PYTHONPATH": str(Path(recorded_runs.__file__).parent),
        } | environment  # fmt: skip
        done = subprocess.run(
            ["bash", "-e", "-c", script], cwd=self.folder, env=given, capture_output=True, text=True,
            timeout=100, check=False,
        )  # fmt: skip
        print(done.stdout[-3000:], done.stderr[-3000:])
        return done.returncode

    def new_job(self):
        """Leave what the next job finds: the earlier runs."""
        for name in ("evidence", "earlier"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    @property
    def said(self):
        return (self.folder / "summary.md").read_text()

    def count(self, name):
        return len(list((self.folder / name).iterdir()))


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_the_github_recipe_gates_comments_and_keeps_the_evidence(project):
    steps = yaml.safe_load(GITHUB.read_text())["jobs"]["storage-performance"]["steps"]
    scripts = {step["name"]: step["run"] for step in steps if "run" in step and step["name"] != "Install"}
    measure, show, comment, add = scripts.values()
    for rate in (3_000, 3_004, 2_997):
        assert project.run(measure, rate, ON_MAIN="true") == 0
        assert project.run(add, rate) == 0
        project.new_job()
    assert project.count("baseline") == 3
    assert project.run(measure, 2_000, ON_MAIN="false") != 0
    assert "2,000 IOPS against 3,000 IOPS in 3 earlier runs" in project.said
    assert project.count("evidence") == 1

    summary = project.folder / "step_summary"
    assert project.run(show, 0, GITHUB_STEP_SUMMARY=str(summary)) == 0
    assert summary.read_text() == project.said
    assert project.run(comment, 0, PULL_REQUEST="7") == 0
    assert "pr comment 7 --body-file summary.md" in project.log.read_text()
    for number in range(9):
        (project.folder / "baseline" / f"2025-{number}").mkdir()
    assert project.run(add, 0) == 0
    assert project.count("baseline") == 6
    assert "2025-0" not in os.listdir(project.folder / "baseline")


def test_the_gitlab_recipe_gates_comments_and_keeps_the_evidence(project):
    job = yaml.safe_load(GITLAB.read_text())["storage-performance"]
    fetch, measure = job["script"]
    keep, comment = job["after_script"]
    main = {
        "CI_DEFAULT_BRANCH": "main",
        "CI_API_V4_URL": "https://gitlab.example/api/v4",
        "CI_PROJECT_ID": "5",
    }
    earlier = project.folder / "earlier.zip"
    for rate in (3_000, 3_004, 2_997):
        assert project.run(fetch, rate, **main, EARLIER_ZIP=str(earlier)) == 0
        assert project.run(measure, rate, **main, CI_COMMIT_BRANCH="main") == 0
        assert project.run(keep, rate, **main, CI_COMMIT_BRANCH="main") == 0
        shutil.make_archive(str(earlier.with_suffix("")), "zip", project.folder, "baseline")
        shutil.rmtree(project.folder / "baseline")
        project.new_job()
    assert project.run(fetch, 0, **main, EARLIER_ZIP=str(earlier)) == 0
    assert project.count("baseline") == 3
    assert project.run(measure, 2_000, **main) != 0
    assert "2,000 IOPS against 3,000 IOPS in 3 earlier runs" in project.said

    of_request = {"CI_MERGE_REQUEST_IID": "7", "CLOUDBENCH_COMMENT_TOKEN": "secret"}
    assert project.run(comment, 0, **main, **of_request) == 0
    assert "projects/5/merge_requests/7/notes" in project.log.read_text()
