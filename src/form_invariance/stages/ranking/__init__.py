"""The final ranking by mean exact effect."""
