"""Translation jobs: streams, files and folders, restartable and in parallel."""
