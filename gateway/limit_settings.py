"""The limits that a door lets in by, and that a station judges an edited body by.

Owns their names, defaults and bounds. Whoever has them checks them: all mistakes of a program are told at once.
"""

from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, Field

from gateway.admission import Limits
from gateway.contract import kind_limits, rules
from gateway.setting_values import Bytes, Switch, Table

MAX_MESSAGE_BYTES: Final = (16 << 20) - (64 << 10)
"""What every supported broker takes in one message (16 MiB since 4.0), less room for the envelope (D07)."""


class LimitSettings(BaseModel):
    """What is let in, as settings; a part of the settings of each program that judges."""

    max_body_bytes: Bytes = Field(
        default=524_288, ge=1, le=MAX_MESSAGE_BYTES, description="largest ticket, decompressed, all parts together"
    )
    max_tokens: int = Field(default=128_000, ge=1, description="most tokens of a ticket's text")
    encoding: Literal["o200k_base", "cl100k_base"] = Field(default="o200k_base", description="vocabulary that counts")
    vocabulary: Path | None = Field(default=None, description="another file of this vocabulary; empty: the packaged")
    vocabulary_sha256: str = Field(default="", description="digest of that file, decompressed, in hexadecimal")
    max_attachments: int = Field(default=10, ge=0, le=1000, description="most attachments of a ticket")
    rules: Table = Field(
        default_factory=dict,
        description="modes of the rules of admission, [rules] in the file: off, observe or enforce",
    )
    kinds: Table = Field(
        default_factory=dict,
        description='limits and policies by kind, [kinds."support.ticket"] in the file; a door reads the limits',
    )
    accept_detected: Switch = Field(default=False, description="on: admit text whose charset could only be guessed")

    @property
    def limits(self) -> Limits:
        """What is let in."""
        return Limits(
            max_body_bytes=self.max_body_bytes,
            max_tokens=self.max_tokens,
            max_attachments=self.max_attachments,
            max_attachment_bytes=self.max_body_bytes,
            accept_detected=self.accept_detected,
            rules=rules.read(self.rules),
            kinds=kind_limits.read(self.kinds),
        )

    @property
    def largest_bodies(self) -> tuple[int, ...]:
        """The caps on bodies, the general one and those of kinds; raises ValueError."""
        return (self.max_body_bytes, *(own.max_body_bytes or 0 for own in kind_limits.read(self.kinds).values()))

    def misjudged(self) -> list[str]:
        """Return what is wrong with the limits, a sentence for each mistake."""
        problems = []
        try:
            rules.read(self.rules)
        except ValueError as error:
            problems += [f"rules: {line}" for line in str(error).splitlines()]
        try:
            largest = max(self.largest_bodies)
        except ValueError as error:
            problems += str(error).splitlines()
            largest = 0
        if largest > MAX_MESSAGE_BYTES:
            problems.append(
                f"kinds: no max_body_bytes is greater than {MAX_MESSAGE_BYTES}, what a broker takes at once"
            )
        if bool(self.vocabulary) != bool(self.vocabulary_sha256):
            problems.append("LAZARETTO_VOCABULARY, LAZARETTO_VOCABULARY_SHA256: set both or none")
        return problems
