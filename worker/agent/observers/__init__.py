"""What follows an attempt while it runs: previews, TensorBoard, MLflow."""
