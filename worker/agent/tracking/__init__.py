"""MLflow: `follower` starts the process `__main__`, which reports one attempt to an MLflow server.

Only the process imports the package `mlflow`, which is an optional extra.
"""
