"""Texts that cut and count differently: what clients send, and what somebody might send to hurt."""

from __future__ import annotations

import base64
import json
import random

_random = random.Random(9417)
_SENTENCE = "the printer isn't answering; we've restarted it, they'll call back (ticket #42) and/or e.g. file.txt"
_WORDS = _SENTENCE.split()
_CHINESE = "服务器连接失败，请稍后重试。错误代码：五百零三！"
_JAPANESE = "サーバーに接続できません。再試行してください、お願いします。"
_KOREAN = "서버에 연결할 수 없습니다. 다시 시도하십시오. "
SIZE = 60_000
"""Characters of each: several chunks, and quick to count whole."""


def _fill(pieces: list[str]) -> str:
    text = ""
    while len(text) < SIZE:
        text += _random.choice(pieces)
    return text[:SIZE]


ORDINARY = {
    "English": _fill([f"{word} " for word in _WORDS] + ["\n", "\n\n", ". ", "  "]),
    "a log": "\n".join(
        f"2026-11-30T10:{minute % 60:02}:01.{minute:03}Z ERROR w-{minute % 7} /v1/a_b?c={minute}"
        for minute in range(900)
    ),
    "code": "def f(x):\n    if x != 'it''s':\n\t\treturn {\"a\": [1, 2.5e-3], 'b': x->y}  // why?\n\n\n" * 700,
    "JSON": json.dumps([{"id": number, "name": f"n{number}", "tags": ["a/b", None, True]} for number in range(1000)]),
    "Chinese": _CHINESE * (SIZE // len(_CHINESE)),
    "Japanese": _JAPANESE * (SIZE // len(_JAPANESE)),
    "Korean": _KOREAN * (SIZE // len(_KOREAN)),
    "Russian": "Сервер не отвечает, соединение сброшено. Повторите попытку позже.\n" * 900,
    "Markdown": "# Title\n\n* **bold** item's\n* `code`\n\n> quote\r\n\r\n---\n| a | b |\n" * 900,
    "Windows line ends": "one line, and another;\r\n\r\n\tthird//\r\n/fourth\r\n" * 1200,
    "a table": "a\tb\t\tc\t12\t3.5\n" * 3500,
    "mixed scripts": _fill(["abc ", "déjà ", "Ünïcode's ", _CHINESE, _KOREAN, "👍🏽 ", "\n", "12345", "'ll "]),
    "base64 lines": base64.encodebytes(_random.randbytes(40_000)).decode(),
}
"""Texts with a safe place to cut in every chunk: counting them in chunks must give tiktoken's own number."""

HOSTILE = {
    "one letter": "a" * SIZE,
    "blanks": " " * SIZE,
    "line feeds": "\n" * SIZE,
    "apostrophes": "'" * SIZE,
    "capitals": "Aa" * (SIZE // 2),
    "Han without a mark": "错误" * (SIZE // 2),
    "emoji families": "👩‍👩‍👧🏽" * (SIZE // 7),
    "combining accents": "e\u0301" * (SIZE // 2),
    "exotic blanks": "\u3000\u2028 \t" * (SIZE // 4),
    "slashes and feeds": "/\n" * (SIZE // 2),
    "control characters": "\x01\x1f\x7f" * (SIZE // 3),
}
"""Texts that leave no safe place to cut: only the bounds must hold."""
