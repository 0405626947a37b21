"""Tags and documents: taken out before translation, and put back after it."""
