"""Hooks and options of the pytest plugin, and nothing else.

Nothing heavy is imported here, so that a session without cloudbench fixtures starts as fast as without the plugin.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from importlib import import_module
from typing import Any

import pytest

from pytest_cloudbench.options import (
    CLEANED_OUTPUT,
    OF_A_TEST,
    OPTIONS,
    check_settings_at_start,
    cloud_in_use,
    find_provider,
    load_project_limits,
    modelled_latency,
    option_given,
    option_source,
    pace,
    path_option,
    setting,
    time_compression,
    weather,
)

MARKERS = (
    "ec2_instance(type, *, zone=None, image=None, user=None, commands=(), limits=None, bandwidth_weighting='default', "
    "ena_express=False, or_types=(), spot=False, capacity_reservation=None, tenancy=None, security_group=None, "
    "scope='function'): the EC2 instance that the ec2_instance fixture launches; tests of a scope 'class', 'module' or "
    "'session' share it; limits=recorded_limits(...) states EBS limits instead of the "
    "type's own, or_types are launched if there is no room for the type; ec2_instance(id=..., destructive=False), or "
    "tag={...} or terraform='...' in place of id, is an instance that is there already, of which nothing is changed",
    "ec2_pair(client_type, server_type=None, *, placement=None, zones=None, ...): the two EC2 instances that the "
    "ec2_pair fixture launches, to measure the network between them; placement='cluster' puts them into a placement "
    "group; further arguments are those of ec2_instance, for both",
    "ebs_volume(spec, *, zone=None, card=None, scope='function'): the EBS volume that the ebs_volume fixture creates "
    "and attaches to ec2_instance; card=1 names one of the EBS cards of a type that has several; (id=..., "
    "destructive=False) is a volume that is there already, on its instance; terraform='...' names one too",
    "ebs_volumes(spec, *, count, zone=None, card=None, scope='function'): the EBS volumes that the ebs_volumes fixture "
    "creates and attaches to ec2_instance, side by side, spread evenly over its EBS cards",
    "host(name=None, *, group=None, limits=None): which of --cloudbench-hosts the host fixture is, else the first; "
    "limits=recorded_limits(...) states what its storage and network can do",
    "host_pair(client=None, server=None, *, group=None, limits=None): which two of --cloudbench-hosts the host_pair "
    "fixture is, the first two by default",
    "cloudbench_report(*, epic=None, feature=None, story=None, severity=None): how an Allure report files the test",
    "cloudbench_repeats(number, on='fresh'): the test runs so many times, on fresh hardware or on='same', in turn with "
    "the repeats of other tests, and one verdict is drawn over all of them",
    "full_pace: the test, or the parameter, runs at full pace only; at quick pace it is deselected",
)

_OF_HARDWARE = frozenset({"ec2_instance", "ec2_pair", "ebs_volume", "ebs_volumes"})
"""Fixtures that are configured by markers, or by parameters."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup(
        "cloudbench", "cloudbench: cloud performance promises (each is an ini setting too)"
    )
    for option in OPTIONS:
        if option.switch:
            group.addoption(option.flag, default=None, action="store_const", const="on", help=option.help)
        else:
            group.addoption(
                option.flag,
                default=None,
                choices=option.choices,
                metavar=option.shown_value,
                help=option.help,
                **({"action": "append"} if option.repeated else {}),
            )
        parser.addini(option.ini, f"default of {option.flag}", default=option.default)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the hooks for reports and providers."""
    pluginmanager.add_hookspecs(import_module("pytest_cloudbench.hookspecs"))


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if option_given(config, "evidence", "sign", "redact", "replay"):
        from pytest_cloudbench.session.session import check_settings

        check_settings(config)
    find_provider(config)
    load_project_limits(config)
    time_compression(config)  # report impossible settings before anything is collected
    modelled_latency(config)
    weather(config)
    check_settings_at_start(config)
    if option_given(config, "jump", "proxy-command", "host-key"):
        from pytest_cloudbench.fixtures.ways_in import read_ways_in

        read_ways_in(config)
    from pytest_cloudbench.fixtures import fixtures, lifetimes, workers
    from pytest_cloudbench.reports import properties

    config.pluginmanager.register(fixtures, "cloudbench-fixtures")
    config.pluginmanager.register(lifetimes, "cloudbench-lifetimes")
    config.pluginmanager.register(workers, "cloudbench-workers")
    config.pluginmanager.register(properties, "cloudbench-properties")
    _add_to_reports(config)
    if option_given(config, "summary"):
        _write_summary(config)
    if option_given(config, "prices", "plan", "max-cost") or setting(config, "cloud") == "aws":
        from pytest_cloudbench.fixtures import spending

        spending.configure(config)
    if option_given(config, "ahead"):
        from pytest_cloudbench.fixtures import upcoming

        upcoming.configure(config)
    if option_given(config, "keep-failed", "replay"):
        from pytest_cloudbench.fixtures import keep_failed

        keep_failed.configure(config)
    from pytest_cloudbench.fixtures import hosts

    hosts.configure(config)
    if option_given(config, "baseline", "regression"):
        _compare_with_baseline(config)


def _write_summary(config: pytest.Config) -> None:
    """Write a summary of the run to a file at its end. A path that cannot be written is refused now."""
    if hasattr(config, "workerinput"):
        return  # the controller receives every report
    from pytest_cloudbench.reports.summary_file import SummaryFile, SummaryRefused
    from pytest_cloudbench.reports.summary_table import COST_HEAD, WOULD_HEAD

    where = "replay" if option_given(config, "replay") else cloud_in_use(config)
    try:
        summary = SummaryFile(
            path_option(config, "summary"),
            about=f"pytest-cloudbench: cloud {where}, {pace(config)} pace",
            cost_head=WOULD_HEAD if where == "embedded" else COST_HEAD,
        )
    except SummaryRefused as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(summary, "cloudbench-summary")


def _compare_with_baseline(config: pytest.Config) -> None:
    """Compare what tests measure with earlier runs. A baseline that is not comparable is refused now."""
    if not option_given(config, "baseline"):
        if option_source(config, "regression") == "command line":
            raise pytest.UsageError(
                "--cloudbench-regression compares with earlier runs: name them with --cloudbench-baseline=PATH"
            )
        return  # in the ini file it applies to every run with a baseline
    from pytest_cloudbench.session.gate import open_gate

    open_gate(config)


def _add_to_reports(config: pytest.Config) -> None:
    """Add measurements to the reports of other plugins that are active."""
    if config.getoption("allure_report_dir", None):
        from pytest_cloudbench.reports.allure.report import join_allure

        join_allure(config, lambda: _run_facts(config))
    if config.getoption("htmlpath", None):
        from pytest_cloudbench.reports import html_report

        config.pluginmanager.register(html_report, "cloudbench-html")
    if config.pluginmanager.hasplugin("benchmark"):
        from pytest_cloudbench.reports.benchmark.table import join_benchmark

        join_benchmark(config)


def _run_facts(config: pytest.Config) -> dict[str, str]:
    """Return the facts of the whole run for a report."""
    replayed = ""
    if option_given(config, "replay"):
        from pytest_cloudbench.session.session import header

        # Without the folder, whose path is valid only on this machine.
        replayed = "run " + (header(config) or "").partition(": run ")[2]
    return {"cloud": cloud_in_use(config), "pace": pace(config), "replayed": replayed}


@pytest.hookimpl(tryfirst=True)
def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Give specs and quantities ids that ``-k`` can select, such as io2-100GiB-5000iops."""
    if not type(val).__module__.startswith("pytest_cloudbench."):
        return None
    if isinstance(test_id := getattr(val, "test_id", None), str):
        return test_id
    if type(val).__module__ == "pytest_cloudbench.limits.quantities":
        return str(val).replace(",", "").replace(" ", "").replace("/", "p")
    return None


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test that is to run several times."""
    repeated = metafunc.definition.get_closest_marker("cloudbench_repeats") is not None
    if repeated or option_given(metafunc.config, "repeats"):
        from pytest_cloudbench.fixtures.repeats import repeat

        repeat(metafunc)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class) -> Generator[None, Any, Any]:
    """After all repeats of a test, add an item that judges them together; remove secrets from the ids of tests.

    Once a test that uses our fixtures is collected, everything that the session writes is cleaned. Ids are changed
    here, before pytest compares them with those of the tests that failed last.
    """
    made = yield
    if "pytest_cloudbench.fixtures.repeats" in sys.modules:
        from pytest_cloudbench.fixtures.repeats import with_judge

        made = with_judge(collector, made)
    # All items are of one function, so the first is enough.
    if isinstance(made, list) and made and _uses_our_fixtures(made[0]):
        from pytest_cloudbench.reports.cleaned_output import clean_output

        clean_output(collector.config, made)
    return made


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove secrets from the ids of the other tests too; deselect at quick pace the tests marked for full pace."""
    if config.pluginmanager.hasplugin(CLEANED_OUTPUT):
        from pytest_cloudbench.reports.cleaned_output import clean_output

        clean_output(config, items)
    kept = [item for item in items if item.get_closest_marker("full_pace") is None]
    if len(kept) == len(items) or pace(config) == "full":
        return
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("full_pace")])
    items[:] = kept


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check the test's markers before any fixture is set up, so that a bad one costs nothing."""
    if not _OF_HARDWARE.isdisjoint(getattr(getattr(item, "callspec", None), "params", ())):
        from pytest_cloudbench.fixtures.parametrized import check_indirect

        check_indirect(item)
    if "ec2" in getattr(item, "fixturenames", ()):
        from pytest_cloudbench.fixtures import fixtures

        fixtures.read_request(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Drop what a test held, such as its hardware and measurements, once it has ended and was reported."""
    try:
        return (yield)
    finally:
        for key in OF_A_TEST:
            if key in item.stash:
                del item.stash[key]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show our own errors, and verdicts that fail a test, as one sentence; --full-trace shows all frames.

    A failed assertion of a test, or of a subtest, about what it measured is reported as a violated promise.
    """
    if call.excinfo is None or isinstance(call.excinfo.value, pytest.skip.Exception):
        return (yield)
    from pytest_cloudbench.reports.errors_shown import shorten_error, shorten_report

    failed = call.excinfo.value
    shorten_error(item, call)
    if (
        call.when == "call" and isinstance(failed, AssertionError) and item.user_properties
    ):  # it may have measured
        from pytest_cloudbench.reports.asserted import report_violated

        report_violated(item, failed)
    report = yield
    shorten_report(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Skip a test for its inconclusive verdict if the options say so; else the verdict fails it."""
    try:
        return (yield)
    except AssertionError as failure:
        verdict = getattr(failure, "verdict", None)
        if verdict is not None and _skips(item.config, verdict.machine_limited):
            from pytest_cloudbench.reports.properties import add_undecided

            counts = add_undecided(item)
            others = f" (of this test's promises: {counts})" if "," in counts else ""
            # Report the test's own line, not this one.
            raise pytest.skip.Exception(f"{verdict}{others}", _use_item_location=True) from None
        raise


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the run that a replay replays, and the runs that this one is compared with."""
    lines: list[str | None] = []
    if option_given(config, "replay"):
        from pytest_cloudbench.session.session import header

        lines.append(header(config))
    if option_given(config, "baseline"):
        from pytest_cloudbench.session.gate import header_of

        lines.append(header_of(config))
    return [line for line in lines if line]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Let the workers of pytest-xdist write to one evidence folder, and know how tests are distributed."""
    from pytest_cloudbench.fixtures import repeats
    from pytest_cloudbench.session.session import send_to_worker

    send_to_worker(node)
    repeats.send_to_worker(node)
    if "pytest_cloudbench.session.gate" in sys.modules:
        from pytest_cloudbench.session import gate

        gate.send_to_worker(node)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Complete the evidence after every fixture is torn down and every worker has ended."""
    if "pytest_cloudbench.session.session" in sys.modules:
        from pytest_cloudbench.session.session import finish

        finish(session)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List every verdict with its sentence, held ones too, and report where the evidence is."""
    if any(
        getattr(report, "user_properties", ())
        for every in terminalreporter.stats.values()
        for report in every
    ):
        from pytest_cloudbench.reports.summary import write_verdicts

        write_verdicts(terminalreporter)
    if "pytest_cloudbench.session.session" in sys.modules:
        from pytest_cloudbench.session.session import write_lines

        write_lines(terminalreporter)


def _uses_our_fixtures(item: pytest.Item) -> bool:
    """Return True if the test uses a fixture that this package defines, itself or through `workload_fixture`."""
    known: dict[str, Any] = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return any(
        str(each.func.__module__).startswith("pytest_cloudbench.")
        for definitions in known.values()
        for each in definitions
    )


def _skips(config: pytest.Config, machine_limited: bool) -> bool:
    wanted = setting(config, "inconclusive")
    if wanted:
        return wanted == "skip"
    return machine_limited and setting(config, "cloud") == "embedded"
