"""All correlations in closed form, to first order in every source."""
