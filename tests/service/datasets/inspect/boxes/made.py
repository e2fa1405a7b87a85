"""Small data sets with boxes, and what an index says about them."""

import io
import json
import random
import zipfile

from PIL import Image

ORIENTATION = 0x0112


def picture(size=(40, 20), *, seed=0, orientation=1):
    """A PNG of noise, which looks like no other."""
    width, height = size
    image = Image.frombytes("RGB", size, random.Random(seed).randbytes(3 * width * height))
    exif = Image.Exif()
    if orientation != 1:
        exif[ORIENTATION] = orientation
    buffer = io.BytesIO()
    image.save(buffer, "PNG", exif=exif)
    return buffer.getvalue()


def pictures(*names, size=(40, 20)):
    """Pictures by name."""
    return {name: picture(size, seed=number) for number, name in enumerate(names)}


def coco(names, annotations, *, categories=("cat", "dog"), size=(40, 20)):
    """A COCO file; annotations are (image number, category number, bbox, more fields)."""
    content = {
        "info": {"description": "made by a test"},
        "images": [
            {"id": number, "file_name": name, "width": size[0], "height": size[1]}
            for number, name in enumerate(names)
        ],
        "categories": [{"id": 5 + n, "name": name} for n, name in enumerate(categories)],
        "annotations": [
            {"id": number, "image_id": image, "category_id": 5 + label, "bbox": box, **more}
            for number, (image, label, box, more) in enumerate(annotations)
        ],
    }
    return json.dumps(content).encode()


def voc(objects, *, size=(40, 20), name="1.png"):
    """A VOC file; objects are (name, xmin, ymin, xmax, ymax, difficult)."""
    lines = [f"<annotation><filename>{name}</filename>"]
    lines.append("<size><width>{}</width><height>{}</height></size>".format(*size))
    for name, *corners, difficult in objects:
        box = "".join(f"<{side}>{value}</{side}>" for side, value in
                      zip(("xmin", "ymin", "xmax", "ymax"), corners, strict=True))  # fmt: skip
        lines.append(f"<object><name>{name}</name><difficult>{difficult}</difficult>"
                     f"<bndbox>{box}</bndbox></object>")  # fmt: skip
    return "\n".join([*lines, "</annotation>"]).encode()


def labelme(shapes, *, size=(40, 20), image="1.png"):
    """A LabelMe file; shapes are (label, kind, points)."""
    content = {
        "version": "5.5.0",
        "shapes": [
            {"label": label, "shape_type": kind, "points": points} for label, kind, points in shapes
        ],
        "imagePath": image,
        "imageData": "AAAA",
        "imageWidth": size[0],
        "imageHeight": size[1],
    }
    return json.dumps(content).encode()


def zipped(files):
    """A zip of files by name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def boxes(index):
    """The boxes of each image by path: class name and corners."""
    return {
        image.path: [(index.classes[box.label], box.xyxy) for box in image.boxes]
        for images in index.splits.values()
        for image in images
    }


def splits(index):
    """The paths of each split."""
    return {split: [image.path for image in images] for split, images in index.splits.items()}


def faults(report):
    """Code and place of each error and of everything that was skipped."""
    return {(one.code, one.path) for one in [*report.errors, *report.skipped]}
