"""The audit page of an evidence folder: complete, honest about damage, and harmless whatever the evidence contains."""

import re
import shutil
from pathlib import Path

import pytest
from measured_runs import CONFTEST

from pytest_cloudbench.cli import main


@pytest.fixture(scope="module")
def page(kept):
    """The page of the intact evidence."""
    return page_of(kept)


@pytest.fixture
def altered(kept, tmp_path):
    """A copy that a test may damage."""
    return Path(shutil.copytree(kept, tmp_path / "evidence"))


def page_of(folder, *options, code=0):
    assert main(["report", "--audit", str(folder), *options]) == code
    return folder.with_name(f"{folder.name}-audit.html").read_text(encoding="utf-8")


def words_of(page):
    return re.sub(
        r"\s+", " ", re.sub(r"<[^>]*>", " ", page.partition("</style></head>")[2].replace("<wbr>", ""))
    )


def test_it_shows_promises_figures_limits_conditions_and_who_ran_it(page):
    said = words_of(page)
    for text in (
        "Audit report of run 20261122-230914-814b3838",
        "Intact: every entry and file is what the run wrote",
        "not signed: whoever can write to this folder could have replaced all of it",
        "Promises: 27 held, 3 violated, 4 inconclusive",
        "root on bench",
        "nothing here was measured on AWS",
        "time compressed 60 times",
        "pytest-cloudbench 0.1.0",
        "assert run.capped_by(ebs_volume.iops)",
        "m5.2xlarge EBS IOPS 18,750 IOPS EC2 DescribeInstanceTypes 2026-11-22",
        "SHA-256 of its manifest: ",
        "Measured: iperf3",
        "(the maximum of a sweep)",
    ):
        assert text in said, text


def test_it_needs_nothing_but_itself(page):
    assert "<script" not in page
    assert set(re.findall(r'(?:src|href)="([a-z]+:)', page)) <= {"data:"}
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in page


def test_an_altered_measurement_is_named_and_not_shown(altered):
    (measurement, *_) = altered.glob("tests/*a_burst_ends*/1/measurement-1.json")
    measurement.write_text(measurement.read_text().replace('"iops":2', '"iops":9', 1))
    said = words_of(page_of(altered, code=1))
    assert "Altered: 1 difference from what the run wrote Do not rely on this report" in said
    assert "content altered" in said
    assert re.search(r"the measurement fio of \S+ cannot be shown: .* was altered", said)
    assert "1 part of the evidence cannot be shown" in said
    assert "burst ends at 300 IOPS" in said, "the journal with the verdict is what the run wrote"


def test_of_an_altered_record_nothing_is_shown(altered):
    (journal, *_) = altered.glob("tests/*a_volume_is_capped*/1/journal.jsonl")
    journal.write_text(journal.read_text().replace("violated: 3,001 of 5,000", "held: 5,001 of 5,000"))
    said = words_of(page_of(altered, code=1))
    assert "the record of this test cannot be shown" in said
    assert "test_a_volume_is_capped: passed cannot be shown, see below" in said
    assert "5,001 of 5,000" not in said


def test_a_run_that_was_killed_is_called_unfinished(altered):
    main_journal = altered / "journals/main.jsonl"
    lines = main_journal.read_text().splitlines(keepends=True)
    main_journal.write_text("".join(lines[:-1]))
    (altered / "MANIFEST.sha256").unlink()
    said = words_of(page_of(altered, code=2))
    assert "Unfinished: the run was killed, or its last entries were removed" in said
    assert "It has no manifest." in said


def test_a_sum_that_is_known_from_elsewhere_must_fit(kept):
    said = words_of(page_of(kept, "--manifest", "0" * 64, code=1))
    assert "its sum is not 0000" in said


def test_evidence_is_never_written_to_and_nothing_is_no_evidence(kept, tmp_path, capsys):
    before = sorted(path.name for path in kept.iterdir())
    assert main(["report", "--audit", str(kept), "--output", str(kept / "audit.html")]) == 3
    assert "which must not change" in capsys.readouterr().err
    assert sorted(path.name for path in kept.iterdir()) == before
    assert main(["report", "--audit", str(tmp_path)]) == 3


def test_a_run_whose_beginning_is_gone_has_no_page(altered, capsys):
    (altered / "journals/main.jsonl").write_text("{}\n")
    assert main(["report", "--audit", str(altered)]) == 3
    said = capsys.readouterr().err
    assert "no page can be made" in said
    assert "altered" in said


def test_what_a_hostile_record_contains_is_a_gap_and_no_error(pytester):
    """A record whose chain fits, as its author can write any, with a verdict and a measurement of nonsense."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        """
        from conftest import measured
        from pytest_cloudbench.verdicts.verdict import Verdict

        def test_it(fio):
            run = fio(measured(*[3000.0] * 20), rw="randread")
            run.on_verdict(Verdict("no outcome", "held: nonsense", "reaches 1 IOPS"))
            run.on_verdict(Verdict.held("fine", details={"first": {"measured": "x"}, "second": [[[]]]}))
            fio(measured(float("nan"), -1.0, raw={"result.json": b"\\xff{"}), rw="randread")
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "--cloudbench-evidence=kept")
    said = words_of(page_of(pytester.path / "kept"))
    assert "verdict 1 cannot be shown: it is not a verdict: held: nonsense" in said
    assert "Promises: 1 held" in said
    assert said.count("Measured: fio randread 4k") == 2
    assert "tests at revision unknown: not a git repository" in said
    assert "PYTEST_CURRENT_TEST" not in said


TAGS = "body main section b p ul li h1 h2 h3 table tr th td wbr pre img dl div dt dd"
HOSTILE = "<script>alert(1)</script><img src=http://x.example onerror=alert(2)>"


def test_hostile_texts_stay_texts(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        f"""
        import pytest
        from conftest import measured

        HOSTILE = {HOSTILE!r}

        @pytest.mark.parametrize("name", [HOSTILE])
        def test_it(fio, name):
            run = fio(measured(*[3000.0] * 20, workload=HOSTILE, conditions=(HOSTILE,)), rw="randread")
            assert run.reaches("3,000 IOPS")
            assert run.iops > 9_000, HOSTILE
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "--cloudbench-evidence=kept").assert_outcomes(
        failed=1
    )
    page = page_of(pytester.path / "kept")
    body = page.partition("</head>")[2]
    assert "&lt;script&gt;" in body
    tags = set(re.findall(r"<([a-z0-9]+)", body))
    assert tags <= set(TAGS.split())
    assert set(re.findall(r'<img alt="[^"]*" src="([a-z]+:)', body)) <= {"data:"}
    assert body.count("<img") == len(
        re.findall(r'<img alt="[^"<>]*" src="data:image/svg\+xml;base64,[\w+/=]+">', body)
    )
    assert "Promises: 1 held, 1 violated" in page
