import numpy as np
import pytest
import torch

from worker.export.scoring.temperature import (
    apply_temperatures,
    find_label_temperatures,
    find_temperature,
)


def samples_of(temperature, num=2000):
    """Labels drawn from the probabilities of logits, and the logits times a temperature."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(num, 3, generator=generator)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)
    return logits * temperature, labels


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_undoes_too_much_and_too_little_certainty(temperature):
    assert find_temperature(*samples_of(temperature)) == pytest.approx(temperature, rel=0.1)


def test_a_few_rows_without_a_mistake_do_not_make_a_model_more_certain():
    logits = torch.tensor([[2.0, -2.0]] * 43)
    assert find_temperature(logits, torch.zeros(43, dtype=torch.int64)) == 1.0


def test_each_of_several_labels_gets_the_temperature_that_suits_it():
    random = np.random.default_rng(0)
    logits = 2 * random.normal(size=(2000, 3))
    labels = random.random(logits.shape) < 1 / (1 + np.exp(-logits))
    wanted = [0.5, 1.0, 3.0]
    given = (1 / (1 + np.exp(-logits * wanted))).astype(np.float32)
    found = find_label_temperatures(given, labels)
    assert found == pytest.approx(wanted, rel=0.15)
    calibrated = apply_temperatures(given, found)
    np.testing.assert_allclose(calibrated, 1 / (1 + np.exp(-logits)), atol=0.04)


def test_a_label_without_a_mistake_on_few_samples_becomes_less_certain():
    targets = np.array([[0], [1]] * 10)
    sure = np.where(targets == 1, 0.999, 0.001).astype(np.float32)
    (temperature,) = find_label_temperatures(sure, targets)
    calibrated = apply_temperatures(sure, [temperature])
    assert 0.955 < calibrated.max() < 0.99  # 21 of 22 is 0.955; the prior holds it back
