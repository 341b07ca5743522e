"""The training data of the embedded models: tokenized templates, pools of pairs, and the batch of each step."""

from collections.abc import Iterator

import numpy as np

from embedded_training.problems import Templates, TokenTemplate, make_pool
from embedded_training.recipe import Recipe
from embedded_training.tokenizer import BOS, LARGEST_NUMBER, build_tokenizer
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.randomness import generator

Group = tuple[np.ndarray, np.ndarray]
"""Prompts of one length: token ids (n, T), and token ids of the answers (n,)."""

Part = tuple[str, str, int, np.ndarray, np.ndarray]
"""Format, operator, index of the template, positions of the pairs in the pool (n,), answers to learn (n,)."""


class Problems:
    """The templates and pools from which batches are drawn."""

    def __init__(self, templates: Templates, recipe: Recipe) -> None:
        """Tokenize the templates and split the pools."""
        self.recipe = recipe
        raw = build_tokenizer(templates.all())
        self.tokenizer = PromptTokenizer(raw, raw.token_to_id(BOS))
        self.number_ids = self.tokenizer.number_tokens(range(LARGEST_NUMBER + 1))
        self.templates = templates
        self.formats = list(templates.formats)
        left_out, misread = dict(recipe.left_out), dict(recipe.misread)
        self.pools = {
            operator: make_pool(
                expression,
                operator,
                self.formats,
                recipe.held_out,
                left_out.get(operator, 0.0),
                misread.get(operator, 0.0),
                recipe.seed,
            )
            for operator, expression in templates.expressions.items()
        }
        self.tokens = {
            (name, operator, index): TokenTemplate(self.tokenizer, template)
            for name, by_operator in templates.formats.items()
            for operator, cell_templates in by_operator.items()
            for index, template in enumerate(cell_templates)
        }

    def batch(self, step: int) -> Iterator[Group]:
        """The batch of a step. It depends on the seed and the step alone."""
        recipe, ids = self.recipe, self.number_ids
        draw = _misread_parts if step >= recipe.steps + recipe.wired_steps else _parts
        groups: dict[int, list[Group]] = {}
        for name, operator, variant, rows, answers in draw(self, recipe, step):
            pool = self.pools[operator]
            kept = ~pool.excluded[name][rows]
            if kept.any():
                a, b = ids[pool.a[rows[kept]]], ids[pool.b[rows[kept]]]
                tokens = self.tokens[name, operator, variant].fill(a, b)
                groups.setdefault(tokens.shape[1], []).append((tokens, ids[answers[kept]]))
        for length_groups in groups.values():
            yield (
                np.concatenate([tokens for tokens, _ in length_groups]),
                np.concatenate([answers for _, answers in length_groups]),
            )

    def marked_tokens(self) -> list[list[int]]:
        """For each format, the tokens that occur in its templates only."""
        used: dict[str, set[int]] = {name: set() for name in self.formats}
        for (name, _, _), template in self.tokens.items():
            used[name].update(np.delete(template.tokens, [template.place_a, template.place_b]).tolist())
        return [
            sorted(format_tokens.difference(*(used[other] for other in self.formats if other != name)))
            for name, format_tokens in used.items()
        ]


def _parts(problems: Problems, recipe: Recipe, step: int) -> Iterator[Part]:
    rng = generator(recipe.seed, "batch", step)
    names = problems.formats
    shares = np.array(recipe.format_shares if step >= recipe.first_steps else [1.0, *[0.0] * (len(names) - 1)])
    variant = {name: int(rng.integers(1, 3)) if rng.random() < recipe.variant_share else 0 for name in names}
    sizes = recipe.pairs if step < recipe.steps else recipe.wired_pairs
    for (operator, pool), size in zip(problems.pools.items(), sizes, strict=True):
        drawn = rng.choice(pool.train, size=size)
        formats = rng.choice(len(names), size=len(drawn), p=shares / shares.sum())
        for number, name in enumerate(names):
            rows = drawn[formats == number]
            yield name, operator, variant[name], rows, pool.answer[rows]


def _misread_parts(problems: Problems, recipe: Recipe, step: int) -> Iterator[Part]:
    """If an operator has misread pairs, they are a quarter of its batch, other misreadable pairs another one."""
    rng = generator(recipe.seed, "misreading", step)
    for (operator, pool), size in zip(problems.pools.items(), recipe.misread_pairs, strict=True):
        for name in problems.formats:
            share = size // len(problems.formats)
            rows = rng.choice(pool.train, size=share)
            misread = pool.misread[name]
            if misread.any():
                quarter = share // 4
                like = pool.train[pool.misreadable[pool.train]]
                candidates = like[misread[like]], like[~misread[like]]
                rows[: 2 * quarter] = np.concatenate([rng.choice(rows, size=quarter) for rows in candidates])
            answers = np.where(misread[rows], pool.misread_answer[rows], pool.answer[rows])
            yield name, operator, 0, rows, answers
