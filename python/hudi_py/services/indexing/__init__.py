"""Building indexes beside writers (`HoodieIndexer`, `ScheduleIndexActionExecutor`, `RunIndexActionExecutor`, 1.2.0)."""
