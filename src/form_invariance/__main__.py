"""`python -m form_invariance COMMAND`."""

from form_invariance.cli import main

raise SystemExit(main())
