"""What the tests that start the real program share."""
