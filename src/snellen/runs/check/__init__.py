"""Check of data before a run: findings about rows, answers, options and images, and samples as they would be sent."""
