"""Runs a program of the user's own as a job: its code, its folders, its bounds, what it leaves."""
