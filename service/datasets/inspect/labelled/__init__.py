"""Images with a `labels.csv` next to them, which gives each image one label or several."""
