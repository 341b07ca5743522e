"""Random generators that are named by their purpose, so that no draw depends on the order of other draws."""

import hashlib

import numpy as np


def generator(seed: int, *names: object) -> np.random.Generator:
    """A generator that depends on the seed and the names alone.

    The same seed and names give the same numbers in every process and on every machine. A new draw elsewhere in
    the pipeline changes nothing here.

    Args:
        seed: the run's seed.
        names: the purpose of the draw, for instance ``("census", "addition")``.
    """
    digest = hashlib.blake2b(repr((seed, *map(str, names))).encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))
