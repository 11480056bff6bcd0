from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.handler import DependencyDown, Reject, Retry, Run, Ticket
from consumer.pipe import WORDS, decode, encode
from consumer.worker.loading import HandlerUnavailable, load
from consumer.worker.runner import account
from gateway.contract.outcomes import Outcome


@dataclass
class _Notebook:
    spent: list[tuple[int, float]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    taken: bool = False

    def spend(self, tokens: int, usd: float) -> None:
        self.spent.append((tokens, usd))

    def progress(self, text: str) -> None:
        self.words.append(text)

    def lost(self) -> bool:
        return self.taken


def _run(line: _Notebook) -> Run:
    return Run(ticket=Ticket(id="9417", kind="support.ticket", text="hello"), generation=1, attempt=2, line=line)


def test_key_names_ticket_generation_and_attempt() -> None:
    assert _run(_Notebook()).key == "9417/1/2"


def test_run_passes_words_and_spend_on_and_sees_its_claim_go() -> None:
    line = _Notebook()
    run = _run(line)
    run.spend(tokens=3)
    run.progress("half way")
    assert (line.spent, line.words, run.lost) == ([(3, 0.0)], ["half way"], False)
    line.taken = True
    assert run.lost


@pytest.mark.parametrize(
    "bad",
    [
        {"tokens": -1},
        {"tokens": 2**53 + 1},
        {"usd": -0.1},
        {"usd": 1e300},
        {"usd": float("nan")},
        {"usd": float("inf")},
    ],
)
def test_spend_that_is_no_amount_is_an_error_of_the_handler(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="spend cannot be"):
        _run(_Notebook()).spend(**bad)  # type: ignore[arg-type]


def test_memory_error_inside_a_group_is_memory() -> None:
    error = ExceptionGroup("two", [ValueError("a"), ExceptionGroup("inner", [MemoryError()])])
    assert account("r", error).outcome == Outcome.MEMORY


@pytest.mark.parametrize("after", ["soon", -1, float("nan"), float("inf"), pytest.param(10**400, id="huge"), None])
def test_delay_that_is_none_is_ignored(after: float | None) -> None:
    assert account("r", Retry("later", after=after)).after is None
    assert account("r", DependencyDown("model", after=after)).after is None


def test_delay_that_a_provider_sent_as_text_is_taken() -> None:
    assert account("r", Retry("later", after="60")).after == 60  # type: ignore[arg-type]


@given(st.floats() | st.integers() | st.text(), st.text(max_size=10_000), st.text(max_size=10_000))
def test_whatever_a_handler_says_in_good_faith_passes_its_pipe(after: Any, reason: str, name: str) -> None:
    kind = type(name.replace("\0", "").encode("utf-8", "replace").decode(), (Exception,), {})
    for error in (Reject(reason), Retry(reason, after=after), DependencyDown(reason, after=after), kind(reason)):
        said = account("r", error)
        assert decode(encode(said), WORDS) == said


def test_subclass_of_a_handlers_word_means_the_same() -> None:
    class NotATicket(Reject):
        pass

    assert account("r", NotATicket("spam")).outcome == Outcome.REJECTED


def test_exception_whose_own_text_raises_is_still_a_failure() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    said = account("r", Mute())
    assert said.outcome == Outcome.FAILED
    assert "RuntimeError" in said.message


def test_long_messages_and_traces_are_cut() -> None:
    said = account("r", ValueError("x" * 100_000))
    assert len(said.message.encode()) <= 1024
    assert len(said.traceback.encode()) <= 8192


def test_build_changes_with_the_source(tmp_path: object) -> None:
    one, other = load("consumer.examples.prompt:handle"), load("consumer.examples.prompt_fixed:handle")
    assert one.build.startswith("consumer.examples.prompt:handle@")
    assert one.build.split("@")[1] != other.build.split("@")[1]
    assert (one.is_async, load("consumer.examples.triage:handle").is_async) == (False, True)


@pytest.mark.parametrize("spec", ["", "module", ":f", "m:", "consumer.examples.triage:log", "consumer.nowhere:handle"])
def test_what_is_no_handler_is_said_so(spec: str) -> None:
    with pytest.raises(HandlerUnavailable):
        load(spec)
