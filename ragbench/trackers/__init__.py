"""Services that keep runs: each gets a stored run by one function, the `Tracker` of its file."""
