"""What a classifier gets wrong on the test split, as `evaluation.json` stores and the API shows it.

The most confident mistakes come first; some of them are wrong labels in the data.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

FILE_NAME = "evaluation.json"
PICTURE_NAME = "mistakes.png"
MOST_DENSE_CLASSES = 300
"""Most classes for which the API returns the whole confusion matrix."""


class EvaluationModel(BaseModel):
    """A part of an evaluation; unknown fields are ignored, so that newer files can be read."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ClassResult(EvaluationModel):
    """Scores of one class on the test split; None where a ratio has no samples.

    Attributes:
        num: Test samples of the class, or objects in them.
        precision: Share of its predictions that are right.
        recall: Share of its samples that are found.
        average_precision: Mean precision at each of its samples, if a sample can have several
            labels; of boxes, COCO's AP.
        average_precision_50: The same of boxes at an overlap of 0.5.
        threshold: Probability from which the class is a label, likewise.
        iou: Right pixels of masks, divided by those that are of the class or found as it; `f1` is
            then Dice, and `num` counts pixels.
    """

    name: str
    num: int
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    average_precision: float | None = None
    average_precision_50: float | None = None
    threshold: float | None = None
    iou: float | None = None


class Mistake(EvaluationModel):
    """A test sample that the model assigns to a wrong class, or an image with wrong boxes.

    Attributes:
        sample: Position in the test split, from 0.
        true: Its class, its labels, or its objects by class, in the data.
        predicted: Answer of the model.
        confidence: Probability of the predicted class; of several labels that of the most certain
            wrong decision; of boxes the highest score of a wrong one, 0 if objects are only missed;
            of masks the share of wrong pixels.
        true_confidence: Probability of the class in the data; of several labels 1 minus the
            confidence; of boxes the share of the objects that are found; of masks the mean IoU.
        label: Label, of several, that is most certainly wrong: found or missed.
        label_probability: Probability that the model gives to this label.
        text: Path of an image, the text itself, or the place of a row and its first cells.
        tile: Number of its tile in the picture, row by row from 0; None without a picture.
    """

    sample: int
    true: str
    predicted: str
    confidence: float
    true_confidence: float
    label: str | None = None
    label_probability: float | None = None
    text: str | None = None
    tile: int | None = None


class Tiles(EvaluationModel):
    """A picture of all listed mistakes: square tiles in rows.

    Attributes:
        side: Width and height of a tile in pixels.
        url: Address of the picture; None in the file itself.
    """

    name: str
    columns: int
    side: int
    url: str | None = None


class Confused(EvaluationModel):
    """One cell of the confusion matrix that is not empty."""

    true: str
    predicted: str
    num: int


class Evaluation(EvaluationModel):
    """How a classifier does on each class of the test split.

    Attributes:
        noun: Name of the samples: `images`, `texts` or `rows`.
        num_listed: Mistakes that are listed; at most 500 are.
        confused: Cells of the confusion matrix with at least one sample.
        matrix: Counts by true and predicted class, in the order of `classes`; None for more than
            300 classes, for several labels a sample, and in the file.
        has_labels: Whether a sample can have several labels.
        has_boxes: Whether the answers are boxes; the worst images come first, and their tiles have
            the true boxes in white and the found ones in orange, or in red if they are wrong.
        has_masks: Whether the answers are masks; the worst images come first, and their tiles have
            the image, its wrong pixels in red, the true mask, and the found one.
        threshold: Smallest score of the boxes that count for precision, recall and mistakes.
    """

    format: Literal[1] = 1
    noun: str
    classes: list[str]
    num_samples: int
    num_mistakes: int
    num_listed: int
    has_labels: bool = False
    has_boxes: bool = False
    has_masks: bool = False
    threshold: float | None = None
    per_class: list[ClassResult]
    confused: list[Confused] = Field(default_factory=list)
    matrix: list[list[int]] | None = None
    tiles: Tiles | None = None


class EvaluationFile(Evaluation):
    """`evaluation.json`: the evaluation and its mistakes, most confident first."""

    mistakes: list[Mistake] = Field(default_factory=list)


class SpecDifference(BaseModel):
    """A field of a job's spec that is not at its default.

    Attributes:
        pointer: JSON pointer of the field.
        by: `user` if the submitted spec sets it, `worker` if the worker replaced `auto`.
    """

    pointer: str
    default: object = None
    value: object = None
    by: Literal["user", "worker"]


class SpecDifferences(BaseModel):
    """A job's spec next to the defaults of its task."""

    task: str
    differences: list[SpecDifference]
