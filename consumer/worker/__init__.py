"""The child process: the mold that loads the handler once, and the workers forked from it, one run at a time.

Never imports the broker client, the web server or the supervisor's side.
"""
