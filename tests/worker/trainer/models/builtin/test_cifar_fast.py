import pytest
import torch

from worker.trainer.models.builtin.cifar_fast import CifarFast, Whitening, spread


@pytest.mark.parametrize("side", [8, 12, 17, 32])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_any_side_give_logits(side, channels):
    model = CifarFast(channels=channels, image_size=side, num_classes=5)
    assert model(torch.rand(3, channels, side, side)).shape == (3, 5)


def test_whitened_patches_are_uncorrelated_with_equal_variance():
    torch.manual_seed(0)
    smooth = torch.nn.functional.avg_pool2d(torch.randn(200, 3, 20, 20), 3, 1)
    whitening = Whitening(3)
    whitening.fit(smooth)
    assert not whitening.weight.requires_grad
    parts = whitening(smooth)[:, :12].transpose(0, 1).flatten(1)
    covariance = torch.cov(parts)
    off_diagonal = covariance - torch.diag(covariance.diagonal())
    assert off_diagonal.abs().max() < 1e-2
    assert torch.allclose(covariance.diagonal(), torch.ones(12), atol=0.05)


def test_each_component_is_returned_with_both_signs():
    whitening = Whitening(1)
    whitening.fit(torch.randn(50, 1, 9, 9))
    out = whitening(torch.randn(2, 1, 9, 9))
    assert torch.allclose(out[:, :4], -out[:, 4:])


def test_patches_without_any_variance_stay_finite():
    whitening = Whitening(3)
    whitening.fit(torch.ones(4, 3, 8, 8))
    assert whitening.weight.isfinite().all()


def test_the_whitening_is_saved_with_the_weights_and_never_trained():
    model = CifarFast(channels=3, image_size=8, num_classes=2)
    model.fit(torch.randn(64, 3, 8, 8))
    assert "whitening.weight" in model.state_dict()
    assert "whitening.weight" not in dict(model.named_parameters())
    other = CifarFast(channels=3, image_size=8, num_classes=2)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.whitening.weight, model.whitening.weight)


def test_fitting_uses_evenly_spaced_images():
    rows = torch.arange(100, 10_100)
    chosen = spread(rows, image_size=32)
    assert len(chosen) == 976
    assert (chosen[0], chosen[-1]) == (100, 10_099)
    assert spread(rows[:10], image_size=32).tolist() == rows[:10].tolist()
