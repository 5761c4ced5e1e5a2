# TestAlterTable TestSpark3DDL TestAlterTableColumnCoverage TestSetAndUnset
== columns, names and rows [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') LOCATION '{path}/a';
ALTER TABLE {t} CHANGE COLUMN id id INT COMMENT 'primary id';
ALTER TABLE {t} CHANGE COLUMN name name STRING COMMENT 'name column';
ALTER TABLE {t} RENAME TO {t2};
! [not_found] SELECT * FROM {t};
INSERT INTO {t2} VALUES (1, 'a1', 10, 1000);
ALTER TABLE {t2} ADD COLUMNS (ext0 STRING);
? SELECT id, name, price, ts, ext0 FROM {t2};
INSERT INTO {t2} VALUES (2, 'a2', 12, 1000, 'e0');
MERGE INTO {t2} t0 USING (SELECT 1 AS id, 'a1' AS name, 12 AS price, 1001L AS ts, 'e0' AS ext0) s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts, ext0 FROM {t2};
UPDATE {t2} SET price = 10, ext0 = null WHERE id = 2;
DELETE FROM {t2} WHERE id = 1;
? SELECT id, name, price, ts, ext0 FROM {t2};

== a record key of another type
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
! [id, chang] ALTER TABLE {t} CHANGE COLUMN id id BIGINT;

== columns of a partitioned table [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, '2021-07-25');
ALTER TABLE {t} ADD COLUMNS (ext0 DOUBLE);
? SELECT id, name, price, ts, dt, ext0 FROM {t};
INSERT INTO {t} VALUES (2, 'a2', 10, 1000, 1, '2021-07-25');
? SELECT id, name, price, ts, dt, ext0 FROM {t};

== columns of a table with a bucket index [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts', `hoodie.index.type` = 'BUCKET', `hoodie.index.bucket.engine` = 'SIMPLE', `hoodie.bucket.index.num.buckets` = '2', `hoodie.bucket.index.hash.field` = 'id', `hoodie.storage.layout.type` = 'BUCKET', `hoodie.storage.layout.partitioner.class` = 'org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000);
ALTER TABLE {t} ADD COLUMNS (dt STRING COMMENT 'data time');
? SELECT id, name, price, ts, dt FROM {t};

== with options of concurrency [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts', hoodie.write.concurrency.mode = 'optimistic_concurrency_control', hoodie.clean.failed.writes.policy = 'LAZY', hoodie.write.lock.provider = 'org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider') LOCATION '{path}/a';
ALTER TABLE {t} CHANGE COLUMN name name STRING COMMENT 'name column';
ALTER TABLE {t} RENAME TO {t2};
INSERT INTO {t2} VALUES (1, 'a1', 1000);
ALTER TABLE {t2} ADD COLUMNS (ext0 STRING);
INSERT INTO {t2} VALUES (2, 'a2', 1000, 'e0');
? SELECT id, name, ts, ext0 FROM {t2};

== a managed table moves
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1');
ALTER TABLE {t} RENAME TO {t2};
? SELECT id, name FROM {t2};
INSERT INTO {t2} VALUES (2, 'a1');
? SELECT id, name FROM {t2};

== types, one after another [kind: cow, mor]
% hoodie.schema.on.read.enable = true
% hoodie.spark.sql.insert.into.operation = upsert
% spark.sql.storeAssignmentPolicy = legacy
CREATE TABLE {t} (id INT, comb INT, col0 INT, col1 BIGINT, col2 FLOAT, col6 DATE) USING hudi OPTIONS (type = '{kind}', primaryKey = 'id', preCombineField = 'comb');
INSERT INTO {t} VALUES (1, 1, 11, 100001, 101.01, DATE '2021-12-25'), (5, 5, 15, 100005, 105.05, DATE '2021-12-26');
ALTER TABLE {t} ALTER COLUMN col6 TYPE STRING;
? SELECT col6 FROM {t} WHERE id = 1;
INSERT INTO {t} VALUES (1, 1, 13, 100001, 101.01, '2021-12-26');
ALTER TABLE {t} ALTER COLUMN col6 TYPE DATE;
? SELECT id, col6 FROM {t};
ALTER TABLE {t} ALTER COLUMN col0 TYPE DOUBLE;
INSERT INTO {t} VALUES (6, 1, 14.0, 100001, 101.01, DATE '2021-12-25');
ALTER TABLE {t} ALTER COLUMN col0 TYPE DECIMAL(16, 4);
? SELECT id, col0 FROM {t};
ALTER TABLE {t} ALTER COLUMN col1 TYPE DOUBLE;
ALTER TABLE {t} ALTER COLUMN col1 TYPE DECIMAL(16, 4);
ALTER TABLE {t} ALTER COLUMN col1 TYPE STRING;
? SELECT id, col1 FROM {t} WHERE id < 6;
ALTER TABLE {t} ALTER COLUMN col2 TYPE DOUBLE;
INSERT INTO {t} VALUES (6, 1, 14.0, '100001', 601.01, DATE '2021-12-25');
ALTER TABLE {t} ALTER COLUMN col2 TYPE DECIMAL(16, 4);
? SELECT id, col2 FROM {t};

== schema on read, then off [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
SET hoodie.schema.on.read.enable = true;
INSERT INTO {t} VALUES (1, 'a1', 10, 1000);
ALTER TABLE {t} ADD COLUMNS (new_col STRING);
? SELECT id, name, price, ts, new_col FROM {t};
SET hoodie.schema.on.read.enable = false;
REFRESH TABLE {t};
INSERT INTO {t} VALUES (2, 'a2', 12, 2000, 'e0');
? SELECT id, name, price, ts, new_col FROM {t};
RESET hoodie.schema.on.read.enable;

== what is refused
% hoodie.schema.on.read.enable = true
% hoodie.datasource.write.schema.allow.auto.evolution.column.drop = true
CREATE TABLE {t} (id INT, comb INT, col0 INT, col9 BINARY, par DATE) USING hudi OPTIONS (primaryKey = 'id', preCombineField = 'comb') PARTITIONED BY (par);
INSERT INTO {t} VALUES (1, 1, 11, X'0a01', DATE '2021-12-25');
! [meta columns|_hoodie_commit_time] ALTER TABLE {t} ADD COLUMNS (col_new1 INT AFTER _hoodie_commit_time);
! [primarykey|record key] ALTER TABLE {t} DROP COLUMN id;
! [ordering] ALTER TABLE {t} DROP COLUMN comb;
! [partition] ALTER TABLE {t} DROP COLUMN par;
! [primarykey|record key] ALTER TABLE {t} RENAME COLUMN id TO idid;
! [ordering] ALTER TABLE {t} RENAME COLUMN comb TO combcomb;
! [partition] ALTER TABLE {t} RENAME COLUMN par TO parpar;
! [col0, col9, already] ALTER TABLE {t} RENAME COLUMN col0 TO col9;
! [col0, col9, already] ALTER TABLE {t} RENAME COLUMN col0 TO COL9;
! [col9, already] ALTER TABLE {t} ADD COLUMNS (col9 INT);
! [col9, already] ALTER TABLE {t} ADD COLUMNS (COL9 INT);
! [id, already] ALTER TABLE {t} ADD COLUMNS (id INT);
! [nothing, missing|it has no] ALTER TABLE {t} DROP COLUMN nothing;
! [col0, boolean] ALTER TABLE {t} ALTER COLUMN col0 TYPE BOOLEAN;

== a column first in the table
% hoodie.schema.on.read.enable = true
CREATE TABLE {t} (id INT, comb INT) USING hudi OPTIONS (primaryKey = 'id', preCombineField = 'comb');
differs: deliberate.md: A column FIRST in the table
! [] ALTER TABLE {t} ADD COLUMNS (col_new1 INT FIRST);

== properties of the catalog
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
ALTER TABLE {t} SET TBLPROPERTIES (comment = 'it is a hudi table', 'key1' = 'value1', 'key2' = 'value2');
ALTER TABLE {t} UNSET TBLPROPERTIES (comment, 'key1', 'key2');
INSERT INTO {t} VALUES (1, 'a');
? SELECT id, name FROM {t};

== columns in the middle and comments
% hoodie.schema.on.read.enable = true
% hoodie.spark.sql.insert.into.operation = upsert
CREATE TABLE {t} (id INT, comb INT, col2 FLOAT, col4 DECIMAL(10, 4), col9 BINARY) USING hudi OPTIONS (type = 'mor', primaryKey = 'id', preCombineField = 'comb');
INSERT INTO {t} VALUES (1, 1, 101.01, 100001.0001, X'0a01'), (2, 2, 102.02, 100002.0002, X'0a02');
ALTER TABLE {t} ADD COLUMNS (col1_new INT COMMENT 'add new columns col1_new after id' AFTER id);
ALTER TABLE {t} ALTER COLUMN col9 COMMENT 'col9 desc';
ALTER TABLE {t} ALTER COLUMN col2 TYPE DOUBLE;
INSERT INTO {t} VALUES (1, 3, 1, 101.01, 100001.0001, X'0a01'), (6, 6, 5, 105.05, 100005.0005, X'0a05');
? SELECT id, col1_new, col2, col4, col9 FROM {t} WHERE id <> 2;
ALTER TABLE {t} ALTER COLUMN col4 TYPE DECIMAL(18, 8);
INSERT INTO {t} VALUES (5, 6, 5, 105.05, 100005.0005, X'0a05');
? SELECT id, col1_new, comb, col4 FROM {t};
ALTER TABLE {t} ALTER COLUMN col2 TYPE STRING;
INSERT INTO {t} VALUES (1, 3, 1, '101.01', 100009.0001, X'0a01'), (11, 3, 1, '101.01', 100011.0001, X'0a01');
? SELECT id, col1_new, col2, col4 FROM {t} WHERE id IN (1, 11);

== names in Chinese [kind: cow, mor]
% hoodie.schema.on.read.enable = true
% hoodie.spark.sql.insert.into.operation = upsert
% hoodie.datasource.write.schema.allow.auto.evolution.column.drop = true
CREATE TABLE {t} (id INT, comb INT, `名字` STRING, col9 STRING, `成绩` INT, `上次更新时间` DATE, par DATE) USING hudi OPTIONS (type = '{kind}', primaryKey = 'id', preCombineField = 'comb') PARTITIONED BY (par);
INSERT INTO {t} VALUES (1, 3, '李明', '读书', 100, DATE '2021-12-25', DATE '2021-12-26');
ALTER TABLE {t} RENAME COLUMN col9 TO `爱好_Best`;
INSERT INTO {t} VALUES (1, 3, '李明', '读书', 100, DATE '2021-12-26', DATE '2021-12-26');
ALTER TABLE {t} ALTER COLUMN `上次更新时间` TYPE STRING;
? SELECT `上次更新时间`, `爱好_Best`, `名字` FROM {t};
ALTER TABLE {t} ALTER COLUMN `上次更新时间` TYPE DATE;
? SELECT `上次更新时间` FROM {t};

== added, renamed and dropped [kind: cow, mor]
% hoodie.schema.on.read.enable = true
% hoodie.datasource.write.schema.allow.auto.evolution.column.drop = true
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi OPTIONS (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'jack', 0.9, 1000);
UPDATE {t} SET price = 1.9 WHERE id = 1;
ALTER TABLE {t} ADD COLUMNS (ext1 STRING COMMENT 'add ext1' AFTER name);
INSERT INTO {t} VALUES (2, 'jack', 'exx1', 0.9, 1000);
? SELECT id, name, ext1, price, ts FROM {t};
ALTER TABLE {t} RENAME COLUMN price TO newprice;
? SELECT id, newprice FROM {t};
UPDATE {t} SET ext1 = 'haha' WHERE id = 1;
? SELECT id, name, ext1, newprice, ts FROM {t};
ALTER TABLE {t} DROP COLUMN newprice;
? SELECT id, name, ext1, ts FROM {t};
ALTER TABLE {t} ADD COLUMNS (newprice STRING COMMENT 'add newprice back' AFTER ext1);
? SELECT id, name, ext1, newprice, ts FROM {t};

== a record key of another type, with schema on read
% hoodie.schema.on.read.enable = true
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi OPTIONS (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'jack', 1000);
differs: deliberate.md: Ordering and record key columns of another type
ALTER TABLE {t} ALTER COLUMN id TYPE LONG;

== columns that need not be null [kind: cow, mor]
% hoodie.schema.on.read.enable = true
CREATE TABLE {t} (id INT, name STRING NOT NULL, ts LONG) USING hudi OPTIONS (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
ALTER TABLE {t} ALTER COLUMN name DROP NOT NULL;
INSERT INTO {t} VALUES (1, null, 1000);
? SELECT id, name, ts FROM {t};

== a name that was another column's [kind: cow, mor]
% hoodie.schema.on.read.enable = true
% hoodie.datasource.write.schema.allow.auto.evolution.column.drop = true
CREATE TABLE {t} (id INT, col1 STRING, col2 STRING, ts LONG) USING hudi OPTIONS (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'aaa', 'bbb', 1000);
ALTER TABLE {t} DROP COLUMN col1;
ALTER TABLE {t} RENAME COLUMN col2 TO col1;
INSERT INTO {t} VALUES (2, 'aaa', 1000);
? SELECT id, col1 FROM {t};

== structs and maps
% hoodie.schema.on.read.enable = true
% hoodie.spark.sql.insert.into.operation = upsert
% hoodie.datasource.write.schema.allow.auto.evolution.column.drop = true
CREATE TABLE {t} (id INT, name STRING, members MAP<STRING, STRUCT<n: STRING, a: INT>>, user STRUCT<name: STRING, age: INT, score: INT>, ts LONG) USING hudi OPTIONS (type = 'mor', primaryKey = 'id', preCombineField = 'ts');
ALTER TABLE {t} ALTER COLUMN members.value.a FIRST;
INSERT INTO {t} VALUES (1, 'jack', map('k1', named_struct('a', 100, 'n', 'v1')), named_struct('name', 'jackStruct', 'age', 29, 'score', 100), 1000);
ALTER TABLE {t} RENAME COLUMN user TO userx;
? SELECT ts, userx.score, id, userx.age, name FROM {t};
ALTER TABLE {t} DROP COLUMNS (name, userx.name, userx.score);
ALTER TABLE {t} ADD COLUMNS (name STRING COMMENT 'add name back' AFTER userx, userx.name STRING COMMENT 'add userx.name back' FIRST, userx.score INT COMMENT 'add userx.score back' AFTER age);
? SELECT name, userx.name, userx.score FROM {t};
INSERT INTO {t} VALUES (2, map('k1', named_struct('a', 100, 'n', 'v1')), named_struct('name', 'jackStructNew', 'age', 291, 'score', 101), 'jacknew', 1000);
? SELECT name, userx.name AS uxname, userx.score AS uxs FROM {t};
ALTER TABLE {t} ALTER COLUMN userx.age TYPE LONG;
? SELECT userx.age, id, name FROM {t};
ALTER TABLE {t} ADD COLUMNS (mxp MAP<STRING, INT>);
INSERT INTO {t} VALUES (2, map('k1', named_struct('a', 100, 'n', 'v1')), named_struct('name', 'jackStructNew', 'age', 291L, 'score', 101), 'jacknew', 1000, map('t1', 9));
ALTER TABLE {t} ALTER COLUMN mxp.value TYPE DOUBLE;
? SELECT id, mxp FROM {t};
ALTER TABLE {t} RENAME COLUMN members TO mem;
ALTER TABLE {t} RENAME COLUMN mem.value.n TO nn;
ALTER TABLE {t} RENAME COLUMN userx TO us;
ALTER TABLE {t} RENAME COLUMN us.age TO age1;
? SELECT mem['k1'].nn, us.age1 FROM {t};

== dates to text, with structs [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, struct_col STRUCT<f0: INT, f1: STRING>, ts LONG) USING hudi OPTIONS (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (ts);
INSERT INTO {t} VALUES (1, 'a1', named_struct('f0', 1, 'f1', 'f_1'), 1000);
SET hoodie.schema.on.read.enable = true;
ALTER TABLE {t} ADD COLUMNS (d DATE);
INSERT INTO {t} VALUES (2, 'a2', named_struct('f0', 2, 'f1', 'f_2'), DATE '2023-03-22', 1001);
ALTER TABLE {t} ALTER COLUMN d TYPE STRING;
? SELECT id, d, struct_col FROM {t};
RESET hoodie.schema.on.read.enable;

== doubles to decimals of a smaller scale [kind: cow, mor]
CREATE TABLE {t} (id INT, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 10.024, 1000), (2, 10.025, 1000), (3, 10.026, 1000), (4, -10.024, 1000), (5, -10.025, 1000), (6, -10.026, 1000);
SET hoodie.schema.on.read.enable = true;
ALTER TABLE {t} ALTER COLUMN price TYPE DECIMAL(4, 2);
? SELECT id, price FROM {t};
RESET hoodie.schema.on.read.enable;

== texts and floats to decimals [kind: cow, mor]
% hoodie.schema.on.read.enable = true
CREATE TABLE {t} (id INT, s STRING, f FLOAT, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, '10.024', cast(10.024 AS FLOAT), 1000), (2, '-10.026', cast(-10.026 AS FLOAT), 1000);
ALTER TABLE {t} ALTER COLUMN s TYPE DECIMAL(6, 3);
ALTER TABLE {t} ALTER COLUMN f TYPE DECIMAL(4, 2);
? SELECT id, s, f FROM {t};
INSERT INTO {t} VALUES (3, 1.5, 2.5, 1000);
? SELECT id, s, f FROM {t};

== members of arrays [kind: cow, mor]
% hoodie.schema.on.read.enable = true
% spark.sql.parquet.enableVectorizedReader = false
% hoodie.datasource.write.schema.allow.auto.evolution.column.drop = true
CREATE TABLE {t} (id INT, a ARRAY<STRUCT<x: INT, y: STRING>>, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, array(struct(1, 'p')), 1000);
ALTER TABLE {t} ADD COLUMNS (a.element.z DOUBLE);
INSERT INTO {t} VALUES (2, array(struct(2, 'q', 2.5)), 1000);
ALTER TABLE {t} RENAME COLUMN a.element.y TO w;
ALTER TABLE {t} ALTER COLUMN a.element.x TYPE LONG;
? SELECT id, a[0].x, a[0].w, a[0].z FROM {t};
ALTER TABLE {t} DROP COLUMN a.element.x;
? SELECT id, a FROM {t};
