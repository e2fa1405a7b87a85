"""The CPU plays the GPU: its kernels are replaced by ones that are wrong beyond a limit of rows."""

from typing import ClassVar

import pytest
import torch
from torch import library as operators
from torch.nn import functional

from worker.hardware.split_products import split_products
from worker.hardware.torch_settings import apply_settings

LIMIT = 8


class WrongBeyond:
    """A kernel of torch that leaves the rows beyond the limit empty, as on gfx1201."""

    seen: ClassVar[list[int]] = []

    def __init__(self, kernel):
        self._kernel = kernel

    def call_boxed(self, keys, *tensors, **options):
        out = self._kernel.call_boxed(keys, *tensors, **options)
        self.seen.append(out.shape[-2])
        if out.dtype == torch.float32:
            out[..., LIMIT:, :] = 0
        return out


@pytest.fixture(autouse=True)
def wrong_device(monkeypatch):
    real = operators.get_kernel
    monkeypatch.setattr(operators, "get_kernel", lambda name, key: WrongBeyond(real(name, key)))
    monkeypatch.setattr(WrongBeyond, "seen", [])


@pytest.fixture
def split():
    undo = split_products(torch, max_rows=LIMIT, key="CPU")
    yield
    undo()


def draw(*size):
    return torch.randn(size, generator=torch.Generator().manual_seed(sum(size)))


CALLS = {
    "mm": lambda: draw(21, 4) @ draw(4, 3),
    "mm of a transposed view": lambda: draw(4, 21).t() @ draw(4, 3),
    "addmm with a row": lambda: torch.addmm(draw(3), draw(21, 4), draw(4, 3), beta=2, alpha=3),
    "addmm with a matrix": lambda: torch.addmm(draw(21, 3), draw(21, 4), draw(4, 3)),
    "linear": lambda: functional.linear(draw(3, 7, 4), draw(5, 4), draw(5)),
    "bmm": lambda: torch.bmm(draw(2, 21, 4), draw(2, 4, 3)),
    "baddbmm": lambda: torch.baddbmm(draw(2, 21, 3), draw(2, 21, 4), draw(2, 4, 3)),
    "into": lambda: torch.mm(draw(21, 4), draw(4, 3), out=torch.empty(21, 3)),
    "into another size": lambda: torch.mm(draw(21, 4), draw(4, 3), out=torch.empty(0)),
}


@pytest.mark.parametrize("name", CALLS)
def test_products_with_too_many_rows_are_right(name, request):
    want = CALLS[name]()
    request.getfixturevalue("split")

    assert torch.allclose(CALLS[name](), want, atol=1e-5)
    assert max(WrongBeyond.seen) <= LIMIT
    assert len(WrongBeyond.seen) == 3


def test_the_stand_in_is_wrong_without_the_split():
    undo = split_products(torch, max_rows=1000, key="CPU")
    try:
        assert (draw(21, 4) @ draw(4, 3))[LIMIT:].abs().max() == 0
    finally:
        undo()


def test_gradients_are_right_too(request):
    def gradients():
        a, b = draw(21, 4).requires_grad_(), draw(4, 3).requires_grad_()
        return torch.autograd.grad((a @ b).square().sum(), [a, b])

    want = gradients()
    request.getfixturevalue("split")

    for mine, right in zip(gradients(), want, strict=True):
        assert torch.allclose(mine, right, atol=1e-4)


@pytest.mark.usefixtures("split")
def test_small_and_narrow_products_are_computed_at_once():
    assert (draw(LIMIT, 4) @ draw(4, 3)).shape == (LIMIT, 3)
    assert (draw(21, 4).bfloat16() @ draw(4, 3).bfloat16()).shape == (21, 3)
    assert WrongBeyond.seen == [LIMIT, 21]


@pytest.mark.usefixtures("split")
def test_an_invalid_product_has_torchs_own_message():
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        draw(21, 4) @ draw(5, 3)


def test_a_build_without_the_device_reports_a_problem(monkeypatch):
    monkeypatch.undo()
    if torch.cuda.is_available():
        pytest.skip("this torch has kernels for a GPU")
    _, problems = apply_settings(torch, {"redkiln.max_product_rows": "524288"})

    assert list(problems) == ["redkiln.max_product_rows"]
