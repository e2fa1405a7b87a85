"""What detectors and segmenters share: backbone, pyramid, initial weights, and drawing batches."""
