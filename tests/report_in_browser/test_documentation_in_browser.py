"""The documentation as a site, opened from the disk: its search works, and it asks for nothing from elsewhere."""

import pytest
from built_site import build_site, needs_builder
from headless_chromium import browser, installed_chromium

pytestmark = [
    needs_builder,
    pytest.mark.skipif(installed_chromium() is None, reason="Chromium is not installed"),
]
SEARCH = "document.activeElement.shadowRoot"


def test_search_works_from_the_disk_and_nothing_is_requested(tmp_path):
    site = build_site(tmp_path)
    with browser(tmp_path / "profile") as page:
        for name in ("tutorial.html", "reference/api.html", "how-to/published-limits.html", "index.html"):
            page.open((site / name).as_uri())
            page.until("[...document.images].every(each => each.complete && each.naturalWidth > 0)")
        page.run("document.querySelector('.md-search__button').click()")
        page.until(f"{SEARCH}.querySelector('input')")
        page.run(
            f"(() => {{ const input = {SEARCH}.querySelector('input'); input.value = 'weather';"
            " input.dispatchEvent(new InputEvent('input', {bubbles: true})) })()"
        )
        page.until(f"{SEARCH}.querySelector('dialog').innerText.includes('bad day')")
        assert page.asked_elsewhere == []
        assert page.errors == []
