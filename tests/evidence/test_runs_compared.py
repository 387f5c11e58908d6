"""`cloudbench history` and `cloudbench compare` on recorded sessions."""

import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
import recorded_runs
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_cloudbench.cli import main
from pytest_cloudbench.reports.pages import Levels, Section, page, sparkline, svg

SVG = "{http://www.w3.org/2000/svg}"

BODY = """
import dataclasses

def test_it(volume, fio):
    rates[:] = [{rate}]
    volume = dataclasses.replace(volume, label="{label} vol-0123456789abcdef0")
    run = fio(volume, rw="randread", iodepth=16)
    assert run.reaches("1,000 IOPS")
"""


@pytest.fixture
def measure(session):
    def run(name, rate, label="gp3 10 GiB/3,000 IOPS"):
        session(
            BODY.format(rate=rate, label=label),
            f"--cloudbench-evidence=runs/{name}",
            "--cloudbench-pace=full",
        ).assert_outcomes(passed=1)

    return run


@pytest.fixture
def five_runs(measure):
    for number, rate in enumerate((3_000.0, 3_004.0, 2_997.0)):
        measure(f"a{number}", rate)
    for number, rate in enumerate((2_000.0, 2_002.0)):
        measure(f"b{number}", rate, "gp3 10 GiB/2,000 IOPS")


def test_history_names_the_run_of_a_change_and_what_changed_with_it(five_runs, capsys):
    capsys.readouterr()
    assert main(["history", "runs"]) == 0
    said = capsys.readouterr().out
    assert (
        "test_it.py::test_it: fio randread 4k [rw=randread, bs=4k, iodepth=16] (embedded, full pace)" in said
    )
    (changed,) = [line for line in said.splitlines() if line.startswith("* run ")]
    assert "33.3 % less, from 3,000 IOPS to 2,001 IOPS" in changed
    assert "changed with it: gp3 10 GiB/3,000 IOPS -> 2,000 IOPS" in changed
    assert sum("1 held" in line for line in said.splitlines()) == 5
    assert "███▆▆ 2,000 to 3,00" in said


def test_history_as_html_has_a_picture_with_the_change_marked(five_runs, pytester):
    assert main(["history", "runs", "--format=html", "--output=out.html"]) == 0
    text = (pytester.path / "out.html").read_text()
    picture = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    assert len(list(picture.iter(f"{SVG}circle"))) == 5
    assert text.count("stroke-dasharray") == 1
    texts = ["".join(each.itertext()) for each in picture.iter(f"{SVG}text")]
    assert {"IOPS", "0", "1,000", "3,000", "2,000"} <= set(texts)
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")


def test_compare_fails_for_a_run_that_is_worse(five_runs, capsys):
    capsys.readouterr()
    assert main(["compare", "runs/a0", "runs/b0", "--format=markdown"]) == 1
    said = capsys.readouterr().out
    assert "| test\\_it.py::test\\_it |" in said or "| test_it.py::test_it |" in said
    assert "| 3,000 IOPS | 2,000 IOPS | -33.3 % | violated | gp3 10 GiB/3,000 IOPS -> 2,000 IOPS |" in said
    assert main(["compare", "runs/b0", "runs/a0"]) == 0, "better is not worse"


def test_compare_of_several_runs_with_one(five_runs, capsys):
    assert main(["compare", "runs", "runs/a0", "--by=50%"]) == 0
    assert "in 2 earlier runs" in capsys.readouterr().out, "with the latest conditions, and not with itself"


def test_compare_of_two_runs_that_are_too_close_is_inconclusive(measure, capsys):
    measure("a", 3_000.0)
    measure("b", 2_950.0)
    assert main(["compare", "runs/a", "runs/b", "--by=1%"]) == 2


TWO = (
    BODY
    + """

def test_other(volume, fio):
    {other}
    fio(volume, rw="randwrite")
"""
)


