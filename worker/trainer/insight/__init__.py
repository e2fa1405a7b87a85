"""Reports about a run while it trains, and about its efficiency at the end."""
