"""Measures what a device can do: the tests, their order and duration, and recommendations.

`plan` decides what to measure, `operations` contains the tests, `timing` runs them alternately,
`allreduce` and `comparison` use separate processes, `advice` derives recommendations, and `card`
and `picture` present the results.
"""
