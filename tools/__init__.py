"""What is run on this repository and is not part of the package."""
