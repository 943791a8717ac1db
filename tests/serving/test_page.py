"""The page at ``/`` in a real browser, as somebody uses it who has a keyboard, or a phone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from instruct_distill.reranker import Reranker
from tests.serving.server_process import KEY, Process

QUERY = "what is it"
DOCUMENTS = ["It is a test.", "Nothing of the kind, at all.", "A test, it is, and a long one. <b>bold</b>"]
_FLAGS = ["no-sandbox", "disable-gpu", "disable-background-networking", "disable-component-update"]
_FLAGS += ["disable-sync", "no-first-run"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no chromium on this machine (Debian, Ubuntu: apt install chromium)")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=[f"--{flag}" for flag in _FLAGS])
        yield started
        started.close()


class Seen:
    """A page, with the requests that it made and everything that it complained of."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))


@pytest.fixture
def seen(browser: Browser, server: Process) -> Iterator[Seen]:
    found = Seen(browser.new_page(viewport={"width": 1000, "height": 800}))
    found.page.goto(server.url)
    yield found
    assert found.complaints == []
    assert all(url.startswith(f"{server.url}/") for url in found.requests)
    found.page.close()


def give_the_key(page: Page) -> None:
    """Open the field for it by keyboard, and type."""
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type(KEY)


def test_ranked_by_keyboard_alone(seen: Seen, reranker: Reranker) -> None:
    page = seen.page
    expect(page.locator("#query")).to_be_focused()
    give_the_key(page)
    page.locator("#query").focus()
    page.keyboard.type(QUERY)
    page.keyboard.press("Tab")
    for document in DOCUMENTS:
        page.keyboard.type(document)
        page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    rows = page.locator("#results li")
    expect(rows).to_have_count(len(DOCUMENTS))

    expected = reranker.rank(QUERY, DOCUMENTS)
    texts = rows.locator("> div:last-child").all_text_contents()
    assert texts == [item.text for item in expected]  # markup is text
    bars: Any = rows.locator("progress").evaluate_all("bars => bars.map(bar => bar.position)")
    assert bars == sorted(bars, reverse=True)
    assert len(set(bars)) == len(bars)
    scores = [float(text) for text in rows.locator(".score").all_text_contents()]
    assert scores == pytest.approx([item.score for item in expected], abs=0.006)
    assert re.match(r"3 documents in \d+ ms\. Bars: .*logit", page.locator("#status").inner_text())
    expect(page.locator("#documents")).to_be_focused()  # nothing took the focus away


def test_an_example_is_picked(seen: Seen) -> None:
    give_the_key(seen.page)
    seen.page.locator("#example").focus()
    seen.page.keyboard.press("ArrowDown")
    expect(seen.page.locator("#results li")).to_have_count(5)
    assert seen.page.locator("#query").input_value() == "copy a file with its permissions"


def test_what_the_server_refuses_is_said(seen: Seen) -> None:
    page = seen.page
    page.locator("#query").fill(QUERY)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#results li")).to_have_count(0)
    page.locator("#documents").fill("one\n" * 9)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#status.bad")).to_have_text(re.compile("send one of the server's API keys"))
    give_the_key(page)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#status.bad")).to_have_text("9 documents; this server takes 8")
    # a browser writes a refused request to its console by itself; nothing else may stand there
    assert all("Failed to load resource" in message for message in seen.complaints)
    seen.complaints.clear()


def test_a_phone(seen: Seen) -> None:
    page = seen.page
    page.set_viewport_size({"width": 375, "height": 700})
    give_the_key(page)
    page.locator("#query").fill("a" * 60)
    page.locator("#documents").fill("one\n" + "word" * 20 + "\nthree words here")
    page.locator("#go").click()
    expect(page.locator("#results li")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    for name in ("#query", "#documents", "#go", "#results li progress"):
        box = page.locator(name).first.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 375


def test_fitted_probabilities_are_shown_as_such(seen: Seen) -> None:
    results = [
        {"index": 1, "relevance_score": 0.75, "logit": 2.0},
        {"index": 0, "relevance_score": 0.0004, "logit": -9.0},
    ]
    answer = {"results": results, "meta": {"relevance_score": "fitted"}}
    seen.page.route("**/v2/rerank", lambda route: route.fulfill(json=answer))
    seen.page.locator("#query").fill(QUERY)
    seen.page.locator("#documents").fill("one\ntwo")
    seen.page.keyboard.press("Control+Enter")
    expect(seen.page.locator(".score")).to_have_text(["75%", "0.04%"])
    bars = seen.page.locator("progress").evaluate_all("bars => bars.map(bar => bar.position)")
    assert bars == pytest.approx([0.75, 0.0004])
    expect(seen.page.locator("#status")).to_contain_text("the chance to beat another document")
