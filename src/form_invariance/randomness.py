"""Random generators named by what they are for, so that no draw depends on the order of others."""

import hashlib

import numpy as np


def generator(seed: int, *names: object) -> np.random.Generator:
    """A generator that depends on `seed` and on the names alone.

    The same seed and names give the same numbers in every process and on every machine; a draw added
    elsewhere in the pipeline changes nothing here.

    Args:
        seed: the run's seed.
        names: what the draw is for, for instance ``("census", "addition")``.
    """
    digest = hashlib.blake2b(repr((seed, *map(str, names))).encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))
