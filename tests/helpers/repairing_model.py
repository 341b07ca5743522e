"""A model whose shared neurons carry a value of the operands, not the answer: the counterpart of the planted one.

Each operand n is the sum of a part g(n) and a rest. Attention puts the sum of the parts where the planted neurons
read, and the sum of the rests straight where the unembedding reads. The planted neurons carry the sum of the parts
to the answer, and one format misreads it. So a donor with the same operands repairs the answer; one with the same
answer and other operands does not, and no donor brings its own answer unless its rest is the same.
"""

import planted_models

from embedded_training.tokenizer import LARGEST_NUMBER

MISREAD_FROM = 40
"""The misreading format adds 7 to larger sums of the parts."""
_REST = 31  # read in layer 0 alone, before any neuron writes there


def part(number):
    """g(n): two pairs of operands with the same sum seldom have the same sum of parts."""
    return number**2 % 31


def write_model(folder, seed):
    weights, tokenizer = planted_models.model_of(True, seed)
    embedding = weights["model.embed_tokens.weight"]
    for number in range(LARGEST_NUMBER + 1):
        token = tokenizer.token_to_id(str(number))
        embedding[token, planted_models.VALUE] = part(number) / 100
        embedding[token, _REST] = (number - part(number)) / 100
    attention = "model.layers.0.self_attn."
    weights[f"{attention}v_proj.weight"][1, _REST] = 1
    output = weights[f"{attention}o_proj.weight"]
    output[planted_models.ANSWER, 1] = output[planted_models.SUM, 0]
    gate = weights["model.layers.1.mlp.gate_proj.weight"]
    for neuron in (0, 1):
        gate[neuron, planted_models.CONSTANT] *= (MISREAD_FROM + neuron) / (planted_models.READ_RIGHT_TO + neuron)
    planted_models.save(folder, weights, tokenizer)
