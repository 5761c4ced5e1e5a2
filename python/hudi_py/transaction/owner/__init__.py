"""Who owns a pending instant, and whether that process is still alive."""
