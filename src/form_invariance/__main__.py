"""`python -m form_invariance COMMAND`."""

import sys

from form_invariance.workflow.job_server import ask

status = ask(sys.argv[1:])
if status is None:
    from form_invariance.cli import main

    status = main()
raise SystemExit(status)
