# TestSecondaryIndex TestExpressionIndex TestIndexSyntax TestGlobalIndex TestFullTextIndex TestDataSkippingQuery TestBucketIndexQuery
== secondary indexes [kind: cow, mor]
%% hoodie.write.lock.provider = org.apache.hudi.client.transaction.lock.InProcessLockProvider
CREATE TABLE {t} (id INT, name STRING, price INT, ts LONG) USING hudi OPTIONS (primaryKey = 'id', type = '{kind}', preCombineField = 'ts', hoodie.metadata.enable = 'true', hoodie.metadata.record.index.enable = 'true', hoodie.metadata.index.secondary.enable = 'true', hoodie.datasource.write.payload.class = 'org.apache.hudi.common.model.OverwriteWithLatestAvroPayload') PARTITIONED BY (ts) LOCATION '{path}/t';
INSERT INTO {t} VALUES (1, 'a1', 10, 1000);
DROP TABLE IF EXISTS {t};
CREATE TABLE {t} USING hudi OPTIONS (hoodie.metadata.record.index.enable = 'true') LOCATION '{path}/t';
INSERT INTO {t} VALUES (2, 'a2', 10, 1001);
? SHOW INDEXES FROM default.{t};
! [one column] CREATE INDEX idx_name_price ON {t} (name, price);
CREATE INDEX idx_name ON {t} (name);
CREATE INDEX idx_price ON {t} (price);
! [idx_price] CREATE INDEX idx_price ON {t} (price);
? SHOW INDEXES FROM {t};
? SELECT id FROM {t} WHERE name = 'a2';
UPDATE {t} SET name = 'b2' WHERE id = 2;
? SELECT id FROM {t} WHERE name = 'a2';
? SELECT id FROM {t} WHERE name = 'b2';
DROP INDEX idx_name ON {t};
! [idx_name] DROP INDEX idx_name ON {t};
DROP INDEX record_index ON {t};
differs: deliberate.md: Dropping the record index of a table with secondary indexes
? SHOW INDEXES FROM {t};
! [field_not_exist] CREATE INDEX idx_price_1 ON {t} (field_not_exist);

== a record index by statement [kind: cow, mor]
%% hoodie.write.lock.provider = org.apache.hudi.client.transaction.lock.InProcessLockProvider
CREATE TABLE {t} (id INT, name STRING, price INT) USING hudi OPTIONS (primaryKey = 'id', type = '{kind}', hoodie.metadata.enable = 'true');
INSERT INTO {t} VALUES (1, 'a1', 10), (2, 'a2', 20);
! [record key] CREATE INDEX record_index ON {t} (price);
CREATE INDEX record_index ON {t} (id);
? SELECT id, name FROM {t} WHERE id = 2;
UPDATE {t} SET name = 'b' WHERE id = 2;
? SELECT id, name FROM {t} WHERE id = 2;

== expression indexes [kind: cow, mor]
%% hoodie.write.lock.provider = org.apache.hudi.client.transaction.lock.InProcessLockProvider
% hoodie.metadata.index.column.stats.enable = false
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi OPTIONS (primaryKey = 'id', type = '{kind}', preCombineField = 'ts', hoodie.metadata.record.index.enable = 'true') PARTITIONED BY (ts);
INSERT INTO {t} VALUES (1, 'a1', 10, 1000);
INSERT INTO {t} VALUES (2, 'a2', 10, 1001);
CREATE INDEX idx_datestr ON {t} USING column_stats (ts) OPTIONS (expr = 'from_unixtime', format = 'yyyy-MM-dd');
! [column_stat] CREATE INDEX name_lower ON {t} USING column_stat (ts);
! [random] CREATE INDEX name_lower ON {t} USING column_stats (ts) OPTIONS (expr = 'random');
! [expr] CREATE INDEX name_lower ON {t} USING column_stats (ts);
CREATE INDEX name_lower ON {t} USING column_stats (name) OPTIONS (expr = 'lower');
? SELECT id, name FROM {t} WHERE from_unixtime(ts, 'yyyy-MM-dd') = '1970-01-01';
? SELECT id, name FROM {t} WHERE lower(name) = 'a2';
DROP INDEX idx_datestr ON {t};
DROP INDEX name_lower ON {t};
! [name_lower] DROP INDEX name_lower ON {t};

== functions of expression indexes [expr: lower, upper, trim]
%% hoodie.write.lock.provider = org.apache.hudi.client.transaction.lock.InProcessLockProvider
% hoodie.metadata.index.column.stats.enable = false
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi OPTIONS (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'Ab', 1000), (2, ' cd ', 1001);
CREATE INDEX ix ON {t} USING bloom_filters (name) OPTIONS (expr = '{expr}');
? SELECT id FROM {t} WHERE {expr}(name) = {expr}('Ab');

