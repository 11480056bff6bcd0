"""Bodies as clients send them, with the verdict each must get. Recipes only, and deterministic."""

from __future__ import annotations

import base64
import codecs
import gzip
import random
import struct
import zlib
from dataclasses import dataclass

from gateway.admission import Rule

EN = "2026-11-30T10:00:01Z ERROR worker-7 connection reset by peer\n"
RU = "Сервер не отвечает, соединение сброшено. Повторите попытку позже.\n"
FR = "L'équipe a déjà redémarré le serveur; échec à 10h, référence très détaillée.\n"
JA = "サーバーに接続できません。再試行してください。\n"
ZH = "服务器连接失败，请稍后重试。错误代码：五百零三\n"
ZT = "伺服器連線失敗，請稍後再試。錯誤代碼\n"
KO = "서버에 연결할 수 없습니다. 다시 시도하십시오.\n"

_random = random.Random(1)
_PNG = (
    b"\x89PNG\r\n\x1a\n"
    + struct.pack(">I", 13)
    + b"IHDR"
    + struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    + b"\0\0\0\0"
    + zlib.compress(_random.randbytes(4096))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ok:
    """Decodes by `charset`, with exactly these warnings."""

    charset: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class No:
    """Is refused; by `rule` (None: any), with exactly this hint where one is given."""

    rule: Rule | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One body, what was declared about it, and its verdict."""

    name: str
    body: bytes
    declared: str | None
    verdict: Ok | No


def _ok(charset: str, *warnings: str) -> Ok:
    return Ok(charset=charset, warnings=warnings)


CASES = (
    Case("empty", b"", None, No(Rule.EMPTY)),
    Case("an ASCII log", EN.encode() * 100, None, _ok("us-ascii")),
    Case("Chinese in UTF-8", ZH.encode() * 50, None, _ok("utf-8")),
    Case("one é in UTF-8", "é".encode(), None, _ok("utf-8")),
    Case("UTF-8 with a mark", codecs.BOM_UTF8 + EN.encode(), None, _ok("utf-8")),
    Case(
        "a UTF-8 log with three bytes FF",
        (RU * 200).encode()[:5000].replace(b"\n", b"\xff\n", 3),
        None,
        No(Rule.INVALID_UTF8),
    ),
    Case("UTF-8 cut inside a character", (RU * 20).encode()[:-3], None, No(Rule.INVALID_UTF8)),
    Case(
        "UTF-8 with one Latin-1 line",
        (RU * 50).encode() + FR.encode("latin-1") + (RU * 50).encode(),
        None,
        No(Rule.INVALID_UTF8),
    ),
    Case("overlong C0 AF", b"path=..\xc0\xaf..\xc0\xaf etc \xc0\xaf", None, No()),
    Case("CESU-8 surrogates", b"abc \xed\xa0\x80 \xed\xb0\x80 def", None, No()),
    Case("beyond Unicode", b"abc \xf4\x90\x80\x80", None, No()),
    Case("UTF-16LE with a mark", codecs.BOM_UTF16_LE + RU.encode("utf-16-le"), None, _ok("utf-16-le")),
    Case("UTF-16BE with a mark", codecs.BOM_UTF16_BE + ZH.encode("utf-16-be"), None, _ok("utf-16-be")),
    Case("UTF-32LE with a mark", codecs.BOM_UTF32_LE + EN.encode("utf-32-le"), None, _ok("utf-32-le")),
    Case("UTF-16LE without a mark", EN.encode("utf-16-le") * 10, None, No(Rule.NUL, "utf-16le")),
    Case("UTF-16 without a mark, declared", (EN * 10).encode("utf-16-le"), "utf-16", _ok("utf-16-le")),
    Case("UTF-16 of odd length", (EN * 10).encode("utf-16-le") + b"a", "utf-16le", No(Rule.CHARSET_MISMATCH)),
    Case("UTF-16 with half a pair", codecs.BOM_UTF16_LE + b"a\0\x00\xd8b\0", None, No(Rule.UNDECODABLE)),
    Case("latin1 means windows-1252", FR.encode("cp1252") + "“quoted” €5\n".encode("cp1252"), "latin1", _ok("cp1252")),
    Case("latin1 with a byte 81", b"abc \x81 def", "iso-8859-1", No(Rule.CHARSET_MISMATCH)),
    Case("UTF-8 declared, cp1251 sent", RU.encode("cp1251") * 10, "utf-8", No(Rule.CHARSET_MISMATCH)),
    Case("latin1 declared, UTF-8 sent", FR.encode() * 5, "iso-8859-1", _ok("cp1252", "looks_like_utf8")),
    Case("us-ascii declared, a high byte sent", FR.encode("cp1252"), "us-ascii", _ok("cp1252")),
    Case("punycode", b"a" * 524_288, "punycode", No(Rule.UNSUPPORTED_CHARSET)),
    Case("UTF-7", b"+AGEAYg-", "utf-7", No(Rule.UNSUPPORTED_CHARSET)),
    Case("unicode_escape", b"\\u0041", "unicode_escape", No(Rule.UNSUPPORTED_CHARSET)),
    Case("zlib as a charset", b"abc", "zlib", No(Rule.UNSUPPORTED_CHARSET)),
    Case("cp1251 undeclared", RU.encode("cp1251") * 30, None, No(Rule.CHARSET_UNDECLARED, "cp1251")),
    Case("Shift_JIS undeclared", JA.encode("cp932") * 40, None, No(Rule.CHARSET_UNDECLARED, "cp932")),
    Case("GB18030 undeclared", ZH.encode("gb18030") * 40, None, No(Rule.CHARSET_UNDECLARED, "gb18030")),
    Case("Big5 undeclared", ZT.encode("big5") * 40, None, No(Rule.CHARSET_UNDECLARED, "big5")),
    Case("EUC-KR undeclared", KO.encode("euc_kr") * 40, None, No(Rule.CHARSET_UNDECLARED, "cp949")),
    Case(
        "an ASCII log with one Latin-1 line",
        (EN * 500).encode() + FR.encode("cp1252") + (EN * 500).encode(),
        None,
        No(Rule.UNDECODABLE),
    ),
    Case("a single high byte", b"caf\xe9", None, No(Rule.UNDECODABLE)),
    Case("a PNG", _PNG, None, No(Rule.BINARY)),
    Case("gzip", gzip.compress(_random.randbytes(20_000), mtime=0), None, No(Rule.BINARY)),
    Case("an ELF header", b"\x7fELF\x02\x01\x01" + b"\0" * 9 + _random.randbytes(3000), None, No(Rule.BINARY)),
    Case("64 KiB of noise", _random.randbytes(65_536), None, No(Rule.BINARY)),
    Case("one NUL in ASCII", EN.encode() * 10 + b"\0" + EN.encode(), None, No(Rule.NUL)),
    Case("nothing but NUL", b"\0" * 524_288, None, No(Rule.NUL)),
    Case("nothing but FF", b"\xff" * 524_288, None, No()),
    Case("nothing but 80", b"\x80" * 524_288, None, No()),
    Case("base64", base64.b64encode(_random.randbytes(300_000)), None, _ok("us-ascii")),
    Case("ANSI colours", b"\x1b[31mERROR\x1b[0m x\n" * 500, None, _ok("us-ascii")),
    Case("a FIX log", b"8=FIX.4.4\x019=112\x0135=A\x0149=CLIENT\x01\n" * 200, None, No(Rule.BINARY)),
    Case("EBCDIC", EN.encode("cp037") * 50, None, No()),
    Case("EBCDIC declared", EN.encode("cp037"), "ibm037", No(Rule.UNSUPPORTED_CHARSET)),
    Case("dense U+FFFD", ("\ufffd" * 50 + "abc" * 50).encode(), None, No(Rule.LOSSY_TEXT)),
    Case("bidi controls", "if (\u202e admin \u2066) {}".encode(), None, _ok("utf-8", "bidi_controls")),
    Case("noncharacters", "a\uffffb\ufdd0".encode(), None, _ok("utf-8", "noncharacters")),
    Case("a quoted label", ZH.encode(), '"UTF-8"', _ok("utf-8")),
    Case("a UTF-8 mark, utf-16 declared", codecs.BOM_UTF8 + EN.encode(), "utf-16", _ok("utf-8", "bom_overrides")),
    Case("ISO-2022-JP undeclared is ASCII with ESC", JA.encode("iso2022_jp") * 10, None, _ok("us-ascii")),
    Case("ISO-2022-JP declared", JA.encode("iso2022_jp") * 10, "iso-2022-jp", _ok("iso2022_jp")),
    Case("mojibake cannot be seen", FR.encode().decode("cp1252").encode(), None, _ok("utf-8")),
    Case("ASCII and UTF-16 mixed", EN.encode() * 20 + (EN * 20).encode("utf-16-le"), None, No(Rule.NUL)),
)
