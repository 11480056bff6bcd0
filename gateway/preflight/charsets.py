"""The charset labels a client may declare, and the codec each one means.

Meanings follow the WHATWG Encoding Standard, as browsers and mail programs live by it: `latin1` and `us-ascii` are
windows-1252. A label is looked up here and nowhere else: `codecs.lookup` on input would also find punycode (seconds
of CPU), zlib and rot13. Left out on purpose: utf-7, punycode, idna, the escapes, hz, iso-2022-kr/cn and EBCDIC.

The tables are Python's. They differ from the standard's in a handful of places: five bytes that windows-1252 leaves
undefined are refused and not C1 controls, KOI8-U has box drawing where the standard has the Belarusian short U, and the
tilde of JIS X 0212 is the ASCII one.
"""

from __future__ import annotations

_LABELS = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8",
    "utf-16-le": "utf-16 utf-16le unicode csunicode iso-10646-ucs-2 ucs-2 unicodefeff",
    "utf-16-be": "utf-16be unicodefffe",
    "utf-32-le": "utf-32 utf-32le",
    "utf-32-be": "utf-32be",
    "cp866": "ibm866 cp866 866 csibm866",
    "iso8859_2": "iso-8859-2 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 latin2 l2 csisolatin2 iso-ir-101",
    "iso8859_3": "iso-8859-3 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 latin3 l3 csisolatin3 iso-ir-109",
    "iso8859_4": "iso-8859-4 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 latin4 l4 csisolatin4 iso-ir-110",
    "iso8859_5": "iso-8859-5 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988 cyrillic csisolatincyrillic iso-ir-144",
    "iso8859_6": (
        "iso-8859-6 iso-8859-6-e iso-8859-6-i iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987 arabic "
        "csisolatinarabic asmo-708 ecma-114 iso-ir-127"
    ),
    "iso8859_7": (
        "iso-8859-7 iso8859-7 iso88597 iso_8859-7 iso_8859-7:1987 greek greek8 sun_eu_greek csisolatingreek "
        "elot_928 ecma-118 iso-ir-126"
    ),
    "iso8859_8": (
        "iso-8859-8 iso-8859-8-e iso-8859-8-i iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 hebrew visual "
        "csisolatinhebrew logical"
    ),
    "iso8859_10": "iso-8859-10 iso8859-10 iso885910 latin6 l6 csisolatin6 iso-ir-157",
    "iso8859_13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859_14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859_15": "iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9 csisolatin9",
    "iso8859_16": "iso-8859-16",
    "koi8_r": "koi8-r koi8 koi8_r koi csko18r cskoi8r",
    "koi8_u": "koi8-u koi8-ru",
    "mac_roman": "macintosh mac x-mac-roman csmacintosh",
    "mac_cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "cp874": "windows-874 cp874 dos-874 tis-620 iso-8859-11 iso8859-11 iso885911",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251",
    "cp1252": (
        "windows-1252 cp1252 x-cp1252 ascii us-ascii ansi_x3.4-1968 latin1 l1 iso-8859-1 iso8859-1 iso88591 iso_8859-1 "
        "iso_8859-1:1987 "
        "csisolatin1 cp819 ibm819 iso-ir-100"
    ),
    "cp1253": "windows-1253 cp1253 x-cp1253",
    "cp1254": (
        "windows-1254 cp1254 x-cp1254 iso-8859-9 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 latin5 l5 "
        "csisolatin5 iso-ir-148"
    ),
    "cp1255": "windows-1255 cp1255 x-cp1255",
    "cp1256": "windows-1256 cp1256 x-cp1256",
    "cp1257": "windows-1257 cp1257 x-cp1257",
    "cp1258": "windows-1258 cp1258 x-cp1258",
    "gb18030": "gb18030 gbk gb2312 gb_2312 gb_2312-80 x-gbk chinese csgb2312 csiso58gb231280 iso-ir-58",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc_jp": "euc-jp x-euc-jp cseucpkdfmtjapanese",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp932": "shift_jis shift-jis sjis x-sjis ms_kanji ms932 windows-31j cp932 csshiftjis",
    "cp949": (
        "euc-kr ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 korean windows-949 cp949 cseuckr csksc56011987 "
        "iso-ir-149"
    ),
}

CODECS: dict[str, str] = {label: codec for codec, labels in _LABELS.items() for label in (*labels.split(), codec)}
"""By label, in lower case. A codec's own name is one too, so that what was recorded once can be read again."""

SUPPORTED: tuple[str, ...] = tuple(labels.split()[0] for labels in _LABELS.values())
"""One label for each charset, to be named in a refusal."""

_MULTI_BYTE = ("utf-", "gb18030", "big5", "euc_jp", "iso2022", "cp932", "cp949")
SINGLE_BYTE: frozenset[str] = frozenset(codec for codec in _LABELS if not codec.startswith(_MULTI_BYTE))
"""Codecs in which nearly any bytes decode to something, so that UTF-8 sent by mistake goes unnoticed."""

_LONGEST_LABEL = max(map(len, CODECS))


def codec_for(declared: str) -> str | None:
    """The codec a declared charset means (quotes, case and outer blanks ignored), or None: not supported."""
    if len(declared) > _LONGEST_LABEL + 16:
        return None
    return CODECS.get(declared.strip(" \t\"'").lower())