== functions without expression indexes [expr: reverse, abs] [kind: bloom_filters, column_stats] [column: name, price]
%% hoodie.write.lock.provider = org.apache.hudi.client.transaction.lock.InProcessLockProvider
% hoodie.metadata.index.column.stats.enable = false
CREATE TABLE {t} (id INT, name STRING, price DOUBLE) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'Ab', 10.4), (2, ' cd ', -20.6);
! [{expr}] CREATE INDEX ix ON {t} USING {kind} ({column}) OPTIONS (expr = '{expr}');

== expression indexes of numbers and dates
%% hoodie.write.lock.provider = org.apache.hudi.client.transaction.lock.InProcessLockProvider
% hoodie.metadata.index.column.stats.enable = false
CREATE TABLE {t} (id INT, price DOUBLE, d DATE, s STRING) USING hudi OPTIONS (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 10.4, DATE '2024-02-03', '2024-02-03'), (2, -20.6, DATE '2023-05-06', '2023-05-06');
CREATE INDEX ix_year ON {t} USING column_stats (d) OPTIONS (expr = 'year');
CREATE INDEX ix_sub ON {t} USING column_stats (s) OPTIONS (expr = 'substring', pos = 1, len = 4);
? SELECT id FROM {t} WHERE abs(price) > 15;
? SELECT id FROM {t} WHERE year(d) = 2024;
? SELECT id FROM {t} WHERE substring(s, 1, 4) = '2023';

== skipping by statistics and maps [kind: cow, mor] [columns: name, id]
% hoodie.metadata.index.column.stats.column.list = {columns}
% hoodie.enable.data.skipping = true
CREATE TABLE {t} (id INT, name STRING, attributes MAP<STRING, STRING>, price DOUBLE, ts LONG, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', map('color', 'red', 'size', 'M'), 10, 1000, '2021-01-05'), (2, 'a2', map('color', 'blue', 'size', 'L'), 20, 2000, '2021-01-06');
? SELECT id, name, price, ts, dt FROM {t} WHERE attributes.color = 'red';
? SELECT id, name, price, ts, dt FROM {t} WHERE name = 'a1';
? SELECT id, name, price, ts, dt FROM {t} WHERE attributes.color = 'red' AND name = 'a1';
? SELECT id, name, price, ts, dt FROM {t} WHERE ts = 1000 AND name = 'a1';

== skipping several files [kind: cow, mor]
% hoodie.metadata.index.column.stats.column.list = id,price
% hoodie.parquet.small.file.limit = 0
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts', type = '{kind}');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000), (2, 'a2', 20, 1000);
INSERT INTO {t} VALUES (11, 'b1', 110, 2000), (12, 'b2', 120, 2000);
INSERT INTO {t} VALUES (21, 'c1', 210, 3000), (22, 'c2', 220, 3000);
? SELECT id, name, price FROM {t} WHERE id = 1;
? SELECT id, name, price FROM {t} WHERE id > 20;
? SELECT id, name, price FROM {t} WHERE id IN (2, 22);
? SELECT id, name, price FROM {t} WHERE price >= 110 AND price < 210;
? SELECT id, name, price FROM {t} WHERE id = 999;

== queries by buckets [kind: cow, mor]
% hoodie.bucket.index.hash.field = id
% hoodie.bucket.index.num.buckets = 20
% hoodie.index.type = BUCKET
CREATE TABLE {t} (id INT, dt STRING, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id,name', orderingFields = 'ts', type = '{kind}', hoodie.index.type = 'BUCKET', hoodie.bucket.index.hash.field = 'id', hoodie.bucket.index.num.buckets = '20') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, "2021-01-05"), (2, 'a2', 20, 2000, "2021-01-06"), (3, 'a3', 30, 3000, "2021-01-07");
? SELECT id, name, price, ts, dt FROM {t} WHERE id = 1;
? SELECT id, name, price, ts, dt FROM {t} WHERE id = 1 AND name = 'a1';
? SELECT id, name, price, ts, dt FROM {t} WHERE id = 2 OR id = 5;
? SELECT id, name, price, ts, dt FROM {t} WHERE id IN (2, 3);
? SELECT id, name, price, ts, dt FROM {t} WHERE id != 4;

== global indexes and moves [index: GLOBAL_SIMPLE, GLOBAL_BLOOM]
% hoodie.index.type = {index}
% hoodie.spark.sql.insert.into.operation = upsert
CREATE TABLE {t} (id INT, name STRING, price INT, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'cow', preCombineField = 'ts', hoodie.index.type = '{index}') PARTITIONED BY (ts);
INSERT INTO {t} VALUES (1, 'a1', 10, 1000), (2, 'a2', 10, 1001);
INSERT INTO {t} VALUES (1, 'a1_updated', 10, 1003);
? SELECT id, name, ts FROM {t};
