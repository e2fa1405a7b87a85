"""Where images come from: archives, folders, arrays, built-in and public sets."""
