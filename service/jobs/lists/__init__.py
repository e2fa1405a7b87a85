"""Jobs in an order: the queue, and lists that are searched and sorted."""
