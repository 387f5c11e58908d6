"""The evidence of a session: its options are checked before anything runs, and it is completed at the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cloudbench.evidence.folder import (
    JOURNALS,
    MAIN,
    RUN,
    EvidenceError,
    new_run_id,
)
from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.options import OPTIONS, options_in_force, path_option, setting
from pytest_cloudbench.reports.properties import OTHERWISE_PROPERTY, phase_reports, texts_in

if TYPE_CHECKING:
    from pytest_cloudbench.evidence.recorder import Recorder

OFF = "off"
RECORDER_PLUGIN = "cloudbench-recorder"
"""Name under which a recording is registered with pytest."""
_OF_THE_REPLAY = (
    *("evidence", "sign", "replay", "progress", "inconclusive", "summary", "prices"),
    *("baseline", "regression", "plan", "max-cost", "ahead", "keep-failed", "redact"),
)
"""Options that a replay does not take from the recording."""
_WORKER_KEY = "cloudbench_evidence"

_RUN_ID: pytest.StashKey[str] = pytest.StashKey()
_FOLDER: pytest.StashKey[Path | None] = pytest.StashKey()
_LINES: pytest.StashKey[list[tuple[str, bool]]] = pytest.StashKey()


def run_id_of(config: pytest.Config) -> str:
    """Return the id of this run, which all workers of pytest-xdist share."""
    if _RUN_ID not in config.stash:
        given = _from_controller(config).get("run")
        config.stash[_RUN_ID] = str(given) if given else new_run_id()
    return config.stash[_RUN_ID]


def part_of(config: pytest.Config) -> str:
    """Return the name of this process within the run: "main", or with pytest-xdist the worker's name."""
    worker = getattr(config, "workerinput", {}).get("workerid")
    return str(worker) if worker else MAIN


def evidence_folder(config: pytest.Config) -> Path | None:
    """Return the folder for this run's evidence, without creating it; None if evidence is off."""
    if _FOLDER not in config.stash:
        config.stash[_FOLDER] = _folder(config)
    return config.stash[_FOLDER]


def replayed_folder(config: pytest.Config) -> Path | None:
    """Return the evidence that this session replays; None if it is not a replay."""
    return path_option(config, "replay") if setting(config, "replay") else None


def signing_key(config: pytest.Config) -> Path | None:
    """Return the key that signs the evidence; None if it is not signed."""
    return path_option(config, "sign") if setting(config, "sign") else None


def check_settings(config: pytest.Config) -> None:
    """Raise pytest.UsageError, before anything runs, for evidence that cannot be written, signed or replayed."""
    if hasattr(config, "workerinput"):
        return  # the controller has checked them
    try:
        if (replayed := replayed_folder(config)) is not None:
            _restore_options(config, Evidence(replayed).run.get("options", {}))
            return
        folder, key = evidence_folder(config), signing_key(config)
        if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise EvidenceError(
                f"{folder} exists already, and evidence is never overwritten: give another folder, or one with "
                f"{RUN} in its name, which stands for the run id"
            )
        if setting(config, "redact") and folder is not None:
            from pytest_cloudbench.evidence.pseudonyms import local_key

            local_key()
        if key is not None and folder is not None:
            from pytest_cloudbench.evidence.signature import check_can_sign

            check_can_sign(key)
    except EvidenceError as error:
        raise pytest.UsageError(str(error)) from None


def _restore_options(config: pytest.Config, recorded: Mapping[str, str]) -> None:
    """Set the recorded options in a replay, except those that the command line sets."""
    for option in OPTIONS:
        value = recorded.get(option.name)
        if value and option.name not in _OF_THE_REPLAY and config.getoption(option.flag) is None:
            setattr(config.option, option.flag.removeprefix("--").replace("-", "_"), value)


