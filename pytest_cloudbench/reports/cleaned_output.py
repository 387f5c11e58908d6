"""Remove secrets from everything that a session writes: ids of tests, reports, the terminal, JUnit XML, logs.

`cleaner_of` returns the session's one cleaner, which evidence uses too. `clean_output` starts cleaning, when the first
test that uses one of this plugin's fixtures is collected; other sessions are unaffected.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cloudbench.options import CLEANED_OUTPUT, setting

if TYPE_CHECKING:
    from pytest_cloudbench.evidence.cleaner import Cleaner

_CLEANER: pytest.StashKey[Cleaner] = pytest.StashKey()
_COMPARED = (str, bytes, Mapping, list, tuple)


def cleaner_of(config: pytest.Config) -> Cleaner:
    """Return the session's cleaner. All output of the process goes through its `text`, `data` or `value`.

    With ``--cloudbench-redact`` it also replaces account ids, ARNs and public addresses. Raises EvidenceError if the
    key for that cannot be used.
    """
    if _CLEANER not in config.stash:
        # Here, because a session without a test of ours does not need it.
        from pytest_cloudbench.evidence.cleaner import Cleaner
        from pytest_cloudbench.evidence.pseudonyms import Pseudonyms, local_key

        redacts = setting(config, "redact") and not setting(config, "replay")
        config.stash[_CLEANER] = Cleaner(pseudonyms=Pseudonyms(local_key()) if redacts else None)
    return config.stash[_CLEANER]


def clean_output(config: pytest.Config, items: Iterable[pytest.Item] = ()) -> None:
    """Clean what this session writes from now on, and the ids of its tests."""
    if not cleans_output(config):
        config.pluginmanager.register(CleanedOutput(config), CLEANED_OUTPUT)
    cleaner = cleaner_of(config)
    for item in items:  # all of them first, so that every id is cleaned of every secret
        cleaner.value(dict(getattr(getattr(item, "callspec", None), "params", {})))
    _clean_ids(items, cleaner)


def cleans_output(config: pytest.Config) -> bool:
    """Return True once `clean_output` was called."""
    return bool(config.pluginmanager.hasplugin(CLEANED_OUTPUT))


class CleanedOutput:
    """A pytest plugin that removes secrets from reports before other plugins read them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._cleaner = cleaner_of(config)
        self._clean_terminal()
        self._clean_logs()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Clean a report in the process that ran the test, before it is recorded, shown or sent."""
        clean_report(report, self._cleaner)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Clean the report of a module that cannot be imported."""
        clean_report(report, self._cleaner)

    @pytest.hookimpl(tryfirst=True)
    def pytest_assertrepr_compare(
        self, config: pytest.Config, op: str, left: object, right: object
    ) -> list[str] | None:
        """Compare the values without secrets: of long ones, pytest may show too little of a secret to recognise it."""
        clean = [self._cleaner.value(each) if isinstance(each, _COMPARED) else each for each in (left, right)]
        if clean == [left, right]:
            return None
        shown = config.hook.pytest_assertrepr_compare(config=config, op=op, left=clean[0], right=clean[1])
        return next((list(lines) for lines in shown if lines), None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: Any) -> None:
        """Clean the text of a warning."""
        warning = warning_message.message
        if isinstance(warning, Warning):
            warning.args = tuple(
                self._cleaner.text(each) if isinstance(each, str) else each for each in warning.args
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Clean properties that tests gave to JUnit XML directly, before it is written."""
        for plugin in self._config.pluginmanager.get_plugins():
            pairs = getattr(plugin, "global_properties", None)
            if isinstance(pairs, list):
                pairs[:] = [(key, self._cleaner.value(value, str(key))) for key, value in pairs]
            for node in getattr(plugin, "node_reporters_ordered", ()):
                if isinstance(attributes := getattr(node, "attrs", None), dict):
                    attributes.update(self._cleaner.value(attributes))

    @pytest.hookimpl(trylast=True, optionalhook=True)
    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        """Clean what pytest-benchmark saves."""
        output_json.update(self._cleaner.value(output_json))

    def _clean_terminal(self) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            return
        writer = reporter._tw  # some write to it directly, not through the reporter
        write = writer.write

        def cleaned(msg: str, *, flush: bool = False, **markup: bool) -> None:
            # Coloured lines come from reports, which are already cleaned.
            write(msg if "\x1b" in msg else self._cleaner.text(msg), flush=flush, **markup)

        writer.write = cleaned

    def _clean_logs(self) -> None:
        """Clean the lines of --log-cli and --log-file; those of a report are cleaned with it."""
        plugin = self._config.pluginmanager.get_plugin("logging-plugin")
        for name in ("log_cli_handler", "log_file_handler"):
            handler = getattr(plugin, name, None)
            if isinstance(handler, logging.Handler) and handler.formatter is not None:
                handler.setFormatter(_CleanFormatter(handler.formatter, self._cleaner))


class _CleanFormatter(logging.Formatter):
    def __init__(self, inner: logging.Formatter, cleaner: Cleaner) -> None:
        super().__init__()
        self._inner = inner
        self._cleaner = cleaner

    def format(self, record: logging.LogRecord) -> str:
        return self._cleaner.text(self._inner.format(record))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def clean_report(report: pytest.TestReport | pytest.CollectReport, cleaner: Cleaner) -> None:
    """Remove secrets from a report: its exception, captured output and properties. Cleaning twice changes nothing."""
    report.longrepr = _cleaned(report.longrepr, cleaner)
    report.sections = [(cleaner.text(name), cleaner.text(text)) for name, text in report.sections]
    if isinstance(report, pytest.TestReport):
        report.user_properties = [
            (cleaner.text(name), cleaner.value(value, name)) for name, value in report.user_properties
        ]
        report.keywords = {cleaner.text(name): value for name, value in report.keywords.items()}
    context: Any = getattr(report, "context", None)  # of a subtest
    if dataclasses.is_dataclass(context) and not isinstance(context, type):
        fields = {field.name: getattr(context, field.name) for field in dataclasses.fields(context)}
        report.context = dataclasses.replace(context, **cleaner.value(fields))  # type: ignore[union-attr]
    reason = getattr(report, "wasxfail", None)
    if isinstance(reason, str):
        report.wasxfail = cleaner.text(reason)  # type: ignore[union-attr]


def _cleaned(value: Any, cleaner: Cleaner) -> Any:
    """Clean a representation of a failure; pytest's own objects are changed in place."""
    if isinstance(value, str):
        return cleaner.text(value)
    if isinstance(value, list | tuple):
        if value and all(isinstance(each, str) for each in value) and isinstance(value, list):
            # Lines of one text: a key may go over several.
            whole = "\n".join(value)
            return value if (clean := cleaner.text(whole)) == whole else clean.split("\n")
        if len(value) == 2 and all(isinstance(each, str) for each in value):
            return (value[0], cleaner.named(*value))  # an argument of a function, and its value
        return type(value)(_cleaned(each, cleaner) for each in value)
    if type(value).__module__.startswith("_pytest.") and hasattr(value, "__dict__"):
        fields = (
            [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
        )
        for name in {*vars(value), *fields}:
            setattr(value, name, _cleaned(getattr(value, name), cleaner))
    return value


def _clean_ids(items: Iterable[pytest.Item], cleaner: Cleaner) -> None:
    """Rename tests with a secret in a parameter; a number distinguishes those whose cleaned ids are equal.

    ``-k`` still selects them by the names that they had.
    """
    seen: Counter[str] = Counter()
    for item in items:
        nodeid = cleaner.text(item.nodeid)
        if nodeid == item.nodeid:
            continue
        seen[nodeid] += 1
        number = f"-{seen[nodeid]}" if seen[nodeid] > 1 else ""
        nodeid = _numbered(nodeid, number)
        if hasattr(item, "_id"):
            item._id = type(item._id).parse(nodeid)
        else:
            item._nodeid = nodeid  # type: ignore[attr-defined]  # before pytest 9.2
        item.extra_keyword_matches.add(item.name)
        item.name = _numbered(cleaner.text(item.name), number)


def _numbered(text: str, number: str) -> str:
    return f"{text[:-1]}{number}]" if text.endswith("]") else f"{text}{number}"
