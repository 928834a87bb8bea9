"""Tables, pictures and pages: what people see of results."""
