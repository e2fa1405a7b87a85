"""The reference of an export: what the trained module answers."""

import numpy as np
import pytest
import torch
from torch import nn

from worker.export.exportable import Exportable

IMAGES = np.random.default_rng(0).random((5, 3, 6, 6), dtype=np.float32)


class Seeing(nn.Module):
    """Notes the layout of its images, and joins their pixels by `view` if asked."""

    def __init__(self, *, views):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.head = nn.Conv2d(3, 4, 3), nn.Linear(64, 2)
        self.views, self.layouts = views, []

    def forward(self, images):
        self.layouts.append(images.is_contiguous())
        maps = self.layer(images)
        return self.head(maps.view(len(maps), -1) if self.views else maps.flatten(1))


@pytest.mark.parametrize(("views", "layouts"), [(False, [False]), (True, [False, True])])
def test_images_have_their_channels_last_where_the_module_allows_it(views, layouts):
    module = Seeing(views=views).eval().requires_grad_(False)
    wanted = module(torch.from_numpy(IMAGES)).numpy()
    module.layouts.clear()
    exportable = Exportable(module, examples={}, others={}, output="logits", architecture={})
    found = exportable.predict({"images": IMAGES})
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert module.layouts == layouts
