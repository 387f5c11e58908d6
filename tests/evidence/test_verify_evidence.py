"""`cloudbench verify`: intact is intact, and each way to tamper with an evidence folder is named."""

import hashlib
import json
import shutil
import subprocess

import pytest

from pytest_cloudbench.cli import main
from pytest_cloudbench.evidence.folder import EvidenceError
from pytest_cloudbench.evidence.verify import verify


def journal(folder, test="test_it_reaches"):
    (found,) = folder.glob(f"tests/*{test}*/1/journal.jsonl")
    return found


def measurement(folder, test="test_it_reaches"):
    (found,) = folder.glob(f"tests/*{test}*/1/measurement-1.json")
    return found


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def change_lines(path, change):
    path.write_bytes(b"".join(change(lines_of(path))))


def rewrite_sum(folder, path):
    """Update the file's sum in the manifest."""
    name = path.relative_to(folder).as_posix()
    manifest = folder / "MANIFEST.sha256"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    kept = [line for line in manifest.read_text().splitlines() if not line.endswith(f"  {name}")]
    manifest.write_text("".join(f"{line}\n" for line in [*kept, f"{digest}  {name}"]))


def better_figure(folder):
    path = measurement(folder)
    path.write_bytes(path.read_bytes().replace(b"3000.0", b"9000.0"))


def better_figure_with_its_sum(folder):
    better_figure(folder)
    rewrite_sum(folder, measurement(folder))


def raw_file_removed(folder):
    next(folder.glob("tests/*reaches*/1/measurement-1/result.json.gz")).unlink()


def raw_file_exchanged(folder):
    one, other = sorted(folder.glob("tests/*reaches*/1/measurement-1/*.gz"))
    one_data, other_data = one.read_bytes(), other.read_bytes()
    one.write_bytes(other_data)
    other.write_bytes(one_data)


def file_added(folder):
    (folder / "tests" / "better.json").write_text("{}")


def file_made_a_link(folder):
    path = measurement(folder)
    elsewhere = folder.parent / "elsewhere.json"
    shutil.copy(path, elsewhere)
    path.unlink()
    path.symlink_to(elsewhere)


def verdict_altered(folder):
    change_lines(journal(folder), lambda lines: [line.replace(b"held: ", b"violated: ") for line in lines])


def verdict_altered_with_its_sum(folder):
    verdict_altered(folder)
    rewrite_sum(folder, journal(folder))


def verdict_taken_out(folder):
    change_lines(journal(folder), lambda lines: [line for line in lines if b'"kind":"verdict"' not in line])


def entries_in_another_order(folder):
    change_lines(journal(folder), lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]])


def entry_put_in(folder):
    change_lines(journal(folder), lambda lines: [*lines[:2], lines[1], *lines[2:]])


def journal_cut_off(folder):
    change_lines(journal(folder), lambda lines: lines[:-2])


def journal_goes_on(folder):
    head = hashlib.sha256(lines_of(journal(folder))[-1].rstrip()).hexdigest()
    last = json.loads(lines_of(journal(folder))[-1])["entry"]
    later = {"entry": last + 1, "at": "", "kind": "verdict", "sentence": "held: all", "previous": head}
    change_lines(journal(folder), lambda lines: [*lines, json.dumps(later).encode() + b"\n"])


def last_entry_altered(folder):
    change_lines(journal(folder), lambda lines: [*lines[:-1], lines[-1].replace(b'"passed"', b'"failed"')])


def test_exchanged(folder):
    one, other = journal(folder).parent, journal(folder, "test_two_of_them").parent
    for name in sorted({path.name for path in (*one.iterdir(), *other.iterdir())}):
        for here, there in ((one, other), (other, one)):
            if (here / name).exists():
                (here / name).rename(there / f"{name}.moved")
    for folder_ in (one, other):
        for path in folder_.glob("*.moved"):
            path.rename(path.with_name(path.name.removesuffix(".moved")))


def test_removed(folder):
    shutil.rmtree(journal(folder).parent.parent)


def run_facts_altered(folder):
    main_journal = folder / "journals" / "main.jsonl"
    change_lines(main_journal, lambda lines: [lines[0].replace(b'"user":"', b'"user":"not-'), *lines[1:]])


def test_disowned(folder):
    """Remove a failed test from the run's journal."""
    change_lines(
        folder / "journals" / "main.jsonl",
        lambda lines: [line for line in lines if b"test_it_reaches" not in line],
    )


def end_removed_with_the_manifest(folder):
    change_lines(folder / "journals" / "main.jsonl", lambda lines: lines[:-1])


def manifest_removed(folder):
    (folder / "MANIFEST.sha256").unlink()


def manifest_shortened(folder):
    change_lines(
        folder / "MANIFEST.sha256", lambda lines: [line for line in lines if b"result.json" not in line]
    )


