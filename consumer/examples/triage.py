"""First look at a support ticket, without network: how bad, about what, in which language, and what broke.

A handler to start from: `python -m consumer --handler consumer.examples.triage:handle`. Everything it looks at has a
bound, so no ticket can make it slow; what it finds is one log line, where a real one would write to the help desk
under `run.key`.
"""

import logging
import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from consumer.handler import Reject, Run

log = logging.getLogger(__name__)

_LOOKED_AT: Final = 200_000
"""Characters; what matters in a ticket is said before that."""
_SUMMARY: Final = 200
_MAX_TRACES: Final = 5
_MAX_PRODUCTS: Final = 5
_SAMPLE: Final = 4_000

_SEVERITIES: Final = (
    ("critical", ("outage", "data loss", "breach", "production down", "is down", "ausfall", "panne totale", "caído")),
    (
        "high",
        ("crash", "cannot log in", "urgent", "blocked", "fails", "dringend", "bloqué", "urgente", "エラー", "崩溃"),
    ),
    ("low", ("question", "how do i", "feature request", "typo", "frage", "souhait", "sugerencia")),
)
_PRODUCT: Final = re.compile(
    r"\b[A-Z][a-z]{2,20}[A-Z][A-Za-z]{1,20}\b|\b[a-z]{2,20}-(?:service|api|worker|server|db)\b"
)
_TRACE_STARTS: Final = (
    ("python", "Traceback (most recent call last)"),
    ("java", "Exception in thread"),
    ("java", "Caused by: "),
    ("go", "goroutine "),
    ("rust", "thread '"),
    ("node", "UnhandledPromiseRejection"),
)
_PYTHON_ERROR: Final = re.compile(
    r"^([A-Za-z_][\w.]{0,80}(?:Error|Exception|Interrupt|Exit)): ?(.{0,120})", re.MULTILINE
)
_WORDS_OF: Final = {
    "en": frozenset(["the", "and", "is", "not", "to", "we", "have", "with", "please", "when"]),
    "de": frozenset(["der", "die", "das", "und", "ist", "nicht", "wir", "mit", "bitte", "wenn"]),
    "fr": frozenset(["le", "la", "les", "et", "est", "pas", "nous", "avec", "quand", "merci"]),
    "es": frozenset(["el", "los", "que", "y", "es", "no", "con", "cuando", "por", "favor"]),
    "pt": frozenset(["o", "os", "que", "e", "não", "com", "quando", "por", "nós", "uma"]),
}
_SCRIPTS: Final = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("el", re.compile("[\u0370-\u03ff]")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """What a first look at a ticket finds."""

    severity: str
    language: str
    products: tuple[str, ...]
    traces: tuple[str, ...]
    summary: str


async def handle(run: Run) -> None:
    """Look at the ticket and log what was found."""
    text = f"{run.ticket.subject or ''}\n{run.ticket.text}".strip()
    if not text:
        raise Reject("the ticket has no text")
    found = look_at(text)
    run.progress(f"triaged: {found.severity}")
    log.info(
        "triage %s: %s, %s, products %s, traces %s: %s",
        run.key,
        found.severity,
        found.language,
        ", ".join(found.products) or "-",
        ", ".join(found.traces) or "-",
        found.summary,
    )


def look_at(text: str) -> Triage:
    """Return what the first 200,000 characters of a ticket's text say."""
    text = text[:_LOOKED_AT]
    return Triage(
        severity=_severity(text),
        language=_language(text),
        products=_products(text),
        traces=_traces(text),
        summary=_summary(text),
    )


def _severity(text: str) -> str:
    lowered = text.lower()
    for severity, signs in _SEVERITIES:
        if any(sign in lowered for sign in signs):
            return severity
    return "high" if _traces(text) else "normal"


def _language(text: str) -> str:
    sample = text[:_SAMPLE]
    for language, script in _SCRIPTS:
        if len(script.findall(sample)) * 5 >= max(1, sum(c.isalpha() for c in sample)):
            return language
    words = set(re.findall(r"[^\W\d_]+", sample.lower()))
    best = max(_WORDS_OF, key=lambda language: len(words & _WORDS_OF[language]))
    return best if words & _WORDS_OF[best] else "unknown"


def _products(text: str) -> tuple[str, ...]:
    named = Counter(word for word in _PRODUCT.findall(text) if not word.endswith(("Error", "Exception", "NoneType")))
    return tuple(word for word, _ in named.most_common(_MAX_PRODUCTS))


def _traces(text: str) -> tuple[str, ...]:
    found = [f"{match[1]}: {match[2]}".rstrip(": ") for match in _PYTHON_ERROR.finditer(text)]
    found += [f"{runtime} stack" for runtime, start in _TRACE_STARTS if start in text]
    return tuple(dict.fromkeys(found))[:_MAX_TRACES]


def _summary(text: str) -> str:
    """The first sentence that a person seems to have written, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    written = next((line for line in lines if " " in line and not line[0].isdigit() and "  at " not in line), lines[0])
    return written if len(written) <= _SUMMARY else written[: _SUMMARY - 1] + "…"
