"""The door's TLS: a certificate that can be renewed while the door is open.

Owns the TLS context. Never serves with a certificate and a key that do not belong together.
"""

import ssl
from pathlib import Path


class BadCertificate(ValueError):
    """The certificate or its key cannot be used; `problems` has a sentence for each mistake."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class Certificate:
    """A certificate chain and its private key, both in PEM files."""

    def __init__(self, chain: Path, key: Path) -> None:
        """Nothing is read before `reload`."""
        self.paths = (chain, key)
        self.context = _context()

    def reload(self) -> None:
        """Read both files; connections from now on are served with them.

        Raises BadCertificate, and goes on with what it had.
        """
        chain, key = self.paths
        for context in (_context(), self.context):  # tried first: a context that was half changed serves nobody
            try:
                context.load_cert_chain(chain, key, password=_no_password)
            except OSError as error:  # ssl.SSLError is one of them
                reason = error.strerror or type(error).__name__
                raise BadCertificate([f"certificate {chain} with key {key}: {reason}"]) from error


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _no_password() -> str:
    # Without it OpenSSL would ask on the terminal, and the door would wait there.
    raise OSError(0, "the key has a password; take it off")
