# TestTimeTravelTable TestInstantTimeValidation TestTimeTravelParser
== a row as it was [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') LOCATION '{path}/a';
INSERT INTO {t} VALUES (1, 'a1', 10, 1000);
@ first = SELECT max(_hoodie_commit_time) FROM {t};
% hoodie.spark.sql.insert.into.operation = upsert
INSERT INTO {t} VALUES (1, 'a2', 20, 2000);
? SELECT id, name, price, ts FROM {t};
? SELECT id, name, price, ts FROM {t} TIMESTAMP AS OF '{first}';
? SELECT id, name, price, ts FROM {t} TIMESTAMP AS OF '{first}' DISTRIBUTE BY cast(rand() * 2 AS INT);
! [version] SELECT count(*) FROM {t} VERSION AS OF '{first}' WHERE 1 = 0;

== into another table [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000);
@ first = SELECT max(_hoodie_commit_time) FROM {t};
CREATE TABLE {t2} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}') PARTITIONED BY (dt);
INSERT INTO {t2} SELECT id, name, price, ts, '2022-02-14' AS dt FROM {t} TIMESTAMP AS OF '{first}';
INSERT INTO {t2} PARTITION (dt = '2022-02-15') SELECT 2 AS id, 'a2' AS name, price, ts FROM {t} TIMESTAMP AS OF '{first}';
? SELECT id, name, price, ts, dt FROM {t2};

== a union of two tables
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
CREATE TABLE {t2} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 1000);
INSERT INTO {t} VALUES (2, 'a2', 1000);
INSERT INTO {t2} VALUES (3, 'a3', 1000);
INSERT INTO {t2} VALUES (4, 'a4', 1000);
@ one = SELECT max(_hoodie_commit_time) FROM {t};
@ two = SELECT min(_hoodie_commit_time) FROM {t2};
? SELECT id, name FROM {t} TIMESTAMP AS OF '{one}' WHERE id = 1 UNION SELECT id, name FROM {t2} TIMESTAMP AS OF '{two}' WHERE id > 1;

== the schema as it was
% hoodie.schema.on.read.enable = true
% hoodie.datasource.write.schema.allow.auto.evolution.column.drop = true
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000);
@ one = SELECT max(_hoodie_commit_time) FROM {t};
ALTER TABLE {t} ADD COLUMNS (company STRING);
INSERT INTO {t} VALUES (2, 'a2', 11, 1100, 'hudi');
@ two = SELECT max(_hoodie_commit_time) FROM {t};
ALTER TABLE {t} DROP COLUMN price;
? SELECT id, name, price, ts FROM {t} TIMESTAMP AS OF '{one}';
? SELECT id, name, price, ts, company FROM {t} TIMESTAMP AS OF '{two}';
? SELECT id, name, ts, company FROM {t};
! [price] SELECT price FROM {t};

== statements that are not about tables
? SELECT 1 DISTRIBUTE BY 1;
INSERT OVERWRITE LOCAL DIRECTORY '{path}/d' USING parquet SELECT 1 AS a;
? SELECT a FROM parquet.`{path}/d`;

== instants in several forms
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 1000);
@ digits = SELECT substring(max(_hoodie_commit_time), 1, 14) FROM {t};
@ text = SELECT regexp_replace(max(_hoodie_commit_time), '(....)(..)(..)(..)(..)(..)(...)', '$1-$2-$3 $4:$5:$6.$7') FROM {t};
? SELECT id, name FROM {t} TIMESTAMP AS OF '{digits}999';
? SELECT id, name FROM {t} TIMESTAMP AS OF '{text}';
? SELECT id, name FROM {t} TIMESTAMP AS OF '2000-01-01';
? SELECT id, name FROM {t} TIMESTAMP AS OF '2000-01-01 10:00:00';
! [abc] SELECT id, name FROM {t} TIMESTAMP AS OF 'abc';
! [42] SELECT id, name FROM {t} TIMESTAMP AS OF '42';

== updates and deletes as they were, copy on write
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING hudi TBLPROPERTIES (type = 'cow', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, 'x'), (2, 'a2', 20, 1000, 'y');
@ one = SELECT max(_hoodie_commit_time) FROM {t};
UPDATE {t} SET price = 11 WHERE id = 1;
@ two = SELECT max(_hoodie_commit_time) FROM {t};
DELETE FROM {t} WHERE id = 2;
INSERT OVERWRITE {t} PARTITION (dt = 'x') SELECT 3, 'a3', 30, 1000;
? SELECT id, name, price, ts, dt FROM {t} TIMESTAMP AS OF '{one}';
? SELECT id, name, price, ts, dt FROM {t} TIMESTAMP AS OF '{two}' WHERE dt = 'x';
? SELECT id, name, price, ts, dt FROM {t};
MERGE INTO {t} USING (SELECT id, name, price, ts + 1 AS ts, dt FROM {t} TIMESTAMP AS OF '{one}') s ON {t}.id = s.id WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts, dt FROM {t};

== updates and deletes as they were, merge on read
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, 'x'), (2, 'a2', 20, 1000, 'y');
@ one = SELECT max(_hoodie_commit_time) FROM {t};
UPDATE {t} SET price = 11 WHERE id = 1;
@ two = SELECT max(_hoodie_commit_time) FROM {t};
DELETE FROM {t} WHERE id = 2;
INSERT OVERWRITE {t} PARTITION (dt = 'x') SELECT 3, 'a3', 30, 1000;
? SELECT id, name, price, ts, dt FROM {t} TIMESTAMP AS OF '{one}';
? SELECT id, name, price, ts, dt FROM {t} TIMESTAMP AS OF '{two}' WHERE dt = 'x';
? SELECT id, name, price, ts, dt FROM {t};
MERGE INTO {t} USING (SELECT id, name, price, ts + 1 AS ts, dt FROM {t} TIMESTAMP AS OF '{one}') s ON {t}.id = s.id WHEN NOT MATCHED THEN INSERT *;
differs: faults-avoided.md: MERGE INTO that inserts a key whose row is deleted in a log
? SELECT id, name, price, ts, dt FROM {t};
