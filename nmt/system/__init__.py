"""What talks to the operating system: files, processes, signals, other machines."""