def header(config: pytest.Config) -> str | None:
    """Return the header line of a replay; None if the session is not one."""
    replayed = replayed_folder(config)
    if replayed is None:
        return None
    evidence = Evidence(replayed)
    run = evidence.run
    where = ", ".join(dict.fromkeys(f"{each['label']} {each['region']}" for each in evidence.clouds))
    by = run.get("by", {})
    unfinished = "" if evidence.finished else "; that run was not finished"
    return (
        f"cloudbench replays {replayed}: run {run['run']} of {evidence.began[:16].replace('T', ' ')} UTC by "
        f"{by.get('user')} on {by.get('host')}{f', measured in {where}' if where else ''}{unfinished}"
    )


def send_to_worker(node: Any) -> None:
    """Send a worker of pytest-xdist the run's id and folder, so that all workers write to the same one."""
    folder = evidence_folder(node.config)
    node.workerinput[_WORKER_KEY] = {
        "run": run_id_of(node.config),
        "folder": str(folder) if folder is not None else None,
    }


def new_recorder(config: pytest.Config, folder: Path) -> Recorder:
    """Create this process's recorder. It writes nothing until its first entry."""
    from pytest_cloudbench.evidence.recorder import RECORDER, Recorder
    from pytest_cloudbench.reports.cleaned_output import cleaner_of

    recorder = Recorder(
        config,
        folder,
        run_id=run_id_of(config),
        part=part_of(config),
        options=options_in_force(config),
        cleaner=cleaner_of(config),
    )
    config.stash[RECORDER] = recorder
    return recorder


def finish(session: pytest.Session) -> None:
    """End this process's part of the evidence; the main process seals the whole, with checksums and signature."""
    config = session.config
    folder = config.stash.get(_FOLDER, None)
    records = config.pluginmanager.hasplugin(RECORDER_PLUGIN)
    if folder is None or not (records or (folder.is_dir() and any(folder.iterdir()))):
        return
    from pytest_cloudbench.evidence.finish import finish_run
    from pytest_cloudbench.evidence.journal import read_journals
    from pytest_cloudbench.evidence.recorder import recorder_of

    recorder = recorder_of(config)
    if recorder is None or not recorder.opened:
        if hasattr(config, "workerinput") or not folder.is_dir():
            return
        # The controller, which records nothing itself.
        recorder = new_recorder(config, folder)
    lines = config.stash.setdefault(_LINES, [])
    text = recorder.cleaner.text
    try:
        journal = recorder.end()
        if recorder.part != MAIN:
            journal.close()
            return
        if not any(part.all("begin") for part in read_journals(recorder.root / JOURNALS).values()):
            journal.close()
            recorder.folder.discard()
            return
        finished = finish_run(recorder.root, journal, sign=signing_key(config))
    except (EvidenceError, OSError) as error:
        lines.append((f"cloudbench evidence in {recorder.root} is incomplete: {text(str(error))}", False))
        if session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return
    finally:
        recorder.folder.unlock()
    lines.append((f"cloudbench {finished.summary(config.invocation_params.dir)}", True))
    lines.extend((f"cloudbench evidence is incomplete: {text(each)}", False) for each in finished.trouble)


def write_lines(terminal: pytest.TerminalReporter) -> None:
    """Report at the end where the evidence is, what it lacks, and which verdicts a replay changed."""
    for report in phase_reports(terminal, "call"):
        for text in texts_in(report.user_properties, OTHERWISE_PROPERTY):
            terminal.write_line(f"{report.nodeid}: {text}", yellow=True)
    for line, good in terminal.config.stash.get(_LINES, ()):
        if not good or terminal.verbosity >= 0:
            terminal.write_line(line, **({} if good else {"red": True}))


def _folder(config: pytest.Config) -> Path | None:
    given = _from_controller(config)
    if given:
        return Path(given["folder"]) if given["folder"] else None
    wanted = setting(config, "evidence")
    if wanted in (OFF, ""):
        return None
    return path_option(config, "evidence", wanted.replace(RUN, run_id_of(config)))


def _from_controller(config: pytest.Config) -> dict[str, Any]:
    found: dict[str, Any] = getattr(config, "workerinput", {}).get(_WORKER_KEY, {})
    return found
