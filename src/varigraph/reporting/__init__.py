"""Tables and figures. Only ``plots`` and ``sensitivity`` need matplotlib."""
