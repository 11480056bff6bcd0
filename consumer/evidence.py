"""From what is known about the end of a run to its one report. Pure.

Owns the codes and sentences that people read in alerts, in the history and on the station's pages.
"""

import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, assert_never

from consumer.briefing import HardLimits
from consumer.execution import RunOrder, RunReport
from consumer.intentions import Cause
from consumer.pipe import Finished, Measured, Progress, Spend
from consumer.usage import UNUSED, Usage
from gateway.contract.envelope import UNSPENT, Admission, Spent
from gateway.contract.outcomes import Outcome
from gateway.contract.text import clip, clip_tail

_MAX_DETAIL: Final = 1024
_MAX_CODE: Final = 256
_MAX_CHARSET: Final = 64
_MAX_PROGRESS_IN_DETAIL: Final = 200
_MAX_STACK: Final = 8192
MAX_ALONGSIDE: Final = 16
"""Of the other runs, how many are named."""
_MIB: Final = 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Trial:
    """One order under way, and everything that has been learnt about it so far."""

    order: RunOrder
    build: str
    worker: int
    started: float
    """Unix seconds."""
    begun: float
    """Seconds on the loop's clock."""
    peak: int = 0
    """Bytes of resident memory, the most that was seen."""
    last: int = 0
    """The same, when it was last looked at."""
    used_before: Usage = UNUSED
    """What its worker had used when it got the order."""
    stack: str = ""
    """Where the worker was when it was asked, or died."""
    hard: HardLimits | None = None
    """What the kernel held it to, in the isolation lane."""
    alongside: Iterable[str] = ()
    """Kind and ticket of the other runs on this node, when this one ended: gone through once, if it is evidence."""
    spent: Spent = UNSPENT
    progress: str = ""
    measured: Measured | None = None
    finished: Finished | None = None
    revoked_with: Outcome | None = None
    """How it is to be reported, once its claim was taken away; None as long as nobody has done that."""

    def look(self, resident: int) -> None:
        """Take down what memory it has now, in bytes; 0 is a process that is over, and no news."""
        if resident > 0:
            self.last, self.peak = resident, max(self.peak, resident)


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How a worker's process ended; `status` as waitpid gives it, None when its mold took the answer along."""

    status: int | None = None
    oom: bool = False
    """The kernel has killed for memory in our cgroup meanwhile."""
    usage: Usage | None = None
    """Of the worker's whole life."""


def conclude(trial: Trial, cause: Cause, death: Death | None, log_tail: str, now: float) -> RunReport:
    """Return the report of a run that ended for `cause`; `now` on the clock of `trial.begun`."""
    finished = trial.finished if cause is Cause.FINISHED else None
    outcome, code, detail = _judge(trial, cause, death)
    known: dict[str, Any] = {
        "cause": cause.value,
        "build": trial.build,
        "progress": trial.progress,
        "peak_rss": trial.peak,
        **_usage(trial, finished, death),
    }
    if outcome is not Outcome.SUCCEEDED:
        known |= {
            "last_rss": trial.last,
            "log_tail": log_tail,
            "stack": clip_tail(trial.stack, _MAX_STACK),
            "hard_limits": _hard_limits(trial),
            "alongside": list(islice(trial.alongside, MAX_ALONGSIDE)),
            **_exit(death),
            **_own_words(finished),
        }
    if outcome is Outcome.MEMORY:
        known["limit"] = trial.order.memory_limit
    if outcome is Outcome.TIMED_OUT:
        known["limit"] = _time_limit(trial, cause)
    return RunReport(
        outcome=outcome,
        started=trial.started,
        seconds=max(0.0, now - trial.begun),
        worker=trial.worker,
        code=clip(code, _MAX_CODE),
        detail=clip(detail, _MAX_DETAIL),
        evidence={name: value for name, value in known.items() if value or name == "exit_status"},
        after=finished.after if finished else None,
        dependency=finished.dependency if finished else None,
        spent=trial.spent,
        admission=_admission(trial),
    )


def unstarted(outcome: Outcome, code: str, *, now: float) -> RunReport:
    """Return the report of an order that no worker has ever seen; `now` in Unix seconds."""
    return RunReport(
        outcome=outcome, started=now, seconds=0.0, worker=os.getpid(), code=code, detail="it was not started"
    )


def shown(death: Death) -> str:
    """Return a death in a word, as codes have it."""
    return _death(death, "")[1]


