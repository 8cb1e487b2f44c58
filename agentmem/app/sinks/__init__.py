"""Where a run's measurements go besides its own directory: TensorBoard, W&B, MLflow, one file each."""
