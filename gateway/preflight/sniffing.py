"""What the first bytes of an attachment say that it is, and whether that fits what was declared.

Owns the signatures. Looks at a few bytes at known places, so that no content can make it slow; decodes and opens
nothing, and what it does not know it does not guess.
"""

from __future__ import annotations

from typing import Final

_STARTS: Final = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"(\xb5/\xfd", "application/zstd"),
    (b"7z\xbc\xaf'\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (b"\x7fELF", "application/x-executable"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"OggS\0", "application/ogg"),
    (b"\x1aE\xdf\xa3", "video/x-matroska"),
)
_INSIDE: Final = (
    (b"RIFF", 8, b"WEBP", "image/webp"),
    (b"RIFF", 8, b"WAVE", "audio/wav"),
    (b"", 4, b"ftyp", "video/mp4"),
)
"""Beginning, offset, and what stands there."""

_ALSO: Final = {
    "image/jpeg": ("image/jpg", "image/pjpeg"),
    "application/zip": (
        "application/x-zip-compressed",
        "application/java-archive",
        "application/vnd.openxmlformats-",
        "application/vnd.oasis.opendocument.",
        "application/vnd.ms-",
        "application/vnd.android.package-archive",
    ),
    "application/gzip": ("application/x-gzip", "application/x-tar", "application/x-compressed"),
    "application/x-bzip2": ("application/x-tar", "application/x-bzip"),
    "application/x-xz": ("application/x-tar",),
    "application/vnd.rar": ("application/x-rar",),
    "application/x-ole-storage": ("application/msword", "application/vnd.ms-", "application/vnd.visio"),
    "application/vnd.sqlite3": ("application/x-sqlite3",),
    "application/ogg": ("audio/", "video/ogg"),
    "video/x-matroska": ("video/webm", "audio/"),
    "audio/wav": ("audio/",),
    "video/mp4": ("video/", "audio/", "image/heic", "image/heif", "image/avif"),
}
"""Beginnings of the names under which the same bytes go, too."""

_CERTAIN: Final = frozenset(
    {"application/pdf", "image/png", "image/jpeg", "image/gif", "image/webp", "application/zip", "application/gzip"}
)
"""Types of which every file begins as listed: whatever is called so and does not is something else."""
_OPAQUE: Final = "application/octet-stream"


def sniff(content: bytes) -> str | None:
    """The media type that `content` begins like, None when it is none of the known ones."""
    for start, media_type in _STARTS:
        if content.startswith(start):
            return media_type
    for start, offset, mark, media_type in _INSIDE:
        if content.startswith(start) and content.startswith(mark, offset):
            return media_type
    return None


def fits(declared: str, sniffed: str | None) -> bool:
    """Tell whether content that begins like `sniffed` may be what was declared, a media type without parameters."""
    if sniffed is None:
        return declared not in _CERTAIN
    family = declared.rpartition("+")[2]
    return (
        declared in (_OPAQUE, sniffed)
        or declared.startswith(_ALSO.get(sniffed, ()))
        or (family != declared and f"application/{family}" == sniffed)
    )
