"""Remove secrets from all that allure-pytest writes, in the logger that writes its files."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import allure_commons
import attr
from allure_commons.logger import AllureFileLogger

if TYPE_CHECKING:
    from pytest_cloudbench.evidence.cleaner import Cleaner

_NOT_HERE = (".png", ".zip")
"""Not cleaned here: pictures show only figures and short names, and the files in archives are clean already."""
_SVG_TEXT = re.compile(r"(?<=>)[^<>]*[^<>\s][^<>]*(?=<)")
"""The texts of a picture; cleaning its lines and points too would take longer than drawing them."""


def clean_results(cleaner: Callable[[], Cleaner | None]) -> None:
    """Clean every result, container and attachment before it is written, if ``cleaner`` returns one at that time."""
    manager = allure_commons.plugin_manager
    for plugin in list(manager.get_plugins()):
        if type(plugin) is AllureFileLogger:
            # The same object, because allure-pytest unregisters it at its end.
            manager.unregister(plugin)
            plugin.__class__ = CleanFileLogger
            plugin.cleaner = cleaner  # type: ignore[attr-defined]
            manager.register(plugin)


class CleanFileLogger(AllureFileLogger):
    """allure-pytest's logger, which cleans everything before writing it."""

    cleaner: Callable[[], Cleaner | None]

    @allure_commons.hookimpl
    def report_result(self, result: Any) -> None:
        super().report_result(self._clean(result))  # type: ignore[no-untyped-call]

    @allure_commons.hookimpl
    def report_container(self, container: Any) -> None:
        super().report_container(self._clean(container))  # type: ignore[no-untyped-call]

    @allure_commons.hookimpl(optionalhook=True)
    def report_globals(self, globals_item: Any) -> None:
        super().report_globals(self._clean(globals_item))  # type: ignore[no-untyped-call]

    @allure_commons.hookimpl
    def report_attached_file(self, source: str, file_name: str) -> None:
        self.report_attached_data(Path(source).read_bytes(), file_name)

    @allure_commons.hookimpl
    def report_attached_data(self, body: str | bytes, file_name: str) -> None:
        cleaner = self.cleaner()
        if cleaner is not None and not file_name.endswith(_NOT_HERE):
            if file_name.endswith(".svg"):
                text = body if isinstance(body, str) else bytes(body).decode("utf-8", "replace")
                body = _clean_picture(text, cleaner)
            else:
                body = cleaner.text(body) if isinstance(body, str) else cleaner.data(bytes(body))
        super().report_attached_data(body, file_name)  # type: ignore[no-untyped-call]

    def _clean(self, value: Any) -> Any:
        cleaner = self.cleaner()
        return value if cleaner is None else _cleaned(value, cleaner)


def _clean_picture(svg: str, cleaner: Cleaner) -> str:
    """Remove the lines of text that have a part of a secret; a long title spans several lines."""
    whole = " ".join(html.unescape(text) for text in _SVG_TEXT.findall(svg))
    clean = cleaner.text(whole)
    if clean == whole:
        return svg
    gone = "(removed: text with a secret)"
    return _SVG_TEXT.sub(lambda match: match[0] if html.unescape(match[0]) in clean else gone, svg)


def _cleaned(value: Any, cleaner: Cleaner) -> Any:
    if isinstance(value, str):
        return cleaner.text(value)
    if isinstance(value, list):
        return [_cleaned(each, cleaner) for each in value]
    if attr.has(type(value)):
        names = [field.name for field in attr.fields(type(value))]
        kept = {name: _cleaned(getattr(value, name), cleaner) for name in names}
        if {"name", "value"} <= kept.keys():  # a parameter or a label
            kept["value"] = cleaner.named(str(value.name), kept["value"])
        return type(value)(**kept)
    return value
