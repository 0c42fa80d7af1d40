"""Sources of uncertainty: a file each, registered once and named nowhere else."""
