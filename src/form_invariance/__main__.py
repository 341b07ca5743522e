"""`python -m form_invariance COMMAND`."""

import sys

from form_invariance.workflow.job_server import ask

try:
    status = ask(sys.argv[1:])
    if status is None:
        from form_invariance.cli import main

        status = main()
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    status = 130  # of a program that Ctrl-C ends
raise SystemExit(status)
