"""Code that runs in the containers before and next to the service and the worker.

It only uses the standard library: it starts before anything else, in the Python of any base image.
"""
