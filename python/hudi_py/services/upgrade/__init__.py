"""Changes the version of a table, up or down, as the handlers of Apache Hudi do."""