def manifest_spoilt(folder):
    (folder / "MANIFEST.sha256").write_text("nothing to see here\n")


def source_altered(folder):
    path = folder / "sources" / "main" / "test_it.py.source"
    path.write_text(path.read_text().replace("3,000", "1,000"))


TAMPERING = {
    better_figure: r"measurement-1\.json: content altered: \w{64}, not \w{64}",
    better_figure_with_its_sum: r"MANIFEST\.sha256: says \w{64} of .*measurement-1\.json, where the journal says",
    raw_file_removed: r"result\.json\.gz: missing",
    raw_file_exchanged: r"result\.json\.gz: has the content of .*series_iops\.log\.gz",
    file_added: r"tests/better\.json: added: the run wrote no such file",
    file_made_a_link: r"measurement-1\.json: replaced by a link",
    verdict_altered: r"journal\.jsonl: entry \d+ was altered: entry \d+ was written after another one",
    verdict_altered_with_its_sum: r"journal\.jsonl: entry \d+ was altered",
    verdict_taken_out: r"journal\.jsonl: (entry|entries) .* missing",
    entries_in_another_order: r"journal\.jsonl: its entries are in another order",
    entry_put_in: r"journal\.jsonl: a second entry 2 was put in",
    journal_cut_off: r"journal\.jsonl: cut off: \d+ of \d+ entries are there",
    journal_goes_on: r"journal\.jsonl: goes on after its end",
    last_entry_altered: r"journal\.jsonl: entry \d+, the last, was altered",
    test_exchanged: r"is the record of .*test_two_of_them, where that of .*test_it_reaches was",
    test_removed: r"journal\.jsonl: missing: the record of .*test_it_reaches",
    run_facts_altered: r"main\.jsonl: entry 1 was altered",
    test_disowned: r"main\.jsonl: entr.* missing",
    end_removed_with_the_manifest: r"the journal has no end of the run: entries were cut off",
    manifest_removed: r"MANIFEST\.sha256: missing",
    manifest_shortened: r"MANIFEST\.sha256: leaves out .*result\.json\.gz",
    manifest_spoilt: r"MANIFEST\.sha256, line 1, is not a sum and path",
    source_altered: r"sources/main/test_it\.py\.source: content altered",
}
for way in TAMPERING:
    way.__test__ = False


def test_unaltered_evidence_is_intact(recorded, capsys):
    assert main(["verify", str(recorded)]) == 0
    said = capsys.readouterr().out
    assert f"{recorded}: intact (2 tests, " in said
    assert "not signed" in said
    checked = subprocess.run(
        ["sha256sum", "--check", "--quiet", "MANIFEST.sha256"], cwd=recorded, check=False
    )
    assert checked.returncode == 0, "coreutils reads the manifest too"


@pytest.mark.fault("evidence", "a folder is tampered with")
@pytest.mark.parametrize("tamper", TAMPERING, ids=lambda tamper: tamper.__name__)
def test_each_way_to_tamper_is_named(recorded, capsys, tamper):
    assert len(TAMPERING) >= 10
    tamper(recorded)
    assert main(["verify", str(recorded)]) == 1
    said = capsys.readouterr().out
    assert f"{recorded}: altered, " in said
    import re

    assert re.search(TAMPERING[tamper], said), said


def test_several_differences_are_all_named(recorded):
    better_figure(recorded)
    file_added(recorded)
    raw_file_removed(recorded)
    found = verify(recorded)
    assert len(found.differences) == 3
    assert "3 differences" in str(found)


def test_all_of_it_made_anew_shows_in_the_sum_that_was_noted(recorded, capsys):
    noted = hashlib.sha256((recorded / "MANIFEST.sha256").read_bytes()).hexdigest()
    assert main(["verify", str(recorded), "--manifest", noted]) == 0
    better_figure_with_its_sum(recorded)
    assert main(["verify", str(recorded), "--manifest", noted]) == 1
    assert f"its sum is not {noted}" in capsys.readouterr().out


@pytest.mark.fault("evidence", "a run has no end")
def test_a_run_without_its_end_is_unfinished_and_never_intact(recorded, capsys):
    end_removed_with_the_manifest(recorded)
    manifest_removed(recorded)
    assert main(["verify", str(recorded)]) == 2
    said = capsys.readouterr().out
    assert "unfinished" in said
    assert f"{recorded}: intact" not in said
    better_figure(recorded)
    assert main(["verify", str(recorded)]) == 1


def test_a_folder_without_evidence_is_named(tmp_path, recorded, capsys):
    assert main(["verify", str(tmp_path)]) == 3
    assert "holds no evidence" in capsys.readouterr().err
    with pytest.raises(EvidenceError, match="nowhere does not exist"):
        verify(tmp_path / "nowhere")
