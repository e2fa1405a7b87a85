"""Projects: each owns jobs, data sets, uploads and models, and only its keys see them."""
