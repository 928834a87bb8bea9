"""Pictures and pages for people who would rather look than read."""
