"""The desk as people use it: in a real browser, with a real station, store and broker behind it."""

import re
from collections.abc import Callable
from http import HTTPStatus

import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.browser.conftest import PICTURES, Reviewers, awaited, doubt, succeed
from tests.integration.station.conftest import Station, waiting

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><b>\u202e\x1b[2J{{7*7}}"
PAGES = (
    "/",
    "/items",
    "/items?state=unconfirmed",
    "/items/9417",
    "/items/9417/edit",
    "/groups",
    "/items/9417/review",
    "/operations",
    "/operations/new?kind=abuse.report&all=yes",
    "/operations/reset",
    "/discarded",
    "/refusals?view=groups",
    "/refusals",
    "/fleet",
    "/audit",
    "/permissions",
)
TOO_WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")]
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 200))"""
CUT_OFF = """() => [...document.querySelectorAll(".scroll")]
    .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.innerText.slice(0, 200))"""
NAMELESS = """() => [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, summary")]
    .filter((one) => !(one.labels?.length || one.getAttribute("aria-label") || one.textContent.trim() || one.title))
    .map((one) => one.outerHTML)"""


def _decide(page: Page, button: str, reason: str) -> None:
    page.get_by_label("Why", exact=True).fill(reason)
    page.get_by_role("button", name=button, exact=True).click()


def _sent(station: Station, ticket: str) -> list[bytes]:
    """Take what waits in the work lane and return the bodies of one ticket's messages."""
    found = awaited(waiting(station.broker_url, f"{station.prefix}.work"))
    return [message.body for message in found if message.correlation_id == ticket]


def test_a_reviewer_finds_a_ticket_understands_why_it_is_here_and_replays_it(reviewers: Reviewers) -> None:
    page = reviewers.signed_in("Ana")
    figures = page.get_by_label("What needs a person")
    expect(figures).to_contain_text("oldest undecided")
    expect(figures).to_contain_text(re.compile("more than 10,000\\s*items wait"))
    page.get_by_role("link", name="Items", exact=True).click()
    page.get_by_label("Ticket or detail").fill("9417")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="9417", exact=True).click()

    runs = page.locator(".timeline li")
    expect(runs).to_have_count(4)
    expect(page.get_by_text("Not charged: it was given back before its end.")).to_be_visible()
    expect(page.get_by_text("Charged: its worker was killed for memory during this run.")).to_have_count(3)
    runs.last.get_by_text("Evidence").click()
    expect(runs.last).to_contain_text("516.0 MiB")
    runs.last.get_by_text("last lines of its log").click()
    expect(runs.last).to_contain_text("reading chunk 76")
    expect(page.get_by_label("Body as text")).to_contain_text("Grüße aus Zürich, 東京")

    _decide(page, "Replay", "the reader streams now")
    expect(page.get_by_role("status").filter(has_text="sent again")).to_be_visible()
    expect(page.get_by_text("it was replayed by Ana")).to_be_visible()
    (body,) = _sent(reviewers.station, "9417")
    assert body.decode("utf-16").startswith("2026-11-30 08:14:07 WARN")
    page.get_by_role("link", name="Audit").click()
    row = page.get_by_role("row").filter(has_text="9417")
    expect(row).to_contain_text("Ana")
    expect(row).to_contain_text("the reader streams now")


def test_the_second_of_two_reviewers_is_told_who_won_and_nothing_of_hers_is_done(
    reviewers: Reviewers, held: Callable[..., str]
) -> None:
    ticket = held()
    bobs, anas = reviewers.signed_in("Bob"), reviewers.signed_in("Ana")
    for page in (bobs, anas):
        page.goto(f"{reviewers.station.url}/items/{ticket}")
    _decide(bobs, "Discard", "a duplicate, told the client")
    expect(bobs.get_by_text("It is discarded.")).to_be_visible()
    _decide(anas, "Replay", "fixed")
    expect(anas.get_by_role("heading", name="Somebody was faster")).to_be_visible()
    expect(anas.get_by_role("alert")).to_contain_text("already discarded by Bob")
    assert _sent(reviewers.station, ticket) == []
    anas.get_by_role("link", name="Discarded").click()
    expect(anas.get_by_role("row").filter(has_text=ticket)).to_contain_text("by Bob")


