"""The process that trains: pulls steps from the loop, keeps the clock, writes the records, lets observers watch."""
