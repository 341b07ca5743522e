"""The one style of all figures."""
