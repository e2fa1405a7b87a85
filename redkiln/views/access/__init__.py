"""Who may: keys and sessions of browsers."""
