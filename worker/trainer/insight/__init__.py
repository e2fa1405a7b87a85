"""What a run says of itself while it trains, and of its efficiency in the end."""
