"""Predictions of a published model, as the API shows them."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ScoreView(BaseModel):
    """The probability of a class."""

    model_config = ConfigDict(populate_by_name=True)

    class_name: str = Field(alias="class")
    score: float


class MaskView(BaseModel):
    """The class of each pixel of an image, its EXIF orientation applied.

    Attributes:
        png: An indexed PNG in base64; the value of a pixel is the place of its class in the
            model's classes.
    """

    width: int
    height: int
    png: str


class BoxView(BaseModel):
    """An object in an image.

    Attributes:
        score: Certainty of the model, from 0 to 1.
        box: Left, top, right and bottom in pixels of the image, its EXIF orientation applied.
        mask: 1 for each pixel of the object in the image, of a model that finds masks.
    """

    model_config = ConfigDict(populate_by_name=True)

    class_name: str = Field(alias="class")
    score: float
    box: tuple[float, float, float, float]
    mask: MaskView | None = None


class PixelShareView(BaseModel):
    """The share of an image's pixels that have a class."""

    model_config = ConfigDict(populate_by_name=True)

    class_name: str = Field(alias="class")
    share: float


class PredictionView(BaseModel):
    """The answer for one input.

    Attributes:
        input: Name of the input: its file, or its file and line.
        class_name: The most probable class, of a classifier.
        labels: All labels that were found, if an input can have several.
        value: The predicted number, of a regression.
        scores: Probabilities, the highest first, of a classifier.
        boxes: Objects of an image, the most certain first, of a detector.
        pixels: Classes of an image's pixels, the most frequent first, of a segmenter.
        mask: The class of each pixel, likewise.
    """

    model_config = ConfigDict(populate_by_name=True)

    input: str
    class_name: str | None = Field(None, alias="class")
    labels: list[str] | None = None
    value: float | None = None
    scores: list[ScoreView] = Field(default_factory=list)
    boxes: list[BoxView] | None = None
    pixels: list[PixelShareView] | None = None
    mask: MaskView | None = None


class SkippedView(BaseModel):
    """An input that could not be used, and why."""

    input: str
    reason: str


class PredictionsView(BaseModel):
    """Predictions for the inputs of a request; `redkiln predict --json` prints the same.

    Attributes:
        model: Name of the model's file.
        verified: Whether the export found the file to agree with the trained model; None without a
            manifest.
        notes: Notes about the inputs, such as categories that the training table did not have.
    """

    model: str
    job_id: str
    task: str
    verified: bool | None
    predictions: list[PredictionView]
    skipped: list[SkippedView]
    notes: list[str]


class PredictRequest(BaseModel):
    """Texts, or rows as objects by column name."""

    model_config = ConfigDict(extra="forbid")

    inputs: list[str | dict[str, Any]] = Field(min_length=1, max_length=1000)
