"""The report: one HTML page about results and how they were made."""
