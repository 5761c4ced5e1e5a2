"""Checks for other implementers: of storages, of readers and writers of tables, and of rows. They need pytest and
Hypothesis (`pip install "hudi-py[testing]"`).

- `hudi_py.testing.storage.StorageBehaviour`: what every `hudi_py.storage.Storage` does alike, as tests for pytest.
- `hudi_py.testing.machine.check_writes`: random writes by several writers to one table, read by several readers,
  compared with a dict.
- `hudi_py.testing.rows.assert_rows_equal`: two tables have the same rows, in any order.
"""
