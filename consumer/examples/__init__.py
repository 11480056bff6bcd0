"""Handlers that really do something, to start from: `triage` is a good citizen, `prompt` is not, `prompt_fixed` is."""
