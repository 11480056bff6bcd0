"""What the story must have shown, one finding for each thing that was promised, judged from the outside.

Owns the assertions. Each finding returns what was seen, in a sentence with numbers, or raises AssertionError.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from tests.acceptance.letters import LETTERS, REFUND_WITH_A_COMMA
from tests.acceptance.stage import WORKERS
from tests.acceptance.status_page import untruth
from tests.acceptance.story import BIG_LOG, KILLER, Story

_MIB: Final = 1 << 20


def _equal(what: str, seen: object, wanted: object) -> None:
    assert seen == wanted, f"{what}: {seen!r}, where {wanted!r} was promised"


def _charged(shown: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for run in shown["runs"] if run["outcome"] not in {"released", "outage"}]


def ordinary_tickets(story: Story) -> str:
    """All twenty are done, each handled once to its end."""
    stage = story.stage
    states = Counter(stage.status(story.tickets[letter.id])["state"] for letter in LETTERS)
    _equal("states", states, Counter(done=20))
    ends = Counter(note.ticket for note in stage.notes(what="end"))
    _equal("runs to the end", {ends[story.tickets[letter.id]] for letter in LETTERS}, {1})
    kinds, languages = {letter.kind for letter in LETTERS}, {letter.language for letter in LETTERS}
    charsets = {letter.charset for letter in LETTERS if letter.charset}
    return (
        f"20 of 20 done: {len(kinds)} kinds, {len(languages)} languages, as JSON, as text in {len(charsets)} charsets"
        " from ISO-8859-15 to GB18030, and as a form with a file."
    )


def refused_log(story: Story) -> str:
    """413 with a problem that names the rule and the limit; the station has it on record."""
    answer = story.refusal
    _equal("status", answer.status, 413)
    _equal("content type", answer.headers["Content-Type"].partition(";")[0], "application/problem+json")
    violation = answer.body["violations"][0]
    assert violation["limit"] == 524_288, f"the limit is not named: {violation}"
    rejections = story.stage.document("rejections")
    recorded = [one for one in rejections if one["ticket"] == answer.body["request_id"]]
    _equal("records of the refusal", len(recorded), 1)
    _equal("rule on record", recorded[0]["violations"][0]["rule"], violation["rule"])
    return (
        f'{len(BIG_LOG):,} bytes: 413 "{answer.body["title"]}", rule {violation["rule"]}: {violation["message"]}.'
        " `station rejections` has it under the request's id."
    )


def bypassing_log(story: Story) -> str:
    """Quarantined as inadmissible by the consumer's own preflight; no handler has ever seen it."""
    shown = story.stage.document("show", story.bypassing)
    _equal("state", shown["state"], "quarantined")
    _equal("reason", shown["reason"], "inadmissible")
    _equal("starts noted by a handler", story.stage.notes(story.bypassing), [])
    _equal("attempts", shown["attempts"], 0)
    _equal("outcomes", {run["outcome"] for run in shown["runs"]}, {"inadmissible"})
    held = shown["items"][0]
    _equal("bytes held", held["size"], len(BIG_LOG))
    return f"{story.bypassing}: {held['detail']}. No handler started, 0 attempts, all {held['size']:,} bytes are kept."


def three_deaths(story: Story) -> str:
    """Three starts by the handler's own record, three deaths for memory, two of them in the isolation lane."""
    checks = story.killer_answer.body["checks"]
    assert checks["tokens"] <= 128_000, checks
    starts = [note for note in story.stage.notes(KILLER.id, "start") if note.generation == 0]
    _equal("starts noted by the handler", [note.attempt for note in starts], [1, 2, 3])
    runs = _charged(story.at_quarantine)
    _equal("outcomes", [run["outcome"] for run in runs], ["memory"] * 3)
    _equal("lanes", [run["lane"] for run in runs], ["work", "suspects", "suspects"])
    _equal("workers", len({run["worker"] for run in runs}), 3)
    spent = ", ".join(f"{run['seconds']:.1f} s" for run in runs)
    return (
        f"{checks['bytes']:,} bytes, {checks['tokens']:,} of at most 128,000 tokens: 202. The handler noted 3 starts;"
        f" lanes work, suspects, suspects; it took {spent} to die."
    )


def flowing_tickets(story: Story) -> str:
    """Ordinary tickets came to their end between the first start and the last death of 9417."""
    runs = _charged(story.at_quarantine)
    begun, over = runs[0]["started_at"], runs[-1]["started_at"] + runs[-1]["seconds"]
    ordinary = {story.tickets[letter.id] for letter in LETTERS}
    ended = [note for note in story.stage.notes(what="end") if note.ticket in ordinary and begun < note.at < over]
    assert len(ended) >= 10, f"only {len(ended)} of 20 ended between its first start and its last death"
    return (
        f"{len(ended)} of the 20 were done between its first start and its last death, {over - begun:.1f} s later,"
        f" with {WORKERS} workers in the work lane."
    )


def run_records(story: Story) -> str:
    """Each of the three records has the cause and how much memory was used of how much."""
    _equal("state", story.at_quarantine["state"], "quarantined")
    runs = _charged(story.at_quarantine)
    _equal("run records", len(runs), 3)
    for run in runs:
        evidence = run["evidence"]
        assert evidence["cause"] == "memory", evidence
        assert evidence["peak_rss"] > evidence["limit"] == 512 * _MIB, evidence
    peaks = ", ".join(f"{run['evidence']['peak_rss'] / _MIB:.0f}" for run in runs)
    return f"cause memory, peaks {peaks} MiB where 512 MiB is the limit. {runs[-1]['evidence']['detail']}."


