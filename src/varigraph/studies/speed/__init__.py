"""How long error bars take, next to what one would do without this library."""
