"""`python -m form_invariance COMMAND`."""

import os
import sys

from form_invariance.workflow.job_server import ask

try:
    status = ask(sys.argv[1:])
    if status is None:
        from form_invariance.cli import main

        status = main()
except BrokenPipeError:  # of a reader such as head
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    status = 141  # of a program that SIGPIPE ends
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    status = 130  # of a program that Ctrl-C ends
raise SystemExit(status)
