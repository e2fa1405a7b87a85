import pytest
import torch

from worker.trainer.detection.assignment import CHOICES, assign_cells, find_candidates
from worker.trainer.detection.detector import place_cells

SIDE = 64
POINTS, STRIDES = place_cells(SIDE)


def assign(boxes, labels, *, predicted=None, scores=None):
    boxes, labels = torch.tensor([boxes], dtype=torch.float32), torch.tensor([labels])
    if predicted is None:
        predicted = torch.cat([POINTS - 12, POINTS + 12], dim=1)[None]
    if scores is None:
        scores = torch.full((1, len(POINTS), 2), 0.1)
    return assign_cells(
        boxes, labels, predicted=predicted, scores=scores, points=POINTS, image_size=SIDE
    )


def cells_of(assignment, number):
    """The chosen cells of an object, the best first."""
    quality, cells = assignment.quality[0, number], assignment.cells[0, number]
    return cells[quality > 0][quality[quality > 0].argsort(descending=True)].tolist()


def test_the_cells_of_an_object_are_inside_its_box():
    box = [10.0, 14.0, 40.0, 38.0]
    cells = cells_of(assign([box], [0]), 0)
    assert 0 < len(cells) <= CHOICES
    for x, y in POINTS[cells].tolist():
        assert box[0] < x < box[2]
        assert box[1] < y < box[3]


def test_the_cell_that_already_predicts_the_object_best_comes_first():
    box = [8.0, 8.0, 40.0, 40.0]
    predicted = torch.cat([POINTS - 6, POINTS + 6], dim=1)[None]
    predicted[0, 8 * 3 + 2] = torch.tensor(box)
    found = assign([box], [0], predicted=predicted)
    assert cells_of(found, 0)[0] == 8 * 3 + 2
    assert found.quality.max() == 1, "its box fits exactly"


def test_a_cell_with_the_wrong_class_comes_later():
    box = [8.0, 8.0, 40.0, 40.0]
    scores = torch.full((1, len(POINTS), 2), 0.1)
    scores[0, 8 * 3 + 2] = torch.tensor([0.9, 0.05])
    assert cells_of(assign([box], [0], scores=scores), 0)[0] == 8 * 3 + 2
    assert cells_of(assign([box], [1], scores=scores), 0)[0] != 8 * 3 + 2


def test_no_cell_belongs_to_two_objects():
    boxes = [[0.0, 0.0, 36.0, 36.0], [10.0, 10.0, 50.0, 50.0], [20.0, 4.0, 60.0, 40.0]]
    found = assign(boxes, [0, 1, 0])
    chosen = [cell for number in range(3) for cell in cells_of(found, number)]
    assert len(set(chosen)) == len(chosen)
    assert all(cells_of(found, number) for number in range(3))


@pytest.mark.parametrize("box", [[30.0, 30.0, 32.0, 31.0], [0.0, 0.0, 1.0, 1.0]])
def test_a_box_between_the_centres_gets_the_cell_that_it_lies_in(box):
    found = assign([box], [0])
    x, y = POINTS[cells_of(found, 0)[0]].tolist()
    assert abs(x - box[0]) <= 16
    assert abs(y - box[1]) <= 16


def test_a_place_without_an_object_gets_no_cell():
    found = assign([[0.0, 0.0, 40.0, 40.0]] * 2, [0, -1])
    assert cells_of(found, 0)
    assert not cells_of(found, 1)
    assert found.weights.sum(dim=2)[0].tolist() == pytest.approx([1, 0])


def test_an_image_without_any_object_is_valid():
    found = assign([[0.0] * 4] * 8, [-1] * 8)
    assert found.quality.sum() == found.weights.sum() == 0


def test_candidates_of_an_object_in_a_corner_stay_in_the_image():
    boxes = torch.tensor([[[0.0, 0.0, 20.0, 20.0], [50.0, 50.0, 64.0, 64.0]]])
    cells, may_be_chosen = find_candidates(boxes, points=POINTS, image_size=SIDE)
    assert cells.min() >= 0
    assert cells.max() < len(POINTS)
    assert may_be_chosen.any(dim=2).all()


def test_the_assignment_of_an_image_does_not_depend_on_its_batch():
    torch.manual_seed(0)
    corners = torch.rand(4, 6, 2) * 30
    boxes = torch.cat([corners, corners + 8 + 20 * torch.rand(4, 6, 2)], dim=-1)
    labels = torch.randint(2, (4, 6))
    predicted = torch.cat([POINTS - 9, POINTS + 9], dim=1).expand(4, -1, -1)
    scores = torch.rand(4, len(POINTS), 2)

    def part(places):
        return assign_cells(
            boxes[places],
            labels[places],
            predicted=predicted[places],
            scores=scores[places],
            points=POINTS,
            image_size=SIDE,
        )

    whole = part(slice(None))
    for image in range(4):
        alone = part(slice(image, image + 1))
        assert torch.equal(whole.cells[image], alone.cells[0])
        assert torch.equal(whole.quality[image], alone.quality[0])
