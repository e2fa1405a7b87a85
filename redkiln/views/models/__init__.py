"""Published models as the API shows them: their predictions, and their registered versions."""
