"""Inspects images whose objects are marked by boxes: COCO, YOLO, Pascal VOC and LabelMe.

`find.py` recognises the format by the names of files, one file for each format reads it, `frame.py`
turns coordinates into pixels of the displayed image, and `judge.py` decides what is usable.
"""
