"""Damage to a file's bytes."""


def damages(content, rng):
    """Over and over: cut short, bits flipped, a piece lost, no longer UTF-8, empty, and another kind of file."""
    while True:
        place = int(rng.integers(len(content)))
        yield content[:place]
        flipped = bytearray(content)
        for _ in range(rng.integers(1, 4)):
            flipped[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        yield bytes(flipped)
        yield content[:place] + content[place + int(rng.integers(1, 40)) :]
        yield content[:place] + bytes(rng.integers(128, 256, size=2).tolist()) + content[place:]
        yield b""
        yield b"PAR1 no table PAR1"
