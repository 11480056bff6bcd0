"""Where a search begins: a few small inputs for each target, from which a fuzzer makes its own."""

import gzip
import zlib
from collections.abc import Mapping
from typing import Final

_PART: Final = b'--b\r\nContent-Disposition: form-data; name="%b"\r\nContent-Type: %b\r\n\r\n%b\r\n'
_FORM: Final = (
    _PART % (b"body", b"text/plain; charset=latin1", b"d\xe9j\xe0")
    + _PART % (b'file"; filename="a.txt', b"text/plain", b"x")
    + b"--b--\r\n"
)
_TICKET: Final = b'{"kind":"k","body":"x","attributes":{"a":[1,2.5e3,null]},"attachments":[{"name":"a","content":"y"}]}'

SEEDS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "body": (
        b"\0\x09plain",
        b"\1\0" + gzip.compress(b"hello" * 99, mtime=0),
        b"\1\x07" + gzip.compress(b"a", mtime=0) * 3 + b"\0\0",
        b"\1\xff" + gzip.compress(b"\0" * 9999, mtime=0),
        b"\2\1" + zlib.compress(b"hello"),
        b"\2\1" + zlib.compress(b"hello")[2:-4],
        b"\3\5" + bytes.fromhex("28b52ffd20646500002868656c6c6f01008ca96801"),
        b"\4\5" + bytes.fromhex("1b6300f8a5cbd0d8de046a5140961a"),
    ),
    "json": (_TICKET, b'["\\ud83d\\ude00", -0.0, 18446744073709551615]', b"[[[[[[[[[[[[[[[[[[", b'{"a":1,"\\u0061":2}'),
    "text": (
        b"\0\0ascii\n",
        "\0\0Größe".encode(),
        b"\0\0\xff\xfea\0",
        b"\1\1" + "привет".encode("cp1251") * 30,
        b"\0\x40x\x80",
    ),
    "multipart": (_FORM, b"preamble\r\n" + _FORM + b"epilogue", _FORM.replace(b"name=", b"name*=utf-8''")),
    "ticket": (b"\0" + _TICKET, b"\1text", b"\2\xff\xfea\0", b"\3" + _FORM, b"\4"),
}
