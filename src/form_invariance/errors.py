"""The one exception that a user's mistake raises."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """A mistake in what the user gave: one sentence that says where, what is wrong, what would be right.

    The command line prints it without a traceback and exits with status 2.
    """


@contextmanager
def in_one_sentence(opening: str) -> Iterator[None]:
    """Tell what a library written in Rust says of a user's file in one line that begins with `opening`.

    Raises:
        UserError: the library raised, or panicked.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic is no Exception
        raise UserError(f"{opening}: {' '.join(str(error).split())}") from None
