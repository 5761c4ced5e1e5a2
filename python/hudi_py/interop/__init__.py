"""Tables as other systems see them: catalogs, and metadata in other formats."""
