# TestTimeTravelTable
== a row as it was [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') LOCATION '{path}/a';
INSERT INTO {t} VALUES (1, 'a1', 10, 1000);
@ first = SELECT max(_hoodie_commit_time) FROM {t};
% hoodie.spark.sql.insert.into.operation = upsert
INSERT INTO {t} VALUES (1, 'a2', 20, 2000);
? SELECT id, name, price, ts FROM {t};
? SELECT id, name, price, ts FROM {t} TIMESTAMP AS OF '{first}';
? SELECT id, name, price, ts FROM {t} TIMESTAMP AS OF '{first}' DISTRIBUTE BY cast(rand() * 2 AS INT);
! [] SELECT count(*) FROM {t} VERSION AS OF '{first}' WHERE 1 = 0;

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
! [] SELECT price FROM {t};

== statements that are not about tables
? SELECT 1 DISTRIBUTE BY 1;
INSERT OVERWRITE LOCAL DIRECTORY '{path}/d' USING parquet SELECT 1 AS a;
? SELECT a FROM parquet.`{path}/d`;
