"""What runs in the containers before and beside the service and the worker.

Standard library only: it starts before anything else, in whichever Python the base image has.
"""
