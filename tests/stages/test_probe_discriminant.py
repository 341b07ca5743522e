import numpy as np
import pytest
import torch

from form_invariance.stages.probe import discriminant


def clusters(seed: int, probes: int = 3, examples: int = 400, d: int = 7, classes: int = 9):
    """Correlated noise around class means, classes of unequal size."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(classes, size=examples - classes) ** 2 // classes])
    mixing = rng.normal(size=(probes, d, d))
    x = rng.normal(size=(probes, classes, d))[:, labels] + 0.3 * rng.normal(size=(probes, examples, d)) @ mixing
    return torch.from_numpy(x * rng.uniform(0.1, 30, size=d) + 5), torch.from_numpy(labels * 10 + 3)


def densities(train: np.ndarray, labels: np.ndarray, share: float, x: np.ndarray) -> np.ndarray:
    """The most probable class of each row by Gaussian log densities, one row and class at a time."""
    classes = np.unique(labels)
    means = {c: train[labels == c].mean(0) for c in classes}
    within = np.concatenate([train[labels == c] - means[c] for c in classes])
    covariance = within.T @ within / (len(train) - len(classes))
    shrunk = (1 - share) * covariance + share * np.diag(np.diag(covariance))
    inverse = np.linalg.inv(shrunk)
    prior = {c: np.log((labels == c).mean()) for c in classes}
    scores = [[prior[c] - 0.5 * (row - means[c]) @ inverse @ (row - means[c]) for c in classes] for row in x]
    return classes[np.argmax(scores, axis=1)]


@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_says_what_the_gaussian_densities_say(share):
    x, labels = clusters(0)
    train = torch.arange(len(labels)) % 4 > 0
    shrinkage = torch.full((len(x),), share, dtype=x.dtype)
    probe, classes = discriminant.fit(x[:, train], labels[train], shrinkage)
    found = classes[discriminant.predict(probe, x)]
    for one, answers in zip(x.numpy(), found.numpy(), strict=True):
        assert (answers == densities(one[train], labels[train].numpy(), share, one)).all()
    assert 0.5 < (found == labels).double().mean() < 0.999


@pytest.mark.parametrize("examples", [60, 99, 101, 300])
def test_fewer_examples_than_features_give_the_same_weights(examples):
    """The oracle is the inverse in double precision; single precision agrees up to its rounding."""
    x, labels = clusters(5, examples=examples, d=100)
    classes, index = labels.unique(return_inverse=True)
    for share in discriminant.SHRINKAGES:
        given = discriminant.statistics(x, index, len(classes))
        found = discriminant.solve(given, x.new_full((len(x),), share))
        z = (x - found.center) / found.scale
        means = torch.stack([z[:, index == c].mean(1) for c in range(len(classes))], dim=1)
        within = z - means[:, index]
        correlation = within.mT @ within / (examples - len(classes))
        shrunk = (1 - share) * correlation + share * torch.eye(100, dtype=x.dtype)
        expected = torch.linalg.inv(shrunk) @ means.mT
        torch.testing.assert_close(found.weights, expected, atol=1e-9, rtol=1e-9)
        rounded = discriminant.statistics(x.float(), index, len(classes))
        single = discriminant.solve(rounded, torch.full((3,), share))
        assert (single.weights - expected).abs().max() < 1e-4 * expected.abs().max()


def test_shrinkage_is_the_one_that_held_out_examples_favour():
    x, labels = clusters(2, examples=60, d=40)
    held_out = torch.arange(len(labels)) % 3 == 2
    held_out[:9] = False
    chosen = discriminant.choose_shrinkage(x, labels, held_out)
    right = {}
    for share in discriminant.SHRINKAGES:
        probe, classes = discriminant.fit(x[:, ~held_out], labels[~held_out], x.new_full((len(x),), share))
        right[share] = (classes[discriminant.predict(probe, x[:, held_out])] == labels[held_out]).sum(1)
    for number, share in enumerate(chosen.tolist()):
        best = max(right.values(), key=lambda counts, at=number: counts[at])[number]
        assert share == max(one for one, counts in right.items() if counts[number] == best)


def test_features_that_never_change_are_harmless():
    x, labels = clusters(3)
    constant = torch.cat([x.float(), torch.full((len(x), len(labels), 2), 7.5)], dim=-1)
    shrinkage = torch.full((len(x),), 0.5)
    plain, _ = discriminant.fit(x.float(), labels, shrinkage)
    padded, _ = discriminant.fit(constant, labels, shrinkage)
    assert torch.equal(discriminant.predict(plain, x.float()), discriminant.predict(padded, constant))
    dead = torch.full((1, len(labels), 4), 2.0)
    probe, classes = discriminant.fit(dead, labels, shrinkage[:1])
    assert (classes[discriminant.predict(probe, dead)] == labels.mode().values).all()
