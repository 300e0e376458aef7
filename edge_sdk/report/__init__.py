"""What is kept of a run, and how people see it: records, tables, pictures, running counts."""
