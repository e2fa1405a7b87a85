"""Inspects images whose pixels have classes: regions of COCO and LabelMe, and indexed PNG masks.

`find.py` recognises pairs of folders, `png.py` and `painting.py` make the mask of one image,
`reading.py` makes all of them, and `judge.py` decides whether the data set is valid.
"""
