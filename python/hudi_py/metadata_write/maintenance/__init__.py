"""The services, rollback, rebuild and verification of the metadata table."""
