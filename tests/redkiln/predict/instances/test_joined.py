import numpy as np

from redkiln.annotations import class_colour
from redkiln.predict.instances.drawing import draw_detections
from redkiln.predict.instances.joined import list_objects, load_found, save_found
from redkiln.predict.instances.regions import decode

SIDE = 16


def found_objects():
    """The outputs of a file for two images, with places for two objects each; three are used."""
    boxes = np.array([[[0, 0, 8, 8], [8, 8, 16, 16]], [[0, 8, 8, 16], [0, 0, 0, 0]]], np.float32)
    scores = np.array([[0.9, 0.8], [0.7, 0.0]], np.float32)
    labels = np.array([[1, 0], [2, -1]], np.int64)
    masks = np.zeros((2, 2, 4, 4), np.uint8)
    masks[0, 0, :2, :2] = masks[0, 1, 2:, 2:] = masks[1, 0, 2:, :2] = 255
    return list_objects((boxes, scores, labels, masks), side=SIDE)


def test_objects_are_the_same_after_they_were_saved():
    objects = found_objects()
    arrays = save_found(objects, most=2)
    loaded = load_found(arrays, side=SIDE)
    assert arrays == {}
    for one, other in zip(objects, loaded, strict=True):
        np.testing.assert_array_equal(one.boxes, other.boxes)
        np.testing.assert_array_equal(one.labels, other.labels)
        np.testing.assert_array_equal(decode(one.regions, SIDE), decode(other.regions, SIDE))
    assert load_found({}, side=SIDE) is None


def test_the_pixels_of_an_object_get_the_colour_of_its_class():
    image = np.full((SIDE, SIDE, 1), 255, np.uint8)
    drawn = draw_detections(image, found_objects()[1])
    assert drawn.shape == (SIDE, SIDE, 3)
    assert drawn[8, 0].tolist() == list(class_colour(2))  # the outline
    assert drawn[12, 4].tolist() != [255, 255, 255]  # inside
    assert drawn[2, 12].tolist() == [255, 255, 255]  # elsewhere
