"""Measuring what a device can do: which tests, in which order, how long, and what follows from it.

`plan` decides what is measured, `operations` are the tests, `timing` runs them by turns,
`allreduce` and `comparison` use processes of their own, `advice` draws the conclusions, `card` and
`picture` show them.
"""
