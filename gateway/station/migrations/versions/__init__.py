"""One module for each revision, in one line. What a revision does is never changed once a release has it."""
