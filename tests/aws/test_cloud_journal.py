"""The journal: written before what it announces, locked while its run lives."""

from __future__ import annotations

import fcntl
import json

import pytest

from pytest_cloudbench.aws.errors import JournalError
from pytest_cloudbench.aws.journal import Journal, new_run_id, read_journal
from pytest_cloudbench.limits.volumes import gp3
from pytest_cloudbench.resources.errors import CloudError


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_creating_call_is_on_disk_before_it_is_sent(cloud, faults):
    seen = {}
    token_of = {
        "import_key_pair": None,
        "create_security_group": None,
        "run_instances": None,
        "create_volume": None,
    }

    def look(operation):
        def handler(**_):
            last = [
                r for r in records(cloud.journal.path) if r["record"] == "intend" and r["action"] == operation
            ]
            seen[operation] = last[-1]

        return handler

    for operation in token_of:
        camel = "".join(word.capitalize() for word in operation.split("_"))
        faults.on("before-send", camel, look(operation))
    instance = cloud.launch("t3.micro")
    volume = cloud.create_volumes([gp3(size_gib=1)], instance=instance)[0]

    assert set(seen) == set(token_of)
    assert {record["run"] for record in seen.values()} == {cloud.run_id}
    written = records(cloud.journal.path)
    kinds = [record["record"] for record in written]
    assert kinds[:2] == ["open", "bound"]
    assert (written[1]["account"], written[1]["region"]) == ("123456789012", "us-east-1")
    done = {record["token"]: record["ids"] for record in written if record["record"] == "done"}
    assert done[seen["run_instances"]["token"]] == [instance.id]
    assert done[seen["create_volume"]["token"]] == [volume.id]
    assert all("time" in record for record in written)


def test_refusals_are_resolved_and_lost_answers_are_not(tmp_path, access):
    journal = Journal.open("run-1", access, tmp_path)
    with pytest.raises(CloudError), journal.creating("create_volume", "x"):
        raise CloudError("no", code="VolumeLimitExceeded")
    assert not [one for one in journal.intentions if one.unresolved]
    with pytest.raises(CloudError), journal.creating("create_volume", "y"):
        raise CloudError("the endpoint did not answer")
    with pytest.raises(CloudError), journal.creating("create_volume", "z"):
        raise CloudError("oops", code="InternalError")
    with journal.creating("create_volume", "w") as intention:
        intention.done(["vol-1"])
    assert [one.what for one in journal.intentions if one.unresolved] == ["y", "z"]
    with journal.path.open("a") as stream:
        stream.write('{"record": "inte')
    content = read_journal(journal.path)
    assert [one.what for one in content.intentions if one.unresolved] == ["y", "z"]
    assert content.intentions[-1].ids == ("vol-1",)
    journal.finish(clean=False)
    assert journal.path.exists()


def test_a_call_whose_resources_nothing_would_remove_is_refused(tmp_path, access):
    journal = Journal.open("run-4", access, tmp_path)
    with pytest.raises(ValueError, match="create_vpc"), journal.creating("create_vpc", "x"):
        pass
    assert journal.intentions == ()
    journal.finish(clean=True)


def test_the_lock_is_held_until_the_run_ends(tmp_path, access):
    journal = Journal.open("run-2", access, tmp_path)
    with journal.path.open() as stream:
        with pytest.raises(BlockingIOError):
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(JournalError, match="already"):
            Journal.open("run-2", access, tmp_path)
        journal.finish(clean=True)
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert list(tmp_path.iterdir()) == []
    journal.finish(clean=True)


def test_without_a_journal_nothing_is_created(tmp_path, access, cloud):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="XDG_STATE_HOME"):
        Journal.open("run-3", access, tmp_path / "file" / "journal")
    with pytest.raises(JournalError, match="cannot be a run id"):
        Journal.open("../run", access, tmp_path)
    cloud.journal._stream.close()
    with pytest.raises(JournalError, match="nothing is created"):
        cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    assert cloud.ledger.remaining() == ()


def test_the_default_folder_follows_the_state_home(monkeypatch, tmp_path, access):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    journal = Journal.open(new_run_id(), access)
    assert journal.path.parent == tmp_path / "cloudbench" / "journal"
    assert journal.path.parent.stat().st_mode & 0o777 == 0o700
    assert journal.path.stat().st_mode & 0o777 == 0o600
    journal.finish(clean=True)


def test_run_ids_are_unique():
    assert len({new_run_id() for _ in range(50)}) == 50
