"""A journal's chain: each change of its lines is detected, and a kill loses at most the last line."""

import json
import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.evidence.journal import Journal, read_journal


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "journal.jsonl")
    for number in range(6):
        made.add("step", {"name": f"step {number}", "text": "two\nlines"})
    yield made
    made.close()


def rewrite(journal, change):
    lines = journal.path.read_bytes().splitlines()
    journal.path.write_bytes(b"".join(line + b"\n" for line in change(lines)))
    return read_journal(journal.path)


def test_entries_are_read_in_order_with_numbers_and_times(journal):
    found = read_journal(journal.path)
    assert not found.problems
    assert not found.torn
    assert [entry["entry"] for entry in found.entries] == [1, 2, 3, 4, 5, 6]
    assert found.head == journal.head
    assert found.entries[2]["text"] == "two\nlines"
    assert all(entry["at"].endswith("+00:00") for entry in found.entries)
    assert found.last("step")["name"] == "step 5"
    assert found.last("verdict") is None


def test_an_altered_entry_is_named(journal):
    found = rewrite(journal, lambda lines: [line.replace(b"step 2", b"step X") for line in lines])
    assert found.problems == ["entry 3 was altered: entry 4 was written after another one"]


def test_an_altered_last_entry_changes_the_head(journal):
    head = journal.head
    found = rewrite(journal, lambda lines: [*lines[:-1], lines[-1].replace(b"step 5", b"step X")])
    assert not found.problems
    assert found.head != head


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:2] + lines[3:], "entry 3 is missing"),
        (lambda lines: lines[:1] + lines[3:], "entries 2 to 3 are missing"),
        (lambda lines: lines[1:], "entry 1 is missing"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "another order: 2, 1"),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], "a second entry 3 was put in"),
        (lambda lines: [*lines[:3], b"not an entry", *lines[3:]], "line 4 is not an entry"),
        (lambda lines: [*lines[:3], b'{"entry": "x", "kind": 1, "previous": 2}', *lines[3:]], "line 4 is no"),
    ],
)
def test_each_change_of_the_lines_is_named(journal, change, said):
    found = rewrite(journal, change)
    assert said in "; ".join(found.problems)


@given(st.randoms(use_true_random=False))
def test_every_change_of_a_byte_is_detected(tmp_path_factory, dice):
    path = tmp_path_factory.mktemp("journals") / "journal.jsonl"
    journal = Journal(path)
    for number in range(4):
        journal.add("step", {"name": f"step {number}"})
    journal.close()
    data = bytearray(path.read_bytes())
    place = dice.randrange(len(data))
    data[place] ^= 1 << dice.randrange(8)
    path.write_bytes(bytes(data))
    found = read_journal(path)
    assert found.problems or found.torn or found.head != journal.head


@pytest.mark.parametrize("cut", [1, 7, 60])
def test_a_truncated_line_loses_only_itself(journal, cut):
    journal.path.write_bytes(journal.path.read_bytes()[:-cut])
    found = read_journal(journal.path)
    assert found.torn
    assert not found.problems
    assert len(found.entries) == 5


def test_a_journal_is_never_overwritten(journal):
    with pytest.raises(FileExistsError):
        Journal(journal.path)
    journal.close()
    with pytest.raises(ValueError, match="closed"):
        journal.add("step", {})


def test_a_line_is_written_whole_or_not_at_all(journal, monkeypatch):
    write = os.write
    written = []

    def full(descriptor, data):
        if written:
            raise OSError(28, "No space left on device")
        written.append(write(descriptor, data[:10]))
        return written[0]

    before = journal.path.read_bytes()
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        journal.add("step", {"name": "too much"})
    monkeypatch.undo()
    assert journal.path.read_bytes() == before
    journal.add("step", {"name": "later"})
    found = read_journal(journal.path)
    assert not found.problems
    assert found.entries[-1]["name"] == "later"


def test_entries_of_many_threads_stay_whole(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    journal = Journal(tmp_path / "journal.jsonl")
    dice = random.Random(3)
    texts = ["x" * dice.randrange(5_000) for _ in range(200)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: journal.add("step", {"text": text}), texts))
    journal.close()
    found = read_journal(journal.path)
    assert not found.problems
    assert sorted(entry["text"] for entry in found.entries) == sorted(texts)
    assert json.loads(journal.path.read_text().splitlines()[-1])["entry"] == 200
