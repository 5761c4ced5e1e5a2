"""The common parts of services with a plan: the plan, its work and its report."""