def alert(story: Story) -> str:
    """The log line and the HTTP POST name ticket, attempts and reason."""
    received = story.stage.webhook.received("ticket 9417")
    received = [one for one in received if one["title"].startswith("Quarantine")]
    _equal("HTTP alerts about 9417", len(received), 1)
    text = received[0]["message"]
    reason = story.at_quarantine["reason"]
    for word in ("9417", "3 attempts", reason, "memory"):
        assert word in text, f"the alert does not say {word!r}: {text}"
    lines = [line for line in story.stage.station.log.splitlines() if "item.quarantined ticket=9417 " in line]
    _equal("log lines", len(lines), 1)
    assert f"attempts=3 reason={reason} " in lines[0], lines[0]
    return f'log line, and a POST to the webhook: "{received[0]["title"]}": {text}'


def failing_ticket(story: Story) -> str:
    """Three reported failures, with the exception's name, and no dead worker."""
    shown = story.stage.document("show", REFUND_WITH_A_COMMA.id)
    _equal("state", shown["state"], "quarantined")
    runs = _charged(shown)
    _equal("outcomes", [run["outcome"] for run in runs], ["failed"] * 3)
    _equal("lanes", {run["lane"] for run in runs}, {"work"})
    starts = [note.attempt for note in story.stage.notes(REFUND_WITH_A_COMMA.id, "start")]
    _equal("starts noted by the handler", starts, [1, 2, 3])
    _equal("error", {run["evidence"]["error_type"] for run in runs}, {"ValueError"})
    return f"{shown['ticket']}: three times {runs[-1]['evidence']['detail']}; reason {shown['reason']}."


def deploy(story: Story) -> str:
    """Both nodes ended with 0 while runs were under way, and no ordinary ticket has a charge for it."""
    _equal("exit codes", story.exit_codes, {"work": 0, "suspects": 0})
    assert story.under_way >= 1, "nothing was under way when SIGTERM came"
    released = 0
    for letter in LETTERS:
        shown = story.stage.dossier(story.tickets[letter.id])
        outcomes = Counter(run["outcome"] for run in shown["runs"])
        released += outcomes.pop("released", 0)
        _equal(f"outcomes of {letter.id}", outcomes, Counter(succeeded=1))
        _equal(f"attempts of {letter.id}", shown["attempts"], 1)
    back = f"{released} went back uncharged" if released else "all of them finished within the grace"
    return (
        f"SIGTERM to both consumers with {story.under_way} runs under way: {back}; exit codes 0 and 0; every ordinary"
        " ticket has 1 attempt, and none failed or was lost."
    )


def replay(story: Story) -> str:
    """Done in generation 1 at the first attempt, with the history of generation 0 kept."""
    _equal("replay's answer", story.replayed["generation"], 1)
    shown = story.stage.document("show", KILLER.id)
    _equal("state", shown["state"], "done")
    history = Counter((run["generation"], run["outcome"]) for run in _charged(shown))
    _equal("history", history, Counter({(0, "memory"): 3, (1, "succeeded"): 1}))
    assert any(act["actor"] == "vera" and act["act"] == "replay" for act in shown["audit"]), shown["audit"]
    last = shown["runs"][-1]
    return (
        f"replayed by vera as generation 1: succeeded at the first attempt in {last['seconds']:.1f} s; the three"
        " deaths of generation 0 stay in its history."
    )


def status_page(story: Story) -> str:
    """The states were seen in an order that can be true, and all that mattered were seen."""
    page = story.page
    assert page.failure is None, f"the page could not be read: {page.failure}"
    seen = [(sight.generation, sight.state, sight.attempts) for sight in page.sights]
    told = "; then ".join(
        ", ".join(str(sight) for sight in page.sights if sight.generation == generation) for generation in (0, 1)
    )
    wrong = untruth(page.sights)
    assert wrong is None, f"{wrong}. Seen: {told}"
    for wanted in (
        (0, "retrying", 1),
        (0, "running", 2),
        (0, "retrying", 2),
        (0, "running", 3),
        (0, "quarantined", 3),
        (1, "done", 1),
    ):
        assert wanted in seen, f"{wanted} was never shown. Seen: {told}"
    _equal("last state", seen[-1], (1, "done", 1))
    last_death = _charged(story.at_quarantine)[-1]
    told_at = {(sight.generation, sight.state): sight.at for sight in page.sights}
    assert told_at[0, "quarantined"] > last_death["started_at"] + last_death["seconds"], "quarantined before it died"
    assert told_at[1, "done"] > story.stage.notes(KILLER.id, "end")[-1].at, "done before its handler had ended"
    return f"{page.looks} looks, attempts in brackets: {told} in generation 1."


FINDINGS: Final[tuple[tuple[str, Callable[[Story], str]], ...]] = (
    ("20 ordinary tickets were handled", ordinary_tickets),
    ("A 4 MB log in UTF-16 was refused at the door, and the refusal is on record", refused_log),
    ("The same log, published past the door, was quarantined without a single start", bypassing_log),
    ("Ticket 9417 passed every check and died exactly three times", three_deaths),
    ("The other tickets flowed meanwhile", flowing_tickets),
    ("9417 sat in quarantine with three run records that name cause and memory", run_records),
    ("The alert named 9417, its attempts and the reason", alert),
    ("A ticket whose handler raises every time was quarantined after three failures", failing_ticket),
    ("A deploy in the middle of it charged nobody", deploy),
    ("A replay of 9417 with the repaired handler succeeded", replay),
    ("The status page of 9417 told the truth at each point", status_page),
)
"""What was promised, in the order in which it is reported, each with the check that says what was seen."""
