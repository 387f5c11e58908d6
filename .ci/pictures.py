"""Make docs/images/ from real runs on the embedded region: `python .ci/pictures.py [verdict] [burst]`.

It runs what the tutorial and the how-to guide show, and needs Chromium and the extras twin and plots.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
COLOURS = {
    "1": "font-weight:bold", "31": "color:#ff7b72", "32": "color:#7ee787", "33": "color:#e3b341", "90": "color:#8b949e",
    "92": "color:#7ee787", "94": "color:#79c0ff", "95": "color:#d2a8ff", "96": "color:#a5d6ff",
}  # fmt: skip
PAGE = """<style>body {{margin: 0; background: #161b22; color: #e6edf3; padding: 32px;
font: 28px/1.45 "DejaVu Sans Mono", monospace; white-space: pre-wrap; width: 84ch}}</style><body>{}</body>"""
DRAWING = """
from pathlib import Path

def pytest_cloudbench_measurement(item, measurement, pictures):
    for picture in pictures():
        Path(picture.name + ".png").write_bytes(picture.png)
"""


def shown(page: str) -> str:
    """Return the Python blocks of a page as one file."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return "\n\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def run(folder: Path, test_file: str, *options: str) -> str:
    """Return what pytest prints for a test file, in colour."""
    (folder / "conftest.py").write_text(DRAWING)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_storage.py").write_text(test_file)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:benchmark", "--color=yes", *options],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip
    return done.stdout


def as_page(text: str) -> str:
    """Return coloured terminal output as a page."""
    parts = re.split(r"\x1b\[([\d;]*)m", text)
    out = html.escape(parts[0])
    for codes, piece in zip(parts[1::2], parts[2::2], strict=True):
        styles = ";".join(COLOURS[code] for code in codes.split(";") if code in COLOURS)
        out += f'</span><span style="{styles}">{html.escape(piece)}'
    return PAGE.format(f"<span>{out}</span>")


def picture_of(text: str, path: Path, scratch: Path) -> None:
    sys.path.insert(0, str(ROOT / "tests" / "report_in_browser"))
    from headless_chromium import browser

    page = scratch / "terminal.html"
    page.write_text(as_page(text), encoding="utf-8")
    with browser(scratch / "profile") as chromium:
        chromium.size(1500, 200)
        chromium.open(page.as_uri())
        height = chromium.run("document.body.getBoundingClientRect().height")
        chromium.size(1500, round(height))
        chromium.screenshot(path)


def draw_verdict(folder: Path) -> None:
    tutorial = shown("tutorial").partition("    assert run.capped_by")[0]
    printed = run(folder, tutorial, "--cloudbench-evidence=off")
    lines = printed.partition("short test summary")[0].splitlines()
    [first] = (number for number, line in enumerate(lines) if " FAILURES " in line)
    picture_of("\n".join(lines[first + 1 : -1]), IMAGES / "verdict.png", folder)


def draw_burst(folder: Path) -> None:
    run(folder, shown("how-to/published-limits"), "-k", "burst", "--cloudbench-evidence=off",
        "--cloudbench-twin-time=60")  # fmt: skip
    [drawn] = folder.glob("*.png")
    (IMAGES / "burst.png").write_bytes(drawn.read_bytes())


PICTURES = {"verdict": draw_verdict, "burst": draw_burst}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        with tempfile.TemporaryDirectory() as scratch:
            PICTURES[name](Path(scratch))
