"""Generate Allure's HTML report from its results with the installed Allure 3 or 2, and continue its history.

The report is one file that opens from the disk, or with ``single_file=False`` a folder for a web server. It makes no
requests: the visitor counter that both Allures put into their pages is removed, and a Content-Security-Policy in each
page forbids all other requests.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cloudbench.errors import InfrastructureError
from pytest_cloudbench.reports.allure.files import CATEGORIES
from pytest_cloudbench.reports.allure.outcome import categories

HOW_TO_INSTALL = (
    "install one: Allure 3 with `npm install --global allure` (needs Node.js 18 or later), or Allure 2 with "
    "`npm install --global allure-commandline` (needs Java 8 or later as well)"
)
_TIME_LIMIT_S = 600
_LAST_RUN = "last-run"
_VISITS = re.compile(
    r"<script[^>]*googletagmanager\.com[^>]*>\s*</script>\s*(?:<script>(?:(?!</script>).)*gtag\((?:(?!</script>).)*"
    r"</script>)?",
    re.DOTALL,
)
POLICY = (
    "default-src 'self' data: blob: file: 'unsafe-inline' 'unsafe-eval'; "
    "connect-src 'self' data: blob: file:; form-action 'none'; base-uri 'self'"
)
_POLICY_TAG = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'


class NoReport(InfrastructureError, RuntimeError):
    """A report could not be generated; the message says why and what to do."""


@dataclass(frozen=True)
class Allure:
    """An installed Allure: its command and its version."""

    command: str
    version: tuple[int, ...]

    def __str__(self) -> str:
        return f"Allure {'.'.join(map(str, self.version))} ({self.command})"


def make_report(results: Path, output: Path, *, single_file: bool = True) -> tuple[Path, Allure]:
    """Generate the report of ``results`` in ``output``. Return its page and the Allure that generated it.

    ``results`` is the folder of --alluredir, or one with "allure-results" in it. ``output`` is replaced only if it is a
    report. The history is beside it, in "NAME-history". Raises NoReport.
    """
    folder = results_in(results)
    if output.exists() and (not output.is_dir() or (any(output.iterdir()) and not _is_report(output))):
        raise NoReport(f"{output} exists and is not an Allure report: give another folder with --output")
    allure = installed_allure(near=(Path.cwd(), folder))
    history = output.with_name(f"{output.name}-history")
    history.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cloudbench-report-") as scratch:
        made = Path(scratch) / "report"
        run = _forget_same_run(folder, history)
        make = _by_allure_3 if allure.version[0] >= 3 else _by_allure_2
        make(allure, folder, made, history, single_file)
        pages = [page for page in made.rglob("index.html") if keep_on_this_machine(page)]
        if made / "index.html" not in pages:
            raise NoReport(f"{allure} succeeded but wrote no report: check the files in {folder}")
        (history / _LAST_RUN).write_text(run, "utf-8")
        shutil.rmtree(output, ignore_errors=True)
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, output)
    return output / "index.html", allure


def results_in(folder: Path) -> Path:
    """Return the folder of the results. Raises NoReport if it has none."""
    for each in (folder, folder / "allure-results"):
        if any(each.glob("*-result.json")):
            return each.absolute()
    if not folder.is_dir():
        raise NoReport(f"the folder {folder} does not exist: run `pytest --alluredir={folder}` first")
    raise NoReport(
        f"{folder} has no Allure results: run `pytest --alluredir={folder}` with allure-pytest "
        "(pip install pytest-cloudbench[allure])"
    )


def installed_allure(near: Sequence[Path] = ()) -> Allure:
    """Return the newest Allure in PATH, or in node_modules near these folders. Raises NoReport."""
    found = []
    places = [folder for path in near for folder in (path, *path.absolute().parents)]
    candidates = [str(place / "node_modules/.bin/allure") for place in places]
    for command in dict.fromkeys([shutil.which("allure"), *candidates]):
        if command and os.access(command, os.X_OK) and (version := _version(command)):
            found.append(Allure(command, version))
    if not found:
        raise NoReport(f"Allure is not installed, and is needed for the HTML: {HOW_TO_INSTALL}")
    return max(found, key=lambda allure: allure.version)


def keep_on_this_machine(page: Path) -> bool:
    """Remove the visitor counter from a page and forbid all requests. Return True if the file is a page."""
    text = page.read_text("utf-8")
    head = re.search(r"<head[^>]*>", text)
    if head is None:
        return False
    if _POLICY_TAG not in text:
        text = f"{text[: head.end()]}\n{_POLICY_TAG}{text[head.end() :]}"
    page.write_text(_VISITS.sub("", text), "utf-8")
    return True


def _forget_same_run(results: Path, history: Path) -> str:
    """Remove an earlier report of the same results from the history. Return the run's id."""
    names = "\n".join(sorted(path.name for path in results.glob("*-result.json")))
    run = hashlib.sha256(names.encode()).hexdigest()
    note, lines, before = history / _LAST_RUN, history / "history.jsonl", history / "before"
    if note.is_file() and note.read_text("utf-8") == run:
        if lines.is_file():
            kept = lines.read_text("utf-8").splitlines(keepends=True)[:-1]
            lines.write_text("".join(kept), "utf-8")
        shutil.rmtree(history / "history", ignore_errors=True)
        if before.is_dir():
            shutil.copytree(before, history / "history")
    else:
        shutil.rmtree(before, ignore_errors=True)
        if (history / "history").is_dir():
            shutil.copytree(history / "history", before)
    return run


