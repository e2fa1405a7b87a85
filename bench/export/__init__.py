"""What users do with an exported model."""
