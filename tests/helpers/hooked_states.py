"""The residual stream of the last token by transformers' forward hooks, over whole sequences."""

import torch


class HookedStates:
    """A Llama of transformers whose last token's state is read at every point, or replaced at one.

    Points count from layer 0: 2 L is after the attention of layer L, 2 L + 1 after its MLP.
    """

    def __init__(self, model):
        self.model, self.at, self.given, self.states = model.eval(), None, None, {}
        for layer, block in enumerate(model.model.layers):
            block.self_attn.register_forward_hook(self._after_attention(2 * layer))
            block.register_forward_pre_hook(lambda block, inputs: setattr(self, "before", inputs[0][:, -1]))
            block.register_forward_hook(self._after_mlp(2 * layer + 1))

    def _after_attention(self, point):
        def hook(module, inputs, output):
            written = output[0].clone()
            self.states[point] = self.before + written[:, -1]
            if self.at == point:
                written[:, -1] = self.given - self.before
            return (written, *output[1:])

        return hook

    def _after_mlp(self, point):
        def hook(module, inputs, output):
            x = (output[0] if isinstance(output, tuple) else output).clone()
            self.states[point] = x[:, -1].clone()
            if self.at == point:
                x[:, -1] = self.given
            return (x, *output[1:]) if isinstance(output, tuple) else x

        return hook

    @torch.no_grad()
    def run(self, tokens, at=None, given=None):
        """Logits of the last token, (B, V), and its states, (B, points, d); at a point it takes what is given."""
        self.at, self.given, self.states = at, given, {}
        z = self.model(tokens).logits[:, -1]
        return z, torch.stack([self.states[point] for point in sorted(self.states)], 1)

    def exchanged(self, tokens, donors):
        """Logits with the donors' states at each point alone, (B, points, V)."""
        states = self.run(donors)[1]
        return torch.stack([self.run(tokens, at, states[:, at])[0] for at in range(states.shape[1])], 1)
