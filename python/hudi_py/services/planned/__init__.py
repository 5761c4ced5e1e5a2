"""What services with a plan of their own have in common: the plan, its work, its report."""
