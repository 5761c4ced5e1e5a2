# TestNestedSchemaPruningOptimization TestHoodieAnalysisErrorHandling TestVectorizedReadWithSchemaEvolution TestVectorizedReadDecisionPerScan TestPartitionPushDownWhenListingPaths TestHoodiePruneFileSourcePartitions TestSlashSeparatedPartitionValue TestTypedPartitionValues TestMergeIntoHoodieTableCommand TestSqlConf TestSparkSqlCoreFlow TestTableWithoutRecordKey
== fields of structs [kind: cow, mor]
CREATE TABLE {t} USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', orderingFields = 'ts') AS SELECT 1 AS id, named_struct('name', 'a1', 'price', 10) AS item, array(named_struct('k', 'k0', 'v', 'v0')) AS tags, map('m0', named_struct('a', 1, 'b', 2)) AS props, 123456 AS ts, 'p1' AS part;
UPDATE {t} SET ts = 123457 WHERE id = 1;
? SELECT id, item.name FROM {t};
? SELECT tags.k, props['m0'].a, part, ts FROM {t};
? SELECT id, item.price FROM {t} WHERE item.name = 'a1';

== columns named like members of unions [kind: cow, mor]
CREATE TABLE {t} USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', orderingFields = 'ts') AS SELECT 1 AS id, 'a1' AS member0, 'b1' AS member1, 123456 AS ts;
UPDATE {t} SET ts = 123457 WHERE id = 1;
differs: faults-avoided.md: A query of a column `member0` or the like alone
? SELECT member0 FROM {t};
? SELECT id, member1 FROM {t};

== names that there are not
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10.0, 1000);
! [] MERGE INTO {t} AS target USING (SELECT 1 AS id, 'u' AS name, 20.0 AS price, 2000 AS ts, nonexistent_column AS extra) AS source ON target.id = source.id WHEN MATCHED THEN UPDATE SET *;
! [nonexistent_id] MERGE INTO {t} AS target USING (SELECT 1 AS id, 'u' AS name, 20.0 AS price, 2000 AS ts) AS source ON target.nonexistent_id = source.id WHEN MATCHED THEN UPDATE SET *;
! [price] MERGE INTO {t} AS target USING (SELECT 1 AS id, 'u' AS name, 20.0 AS pricee, 2000 AS ts) AS source ON target.id = source.id WHEN MATCHED THEN UPDATE SET price = source.price;
! [] INSERT INTO {t} SELECT * FROM nonexistent_source_table;
! [nonexistent_column] SELECT nonexistent_column FROM {t};
? SELECT id, name, price, ts FROM {t};

== rows of several schemas [kind: cow, mor]
% hoodie.schema.on.read.enable = true
% hoodie.parquet.small.file.limit = 0
CREATE TABLE {t} (id INT, i2l INT, f2d FLOAT, i2s INT, d2s DATE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', orderingFields = 'ts');
INSERT INTO {t} VALUES (1, 1, cast(1.5 AS FLOAT), 7, DATE '2020-01-01', 1000);
INSERT INTO {t} VALUES (2, 2, cast(2.5 AS FLOAT), 8, DATE '2020-02-02', 1000);
ALTER TABLE {t} ALTER COLUMN i2l TYPE LONG;
ALTER TABLE {t} ALTER COLUMN f2d TYPE DOUBLE;
ALTER TABLE {t} ALTER COLUMN i2s TYPE STRING;
ALTER TABLE {t} ALTER COLUMN d2s TYPE STRING;
INSERT INTO {t} VALUES (3, 3, 3.5, '9', '2021-03-03', 2000);
UPDATE {t} SET i2s = '99' WHERE id = 2;
? SELECT id, i2l, f2d, i2s, d2s FROM {t};

== types of partition values in filters
CREATE TABLE {t} (id INT, p INT, q STRING) USING hudi PARTITIONED BY (p, q) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 1, '01'), (2, 10, '1'), (3, 2, '2');
? SELECT id FROM {t} WHERE p > 1;
? SELECT id, p, q FROM {t} WHERE q = '01';
? SELECT id FROM {t} WHERE q = '1' OR p = 2;
? SELECT id FROM {t} WHERE p IN (1, 2) AND q LIKE '0%';

== a table without keys, in every way [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE) USING hudi TBLPROPERTIES (type = '{kind}');
INSERT INTO {t} VALUES (1, 'a1', 10), (1, 'a1', 10), (2, 'a2', 20);
UPDATE {t} SET price = 11 WHERE id = 1;
DELETE FROM {t} WHERE id = 2;
INSERT INTO {t} SELECT id, name, price FROM {t} LIMIT 1;
? SELECT id, name, price FROM {t};
INSERT OVERWRITE {t} VALUES (5, 'e', 1);
? SELECT id, name, price FROM {t};

== from one to the next [kind: cow, mor] [metadata: true, false]
% hoodie.metadata.enable = {metadata}
CREATE TABLE {t} (id STRING, ts LONG, rider STRING, fare DOUBLE, city STRING) USING hudi PARTITIONED BY (city) TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES ('a', 1, 'r1', 1.5, 'x'), ('b', 1, 'r2', 2.5, 'y'), ('c', 1, 'r3', 3.5, 'y');
UPDATE {t} SET fare = fare * 10 WHERE rider = 'r2';
MERGE INTO {t} t USING (SELECT * FROM VALUES ('c', 2L, 'r9', 9.5D, 'y'), ('d', 1L, 'r4', 4.5D, 'z') AS v(id, ts, rider, fare, city)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
? SELECT id, ts, rider, fare, city FROM {t};
DELETE FROM {t} WHERE id = 'a';
INSERT OVERWRITE {t} PARTITION (city = 'y') SELECT 'e', 1, 'r5', 5.5;
? SELECT id, ts, rider, fare, city FROM {t};
? SELECT city, count(*), sum(fare) FROM {t} GROUP BY city;
