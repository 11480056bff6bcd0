"""What `make` runs on a developer's machine; no part of the installed package."""