def _is_report(folder: Path) -> bool:
    page = folder / "index.html"
    return page.is_file() and "allure" in page.read_text("utf-8", errors="replace").lower()


def _version(command: str) -> tuple[int, ...] | None:
    try:
        done = _call([command, "--version"], limit_s=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", done.stdout) if done.returncode == 0 else None
    return tuple(int(part) for part in found.groups(default="0")) if found else None


def _call(command: Sequence[str], *, limit_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=limit_s, check=False,
        stdin=subprocess.DEVNULL, env={**os.environ, "ALLURE_NO_ANALYTICS": "true"},
    )  # fmt: skip


def _by_allure_3(allure: Allure, results: Path, output: Path, history: Path, single_file: bool) -> None:
    # Allure 3 does not read categories.json, only its configuration.
    configuration = {
        "name": "Cloud performance promises",
        "output": str(output),
        "historyPath": str(history / "history.jsonl"),
        "appendHistory": True,
        "categories": {"rules": _categories(results)},
        "plugins": {
            "awesome": {"options": {"singleFile": single_file, "groupBy": ["epic", "feature", "story"]}},
            "agent": {"enabled": False},
        },
    }
    with tempfile.TemporaryDirectory(prefix="cloudbench-allure-") as scratch:
        path = Path(scratch) / "allurerc.json"
        path.write_text(json.dumps(configuration), "utf-8")
        _run(
            allure,
            ["generate", "--cwd", scratch, "--config", str(path), "--output", str(output), str(results)],
        )
    # Some versions put the page into a folder named after the plugin, if there is one plugin.
    if not (output / "index.html").exists() and (output / "awesome" / "index.html").exists():
        shutil.move(output / "awesome", output.with_name("alone"))
        shutil.rmtree(output)
        shutil.move(output.with_name("alone"), output)


def _by_allure_2(allure: Allure, results: Path, output: Path, history: Path, single_file: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="cloudbench-allure-") as scratch:
        # Allure 2 reads the history from the folder of results, which we must not change.
        copied = Path(scratch) / "results"
        shutil.copytree(results, copied, ignore=shutil.ignore_patterns("history"))
        if (history / "history").is_dir():
            shutil.copytree(history / "history", copied / "history")
        whole = Path(scratch) / "whole"
        _run(allure, ["generate", str(copied), "--output", str(whole)])
        if (whole / "history").is_dir():
            shutil.rmtree(history / "history", ignore_errors=True)
            shutil.copytree(whole / "history", history / "history")
        if single_file:  # this mode writes no history
            _run(allure, ["generate", str(copied), "--single-file", "--output", str(output)])
        else:
            shutil.move(whole, output)


def _categories(results: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads((results / CATEGORIES).read_text("utf-8"))
    except (OSError, ValueError):
        return categories()
    known = ("name", "matchedStatuses", "messageRegex", "traceRegex", "flaky")
    named = [each for each in found if isinstance(each, dict) and each.get("name")]
    return [
        {name: value for name, value in each.items() if name in known}
        for each in named
        if any(name in each for name in known[1:])
    ]


def _run(allure: Allure, arguments: Sequence[str]) -> None:
    try:
        done = _call([allure.command, *arguments], limit_s=_TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise NoReport(f"{allure} did not end within {_TIME_LIMIT_S} s") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "without output")[-1000:]
        raise NoReport(f"{allure} ended with exit code {done.returncode}: {said}")