@pytest.fixture
def measure_two(session):
    """Record a session of two tests; ``other`` is what the second does first."""

    def run(name, *, rate=3_000.0, other="pass", body=TWO):
        session(
            body.replace("{rate}", str(rate)).replace("{label}", "gp3").replace("{other}", other),
            *(f"--cloudbench-evidence=runs/{name}", "--cloudbench-pace=full"),
        )

    return run


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("rates[:] = [0.0]", "not measured: unlike in run "),
        ("raise OSError('crashed')", "the last earlier one: this run has no record of the test"),
        ("fio(volume, rw='read'); raise OSError", "the last earlier one: the outcome of the test is failed"),
        ("fio(volume, rw='read'); return", "the last earlier one: the test passed without it"),
    ],
)
def test_compare_with_a_run_that_measured_less_is_inconclusive(measure_two, capsys, other, said):
    for name in ("a", "b", "c"):
        measure_two(name)
    (runs := Path("old")).mkdir()
    for name in ("a", "b", "c"):
        Path("runs", name).rename(runs / name)
    measure_two("now", other=other)
    capsys.readouterr()
    assert main(["compare", "old", "runs/now", "--format=markdown"]) == 2
    shown = capsys.readouterr().out
    rows = [line for line in shown.splitlines() if line.startswith("| test")]
    assert "| held |" in rows[1], "after the heads"
    assert "| not measured |" in rows[-1]
    assert "| inconclusive |" in rows[-1]
    assert said in shown
    measure_two("worse", other=other, rate=2_000.0)
    assert main(["compare", "old", "runs/worse"]) == 1, "a regression is worse than a missing measurement"
    measure_two("whole")
    assert main(["compare", "old", "runs/whole"]) == 0


def test_compare_names_files_that_did_not_wait_for_their_device(session, capsys):
    """They have no rate to compare, in any run: that leaves the outcome to the others."""
    files = """
import dataclasses
import pytest
import recorded_runs
from workload_stand_ins import stand_in

@pytest.fixture(autouse=True)
def _files(monkeypatch):
    made = dataclasses.replace(recorded_runs.files_created(), on_device_s=None)
    stand_in(monkeypatch, "create_files", lambda target, job, *, pace, on_progress: made)

def test_files(volume, create_files, fio):
    create_files(volume, count=10, sync="none")
    fio(volume, rw="randread")
"""
    for name in ("a", "b"):
        session(files, f"--cloudbench-evidence=runs/{name}").assert_outcomes(passed=1)
    capsys.readouterr()
    assert main(["compare", "runs/a", "runs/b", "--by=50%"]) == 0
    assert capsys.readouterr().out.count("not compared: ") == 1


def test_compare_with_a_run_that_lacks_a_test(measure_two, measure, capsys):
    measure_two("a")
    measure("b", 3_000.0, "gp3")
    capsys.readouterr()
    assert main(["compare", "runs/a", "runs/b", "--by=50%"]) == 2
    assert "not measured: unlike in run " in capsys.readouterr().out


def test_compare_with_a_run_whose_measurement_was_altered(measure_two, capsys):
    measure_two("a")
    measure_two("b")
    (file,) = Path("runs/b").rglob("*test_other*/1/measurement-1.json")
    file.write_text(file.read_text() + " ")
    capsys.readouterr()
    assert main(["compare", "runs/a", "runs/b", "--by=50%"]) == 2
    said = capsys.readouterr().out
    assert said.count("not measured: ") == 1
    assert "was altered" in said


@pytest.mark.parametrize("what", ["journal.jsonl", "measurement-1.json"])
def test_history_names_what_it_leaves_out(measure_two, capsys, what):
    for name in ("a", "b", "c"):
        measure_two(name)
    Path("runs/killed/journals").mkdir(parents=True)
    (file,) = Path("runs/b").rglob(f"*test_other*/1/{what}")
    file.unlink()
    capsys.readouterr()
    assert main(["history", "runs", "--format=markdown"]) == 0
    shown, left_out = capsys.readouterr().out.split("Left out")
    assert shown.count("3,000 IOPS |") == 3 + 2
    assert "killed holds no evidence of a run" in left_out.replace("\\", "")
    assert "cannot be read" in left_out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["history", "nowhere"], "nowhere is not a folder"),
        (["history", "empty"], "no run with a measurement was found in empty"),
        (["compare", "runs", "runs"], "runs has 2 runs: name the folder of one"),
        (["compare", "runs/a", "runs/b", "--by=5"], "is not a share"),
    ],
)
def test_what_cannot_be_shown(measure, pytester, capsys, command, said):
    measure("a", 3_000.0)
    measure("b", 3_000.0)
    (pytester.path / "empty").mkdir()
    assert main(command) == 3
    assert said in capsys.readouterr().err


def test_a_single_run_has_no_picture(measure, capsys):
    measure("a", 3_000.0)
    capsys.readouterr()
    for form in ("text", "html"):
        assert main(["history", "runs", f"--format={form}"]) == 0
    said = capsys.readouterr().out
    assert "3,000 IOPS" in said
    assert "<svg" not in said
    assert "█" not in said


