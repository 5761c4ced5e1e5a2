"""The metadata table's services, rollback, rebuild and verification."""
