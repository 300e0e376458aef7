"""A headless service for systemd."""
