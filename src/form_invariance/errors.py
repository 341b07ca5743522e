"""The one exception that a user's mistake raises."""


class UserError(Exception):
    """A mistake in what the user gave: one sentence that says where, what is wrong, what would be right.

    The command line prints it without a traceback and exits with status 2.
    """
