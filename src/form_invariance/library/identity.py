"""A digest of a model's weights, which shows whether means were made with this model."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import torch
import xxhash
from torch import Tensor

from form_invariance.model.decoder import Decoder


def weights_digest(model: Decoder) -> str:
    """A digest of the bits of all weights in their precision, the same on every device."""
    digest = xxhash.xxh3_128(repr(model.config).encode())
    for weight in _tensors(model):
        kind = {2: torch.int16, 4: torch.int32}[weight.element_size()]
        digest.update(weight.detach().contiguous().view(kind).cpu().numpy().data)
    return str(digest.hexdigest())


def _tensors(part: object) -> Iterator[Tensor]:
    """The tensors of a dataclass and of the dataclasses in it."""
    if isinstance(part, Tensor):
        yield part
    elif isinstance(part, list):
        for item in part:
            yield from _tensors(item)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _tensors(getattr(part, field.name))
