"""The report: one HTML file with the questions, their answers computed from the tables, and the figures."""