def test_a_job_that_keeps_its_own_rate_is_not_compared(session, capsys):
    for name, rate in (("a", 1_000.0), ("b", 999.0), ("slower", 700.0)):
        session(
            recorded_runs.OWN_RATE.format(rate=rate), f"--cloudbench-evidence=runs/{name}"
        ).assert_outcomes(passed=1)
    capsys.readouterr()
    assert main(["compare", "runs/a", "runs/b"]) == 3
    said = capsys.readouterr().err
    assert "no measurement to compare; test_it.py::test_it, " in said
    assert "not compared: mean latency 16 ms against 16 ms" in said
    assert main(["compare", "runs/a", "runs/slower"]) in (1, 2)
    assert "700 IOPS against 1,000 IOPS" in capsys.readouterr().out


def test_what_only_runs_before_the_last_one_measured_is_not_missing(measure_two, measure, capsys):
    measure_two("old/a")
    measure("old/b", 3_000.0, "gp3")
    measure("now", 3_000.0, "gp3")
    capsys.readouterr()
    assert main(["compare", "runs/old", "runs/now", "--by=50%"]) == 0
    assert "test_other" not in capsys.readouterr().out


def test_runs_of_another_pace_have_a_history_of_their_own(measure, session, capsys):
    measure("a", 3_000.0)
    session(BODY.format(rate=2_000.0, label="gp3"), "--cloudbench-evidence=runs/quick").assert_outcomes(
        passed=1
    )
    capsys.readouterr()
    assert main(["history", "runs"]) == 0
    said = capsys.readouterr().out
    assert "(embedded, full pace)" in said
    assert "(embedded, quick pace)" in said
    assert main(["compare", "runs/a", "runs/quick"]) == 3
    assert "pace full, this one quick" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_every_format_shows_every_cell_and_sentence(form):
    levels = Levels((1.0, 2.0), "MiB/s", ("2026-11-20 12:00 one", "2026-11-21 12:00 two"), (1,))
    section = Section("A | title", ("one", "two"), (("a < b", "c | d"),), ("it <fell>",), levels)
    text = page("Runs & more", [section], form)
    for words in ("title", "one", "two", "fell", "MiB/s"):
        assert words in text
    if form == "html":
        assert "a &lt; b" in text
        assert "<fell>" not in text
    if form == "markdown":
        assert "c \\| d" in text


@pytest.mark.parametrize("width", [40, 80])
def test_on_a_terminal_no_line_of_a_table_is_wider(width):
    row = ("test_storage.py::test_the_volume_reaches_its_iops", "fio randread 4k", "", "3,001 IOPS" * 6)
    section = Section("test_storage.py::test_it: fio [bs=4k, rw=randread] " * 3, ("a", "b", "c", "d"), (row,))
    text = page("Run one against run two, " * 8, [section], "text", width)
    assert max(map(len, text.splitlines())) <= width
    assert "".join(row[0].split()) in "".join(text.split()), "every cell is shown in full"
    narrow = page("A", [Section("B", ("one", "two"), (("1", "2"),))], "text", width)
    assert "one  two" in narrow


def test_pictures_of_little_data():
    assert sparkline([]) == ""
    assert sparkline([0.0]) == "▁"
    assert sparkline([1.0, 0.5]) == "█▅"


@settings(max_examples=30)
@given(
    st.lists(st.floats(0, 1e12), min_size=1, max_size=80),
    st.sets(st.integers(1, 79), max_size=3),
)
@example([5e-324], set())
def test_a_picture_has_axes_and_every_change_has_its_figure(values, changes):
    found = tuple(sorted(change for change in changes if change < len(values)))
    names = tuple(f"2026-11-{1 + day % 28:02} 12:{day % 60:02} run-{day}" for day in range(len(values)))
    picture = ElementTree.fromstring(svg(Levels(tuple(values), "IOPS", names, found), "none & <all>"))
    texts = ["".join(each.itertext()) for each in picture.iter(f"{SVG}text")]
    assert "IOPS" in texts
    assert "0" in texts, "the axis begins at zero"
    assert texts.count("2026-11-01") >= (len(values) == 1)
    circles = list(picture.iter(f"{SVG}circle"))
    assert len(circles) == len(values)
    assert all(
        0 <= float(each.get(at)) <= most for each in circles for at, most in (("cx", 860), ("cy", 210))
    )
    bold = [float(each.get("x")) for each in picture.iter(f"{SVG}text") if each.get("font-weight")]
    assert all(later - at >= 89.9 for at, later in pairwise(sorted(bold))), "figures do not overlap"
    if found:
        assert float(circles[found[0]].get("cx")) in bold