def _judge(trial: Trial, cause: Cause, death: Death | None) -> tuple[Outcome, str, str]:
    order, last = trial.order, _last_words(trial)
    match cause:
        case Cause.FINISHED if trial.finished is not None:
            said = trial.finished
            outcome = Outcome(said.outcome)
            gave_up = said.gave_up and outcome in {Outcome.SUCCEEDED, Outcome.FAILED}
            if gave_up and trial.revoked_with is not None:  # else there was nothing to give up, whatever it says
                return trial.revoked_with, "gave_up", "its handler stopped when it was told that its claim was gone"
            if outcome is Outcome.MEMORY:
                return outcome, said.code, f"the handler raised {said.error_type}: {said.message}{last}"
            words = f"{said.error_type}: {said.message}" if said.error_type else said.message
            return outcome, said.code, words
        case Cause.DEADLINE:
            return Outcome.TIMED_OUT, "deadline", f"still running after {order.deadline:g} s, so it was killed{last}"
        case Cause.SILENT:
            quiet = f"had said nothing for {order.heartbeat:g} s"
            return Outcome.TIMED_OUT, "silent", f"{quiet}, its heartbeat, so it was killed{last}"
        case Cause.MEMORY:
            size, limit = trial.peak // _MIB, order.memory_limit // _MIB
            return Outcome.MEMORY, "memory:ceiling", f"used {size} MiB where {limit} MiB is the limit; killed{last}"
        case Cause.REVOKED:
            taken_as = trial.revoked_with or Outcome.RELEASED
            return taken_as, "revoked", f"its claim was taken away and its grace was over{last}"
        case Cause.STOPPED:
            return Outcome.RELEASED, "stopped", "the node stopped before it had finished"
        case Cause.MOLD_LOST:
            return (
                Outcome.RELEASED,
                "mold_lost",
                "the process that workers are forked from died and took its worker along",
            )
        case Cause.GARBLED:
            return (
                Outcome.CRASHED,
                "pipe",
                f"its worker closed its pipe or wrote nonsense into it, so it was killed{last}",
            )
        case Cause.DIED | Cause.FINISHED:
            return _over_processor_time(trial, death, last) or _death(death, last)
        case _:
            assert_never(cause)


def _over_processor_time(trial: Trial, death: Death | None, last: str) -> tuple[Outcome, str, str] | None:
    if trial.hard is None or _signal(death) != signal.SIGXCPU:
        return None
    used = f"used {trial.hard.cpu_of(trial.order):g} s of processor time, its limit in isolation"
    return Outcome.TIMED_OUT, "cpu", f"{used}, so the kernel killed it{last}"


def _time_limit(trial: Trial, cause: Cause) -> float:
    match cause:
        case Cause.SILENT:
            return trial.order.heartbeat
        case Cause.DIED if trial.hard is not None:
            return trial.hard.cpu_of(trial.order)
        case _:
            return trial.order.deadline


def _hard_limits(trial: Trial) -> str:
    if trial.hard is None:
        return ""
    files = f", {trial.hard.open_files} open files" if trial.hard.open_files else ""
    tasks = f", {trial.hard.processes} more processes or threads" if trial.hard.processes else ""
    return f"{trial.hard.cpu_of(trial.order):g} s of processor time{files}{tasks}"


def _signal(death: Death | None) -> int | None:
    if death is None or death.status is None or not os.WIFSIGNALED(death.status):
        return None
    return os.WTERMSIG(death.status)


def _death(death: Death | None, last: str) -> tuple[Outcome, str, str]:
    if death is None or death.status is None:
        return Outcome.CRASHED, "vanished", f"its worker vanished{last}"
    if not os.WIFSIGNALED(death.status):
        status = os.waitstatus_to_exitcode(death.status)
        return (
            Outcome.CRASHED,
            f"exit:{status}",
            f"its worker ended with exit status {status} in the middle of it{last}",
        )
    number = os.WTERMSIG(death.status)
    if number == signal.SIGKILL and death.oom:
        return Outcome.MEMORY, "memory:kernel", f"the kernel killed its worker for memory{last}"
    return Outcome.CRASHED, f"signal:{number}", f"its worker died of signal {number} ({_signal_name(number)}){last}"


def _own_words(finished: Finished | None) -> dict[str, Any]:
    if finished is None:
        return {}
    return {
        "error_type": finished.error_type,
        "message": finished.message,
        "traceback": finished.traceback,
        "violations": finished.violations,
    }


def _exit(death: Death | None) -> dict[str, Any]:
    if death is None or death.status is None:
        return {}
    if death.oom:
        return {"signal": os.WTERMSIG(death.status), "oom_kill": True}
    if os.WIFSIGNALED(death.status):
        return {"signal": os.WTERMSIG(death.status)}
    return {"exit_status": os.waitstatus_to_exitcode(death.status)}


def _usage(trial: Trial, finished: Finished | None, death: Death | None) -> dict[str, Any]:
    total = None if death is None else death.usage
    if finished is not None:
        total = finished.usage
    if total is None or total == trial.used_before:
        return {}
    used = total.since(trial.used_before)
    return {
        "cpu_user": round(used.user, 3),
        "cpu_system": round(used.system, 3),
        "minor_faults": used.minor_faults,
        "major_faults": used.major_faults,
    }


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"


def _last_words(trial: Trial) -> str:
    return f"; last words: {clip(trial.progress, _MAX_PROGRESS_IN_DETAIL)}" if trial.progress else ""


def hear(trial: Trial, record: Spend | Progress | Measured) -> None:
    """Take down what a run says of itself before it ends."""
    match record:
        case Progress(text=text):
            trial.progress = clip(text, _MAX_DETAIL)
        case Spend(tokens=tokens, usd=usd):
            trial.spent += Spent(tokens=tokens, usd=usd)
        case Measured() if trial.order.examine:
            trial.measured = record
        case Measured():
            return  # the door has measured, and a worker knows nothing better
        case _:
            assert_never(record)


def _admission(trial: Trial) -> Admission | None:
    facts = trial.measured
    if facts is None:
        return None
    return Admission(
        bytes=facts.bytes,
        charset=clip(facts.charset, _MAX_CHARSET),
        tokens=facts.tokens,
        exact=facts.exact,
        attachments=facts.attachments,
        client="",
        admitted_at=trial.started,
    )