def test_many_are_replayed_after_a_few_have_gone_first_and_ended_well(
    reviewers: Reviewers, held: Callable[..., str], station: Station
) -> None:
    tickets = [held(kind="canary.test") for _ in range(4)]
    page = reviewers.signed_in("Ana")
    page.goto(f"{station.url}/items?kind=canary.test")
    page.get_by_label("Take all of this page").check()
    page.get_by_role("button", name="Decide about the ticked").click()
    expect(page.get_by_role("heading", name="Decide about 4 items")).to_be_visible()
    page.get_by_label("How many go first").fill("2")
    page.get_by_label("Items a second").fill("100")
    page.get_by_role("button", name="Count, and show what would be done").click()
    expect(
        page.get_by_text("Nothing has been changed yet. It can be done with 4 of 4, 2 of them first.")
    ).to_be_visible()
    page.get_by_label("Why").fill("fixed in build 42")
    page.get_by_role("button", name="Replay 4").click()

    first = page.get_by_role("row").filter(has_text="pending")
    expect(first).to_have_count(2)
    expect(page.get_by_role("row").filter(has_text="waiting")).to_have_count(2)
    gone = [ticket for ticket in tickets if first.filter(has_text=ticket).count()]
    awaited(succeed(station, gone))
    expect(page.get_by_role("row").filter(has_text="done")).to_have_count(2)
    expect(page.get_by_role("row").filter(has_text="pending")).to_have_count(2)
    expect(page.get_by_text("Every item had its turn.")).to_be_visible()
    page.goto(f"{station.url}/items/{gone[0]}")
    expect(page.get_by_text("A replay of generation 0 by Ana")).to_be_visible()


def test_what_was_sent_and_never_confirmed_is_found_and_sent_again_with_a_word_about_what_that_does(
    reviewers: Reviewers, held: Callable[..., str], station: Station
) -> None:
    ticket = held(kind="doubt.test")
    awaited(doubt(station, ticket))
    page = reviewers.signed_in("Ana")
    page.get_by_role("link", name="Items", exact=True).click()
    page.get_by_label("State").select_option("unconfirmed")
    page.get_by_role("button", name="Show").click()
    page.get_by_label(f"Take {ticket}").check()
    page.get_by_role("button", name="Decide about the ticked").click()
    expect(page.get_by_label("Resume: send again what was sent and never confirmed")).to_be_checked()
    expect(page.get_by_text("which lets one of them run")).to_be_visible()
    expect(page.get_by_label("Lane")).to_be_hidden()
    page.get_by_role("button", name="Count, and show what would be done").click()
    page.get_by_label("Why").fill("the station was killed")
    page.get_by_role("button", name="Resume 1").click()
    expect(page.get_by_text("Every item had its turn.")).to_be_visible()
    assert len(_sent(station, ticket)) == 1


def test_hostile_text_is_shown_as_text_wherever_it_came_in(reviewers: Reviewers, held: Callable[..., str]) -> None:
    ticket = held(
        body=HOSTILE.encode(), detail=HOSTILE, reason=HOSTILE[:60], content_type=f"text/plain; charset={HOSTILE}"
    )
    page = reviewers.signed_in("Ana")
    dialogs: list[Dialog] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog))  # noqa: PLW0108 - the driver marks what it calls
    for path in (f"/items/{ticket}", f"/items?text={ticket}", "/?order=newest"):
        page.goto(reviewers.station.url + path)
        told = page.get_by_text("<script>document.title='owned'</script>").filter(visible=True)
        expect(told.first).to_be_visible()
        assert page.locator("img[src=x], main b, script:not([src])").count() == 0
        assert page.title() != "owned"
        assert "\u202e" not in page.content()
    assert dialogs == []


def test_without_a_script_pages_read_and_forms_decide(reviewers: Reviewers, held: Callable[..., str]) -> None:
    ticket = held(kind="billing.question")
    page = reviewers.signed_in("Ana", java_script_enabled=False)
    page.goto(f"{reviewers.station.url}/items")
    page.get_by_label("Kind").select_option("billing.question")
    page.get_by_label("Ticket or detail").fill(ticket)
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name=ticket).click()
    _decide(page, "Discard", "answered by phone")
    expect(page.get_by_text("It is discarded.")).to_be_visible()
    page.get_by_role("link", name="Discarded", exact=True).click()
    page.get_by_role("link", name=ticket).click()
    _decide(page, "Hold it again", "the phone call was about another one")
    expect(page.get_by_text("It is held again, as it was.")).to_be_visible()
    expect(page.get_by_role("button", name="Replay", exact=True)).to_be_visible()


