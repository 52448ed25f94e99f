"""The HTML report in a real browser: nothing on its console, every picture there, every link leads.

Needs Chromium on the PATH (Debian: `apt-get install chromium`); runs by `tox -e browser`.
"""

import shutil

import pytest

import theodolite
from theodolite.formats import html
from theodolite.reference import GPT, GPTConfig

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on the PATH"),
]


class Unscaled(GPT):
    """The reference with a scale that is wrong: a failure with a line and a script."""

    def forward(self, ids):
        return super().forward(ids) + self.embedding(ids.flip(1)).mean() * 1e-2


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    model = Unscaled(GPTConfig(vocabulary=29, width=24, layers=2, heads=4, context=32))
    report = theodolite.audit(model, budget="quick", pictures=True)
    assert report.verdict == "fail"
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(html.write(report), encoding="utf-8")
    assert file.stat().st_size < 2**20
    return file


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1280])
def test_the_page_is_whole(browser, page_file, width, scheme):
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    pictures = page.query_selector_all("figure svg")
    assert len(pictures) >= 4
    assert all(each.bounding_box()["height"] > 40 for each in pictures)
    assert all(each.get_attribute("aria-label") for each in pictures)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))
    links = page.eval_on_selector_all("a", "all => all.map(a => a.getAttribute('href'))")
    assert links
    assert all(link[1:] in ids for link in links if link.startswith("#"))
    page.close()


def test_a_chapter_opens_by_the_keyboard(browser, page_file):
    page = browser.new_page()
    page.goto(page_file.as_uri())
    summary = page.locator("details:not([open]) > summary").first
    chapter = summary.locator("..").element_handle()
    summary.focus()
    page.keyboard.press("Enter")
    assert chapter.get_attribute("open") is not None
    page.close()
