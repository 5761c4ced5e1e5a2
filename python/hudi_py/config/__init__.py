"""Options: each is declared once, with its key, type, default, scope and policy.

```python
from hudi_py.config import Options, Scope
from hudi_py.config import write as write_config

options = Options.resolve({"hoodie.datasource.write.operation": "insert"}, Scope.WRITE)
options.get(write_config.OPERATION)   # 'insert'
```
"""

from __future__ import annotations

from hudi_py.config import concurrency, read, table, write
from hudi_py.config.option import Option, Policy, Problems, Scope
from hudi_py.config.options import DEFAULTS, SECRET_KEYS, SECRET_PREFIX, STORAGE_PREFIX, Options

__all__ = [
    "DEFAULTS",
    "SECRET_KEYS",
    "SECRET_PREFIX",
    "STORAGE_PREFIX",
    "Option",
    "Options",
    "Policy",
    "Problems",
    "Scope",
    "concurrency",
    "read",
    "table",
    "write",
]