def test_a_reader_sees_all_and_can_change_nothing(
    reviewers: Reviewers, held: Callable[..., str], station: Station
) -> None:
    ticket = held()
    page = reviewers.signed_in("Rita")
    page.goto(f"{station.url}/items/{ticket}")
    expect(page.get_by_label("Body as text")).to_contain_text("ERROR import")
    expect(page.get_by_role("button", name="Replay")).to_have_count(0)
    expect(page.get_by_text("deciding takes a reviewer")).to_be_visible()
    page.get_by_role("link", name="Your permissions").first.click()
    expect(page.get_by_role("listitem").filter(has_text="you may not").first).to_contain_text("Ana, Bob")
    token = page.locator("input[name=csrf]").first.get_attribute("value") or ""
    refused = page.request.post(
        f"{station.url}/items/{ticket}/discard", form={"csrf": token, "generation": "0", "reason": "mine"}
    )
    assert refused.status == HTTPStatus.FORBIDDEN
    assert "Who can do it: Ana, Bob." in refused.text()
    page.get_by_role("button", name="Sign out").click()
    page.goto(f"{station.url}/items/{ticket}")
    expect(page.get_by_label("Key")).to_be_visible()


def test_ten_thousand_items_are_pages_of_fifty_from_first_to_last(reviewers: Reviewers) -> None:
    page = reviewers.signed_in("Rita")
    page.goto(f"{reviewers.station.url}/items")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    assert page.locator("*").count() < 1500
    assert len(page.content()) < 120_000
    name = rows.first.get_by_role("link").first.inner_text()
    page.get_by_role("link", name="Next").click()
    expect(rows.first.get_by_role("link").first).not_to_have_text(name)
    expect(rows).to_have_count(50)
    page.get_by_role("link", name="Back").click()
    expect(rows.first.get_by_role("link").first).to_have_text(name)
    expect(rows).to_have_count(50)
    page.get_by_label("Reason").select_option("rejected")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".count")).to_have_text("2,020")
    assert "reason=rejected" in page.url


def test_an_open_page_renews_itself_but_not_under_somebodys_hands(
    reviewers: Reviewers, held: Callable[..., str]
) -> None:
    page = reviewers.signed_in("Ana")
    with page.expect_response("**/live"):
        page.goto(f"{reviewers.station.url}/items?order=newest")
    page.wait_for_function("() => document.documentElement.dataset.edition")
    first = held()
    expect(page.get_by_role("link", name=first)).to_be_visible()
    page.get_by_label("Client").fill("ac")
    second = held()
    page.get_by_role("button", name="show", exact=True).wait_for()
    expect(page.get_by_role("link", name=second)).to_have_count(0)
    assert page.get_by_label("Client").input_value() == "ac"
    page.get_by_role("button", name="show", exact=True).click()
    expect(page.get_by_role("link", name=second)).to_be_visible()
    page.get_by_label(f"Take {second}").check()
    third = held()
    page.get_by_role("button", name="show", exact=True).wait_for()
    expect(page.get_by_label(f"Take {second}")).to_be_checked()
    expect(page.get_by_role("link", name=third)).to_have_count(0)


@pytest.mark.parametrize(
    ("look", "how"),
    [
        ("light", {}),
        ("dark", {"color_scheme": "dark", "viewport": {"width": 1024, "height": 768}}),
        ("phone", {"viewport": {"width": 390, "height": 844}, "has_touch": True}),
    ],
    ids=["light", "dark", "phone"],
)
def test_every_page_fits_names_what_can_be_used_and_breaks_no_rule_of_its_own(
    reviewers: Reviewers, look: str, how: dict[str, object]
) -> None:
    page = reviewers.signed_in("Ana", **how)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    for path in PAGES:
        page.goto(reviewers.station.url + path)
        assert page.evaluate(TOO_WIDE) == [], path
        assert page.evaluate(CUT_OFF) == [], path
        assert page.evaluate(NAMELESS) == [], path
        expect(page.locator("h1")).to_have_count(1)
        page.screenshot(
            path=PICTURES / f"{path.strip('/').replace('/', '-').partition('?')[0] or 'attention'}-{look}.png"
        )
    assert complaints == []
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_on_a_phone_items_come_first_and_their_filters_when_asked_for(reviewers: Reviewers) -> None:
    page = reviewers.signed_in("Ana", viewport={"width": 390, "height": 844}, has_touch=True)
    page.goto(reviewers.station.url + "/items")
    text = page.get_by_label("Ticket or detail")
    expect(text).to_be_hidden()
    first = page.locator("tbody tr").first.bounding_box()
    assert first is not None
    assert first["y"] < 844
    ticket = page.locator("tbody tr a.ticket").first.inner_text()
    page.get_by_text("Which items", exact=True).click()
    text.fill(ticket)
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("link", name=ticket, exact=True)).to_be_visible()
    expect(page.get_by_text("Which items: narrowed down")).to_be_visible()
    page.set_viewport_size({"width": 1200, "height": 800})
    expect(text).to_have_value(ticket)
    expect(text).to_be_visible()
