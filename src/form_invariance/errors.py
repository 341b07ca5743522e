"""The exception for a mistake of the user, and a guard that turns errors of libraries into it."""

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """A mistake in the user's input. The message is one sentence: where, what is wrong, what would be right.

    The command line prints the message without a traceback and exits with status 2.
    """


@contextmanager
def in_one_sentence(opening: str) -> Iterator[None]:
    """Turn any error of a library into a UserError of one line that begins with `opening`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, UserError):
        raise
    except BaseException as error:  # a panic in Rust is a BaseException
        raise UserError(f"{opening}: {one_line(error)}") from None


@contextmanager
def exit_at_a_mistake() -> Iterator[None]:
    """Exit with the message of a UserError, because Snakemake would print where in the code it was raised."""
    try:
        yield
    except UserError as error:
        sys.exit(f"error: {error}")


def one_line(error: BaseException) -> str:
    """The beginning of an exception's message, on one line."""
    return textwrap.shorten(str(error), 500, placeholder=" ...")
