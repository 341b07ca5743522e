"""Random generators that are named by their purpose, so that no draw depends on the order of other draws."""

import hashlib

import numpy as np


def generator(seed: int, *names: object) -> np.random.Generator:
    """A generator whose numbers depend on the run's seed and the names alone, on every machine.

    Args:
        names: the purpose of the draw, for instance ``("census", "addition")``.
    """
    digest = hashlib.blake2b(repr((seed, *map(str, names))).encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))
