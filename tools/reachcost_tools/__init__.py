"""What maintainers run: nothing here is part of the package."""
