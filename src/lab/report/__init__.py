"""Pages: what runs learnt and how fast, for people; each one HTML file that needs no network."""
