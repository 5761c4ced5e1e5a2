# TestUpdateTable TestDeleteTable TestDeleteFromTable TestTableColumnTypeMismatch TestNonDeterministicFilters TestSqlStatement
== an update [kind: cow, mor] [optimized: true, false]
% hoodie.spark.sql.optimized.writes.enable = {optimized}
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} SELECT 1, 'a1', 10, 1000;
UPDATE {t} SET price = 20 WHERE id = 1;
UPDATE {t} SET price = price * 2 WHERE id = 1;
? SELECT id, name, price, ts FROM {t};

== an update without keys [kind: cow, mor] [by: PARTITIONED BY (name), ]
CREATE TABLE {t} (id INT, price DOUBLE, ts LONG, name STRING) USING hudi TBLPROPERTIES (type = '{kind}', preCombineField = 'ts') {by};
INSERT INTO {t} SELECT 1, 10, 1000, 'a1';
UPDATE {t} SET price = 20 WHERE id = 1;
UPDATE {t} SET price = price * 2 WHERE id = 1;
? SELECT id, name, price, ts FROM {t};

== an update by other columns [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, pt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (pt);
INSERT INTO {t} VALUES (1, 'a1', 10.0, 1000, "2021"), (2, 'a2', 20.0, 1000, "2021"), (3, 'a2', 30.0, 1000, "2022");
UPDATE {t} SET price = price * 1.5, ts = ts + 1 WHERE name = 'a2';
? SELECT id, name, price, ts, pt FROM {t};
UPDATE {t} SET price = price + 5, ts = ts + 1 WHERE pt = '2021';
? SELECT id, name, price, ts, pt FROM {t};

== an update with names in another case [kind: cow, mor]
CREATE TABLE {t} (ID INT, NAME STRING, PRICE DOUBLE, TS LONG) USING hudi OPTIONS (type = '{kind}', primaryKey = 'ID', preCombineField = 'TS');
INSERT INTO {t} SELECT 1, 'a1', 10, 1000;
? SELECT id, name, price, ts FROM {t};
UPDATE {t} SET PRICE = PRICE * 2 WHERE id = 1;
? SELECT id, name, price, ts FROM {t};

== an update of a table with decimals
CREATE TABLE {t} (id INT, price DOUBLE, ts LONG, ff DECIMAL(38, 10)) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} SELECT 1, 10, 1000, 10.0;
UPDATE {t} SET price = 22 WHERE id = 1;
? SELECT id, price, ts, ff FROM {t};

== an update of key and partition [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, pt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (pt);
INSERT INTO {t} VALUES (1, 'a1', 10.0, 1000, '2021');
! [record key, id] UPDATE {t} SET id = 2 WHERE id = 1;
! [partition, pt] UPDATE {t} SET pt = '2022' WHERE id = 1;
? SELECT id, name, price, ts, pt FROM {t};
! [nothing] UPDATE {t} SET nothing = 1 WHERE id = 1;
! [nothing] UPDATE {t} SET price = 1 WHERE nothing = 1;

== an update of several keys [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id,name', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10.0, 1000), (1, 'a2', 20.0, 1000);
! [record key, name] UPDATE {t} SET name = 'a3' WHERE id = 1;
UPDATE {t} SET price = 5 WHERE id = 1 AND name = 'a2';
? SELECT id, name, price, ts FROM {t};

== an update with a subquery
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
CREATE TABLE {t2} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1', 1000), (2, 'a2', 1000), (3, 'a3', 1000);
INSERT INTO {t2} VALUES (1, 'x'), (3, 'y');
UPDATE {t} SET name = 'z' WHERE id IN (SELECT id FROM {t2});
? SELECT id, name, ts FROM {t};
DELETE FROM {t} WHERE id IN (SELECT id FROM {t2} WHERE name = 'x');
? SELECT id, name, ts FROM {t};
DELETE FROM {t} WHERE EXISTS (SELECT 1 FROM {t2} WHERE {t2}.id = {t}.id);
? SELECT id, name, ts FROM {t};

== a delete [kind: cow, mor] [optimized: true, false]
% hoodie.spark.sql.optimized.writes.enable = {optimized}
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} SELECT 1, 'a1', 10, 1000;
DELETE FROM {t} WHERE id = 1;
? SELECT count(1) FROM {t};
INSERT INTO {t} SELECT 2, 'a2', 10, 1000;
DELETE FROM {t} WHERE id = 1;
? SELECT id, name, price, ts FROM {t};
DELETE FROM {t};
? SELECT count(1) FROM {t};

== a delete without keys [kind: cow, mor] [by: PARTITIONED BY (name), ]
CREATE TABLE {t} (id INT, price DOUBLE, ts LONG, name STRING) USING hudi TBLPROPERTIES (type = '{kind}', preCombineField = 'ts') {by};
INSERT INTO {t} VALUES (1, 10, 1000, 'a1'), (2, 20, 1000, 'a2'), (3, 20, 1000, 'a2');
DELETE FROM {t} WHERE id = 1;
? SELECT id, name, price, ts FROM {t};
DELETE FROM {t} WHERE name = 'a2' AND id = 3;
? SELECT id, name, price, ts FROM {t};
DELETE FROM {t};
? SELECT count(1) FROM {t};

== a delete by other columns [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, pt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (pt);
INSERT INTO {t} VALUES (1, 'a1', 10.0, 1000, "2021"), (2, 'a2', 20.0, 1000, "2021"), (3, 'a2', 30.0, 1000, "2022");
DELETE FROM {t} WHERE name = 'a2';
? SELECT id, name, price, ts, pt FROM {t};
DELETE FROM {t} WHERE pt = '2021';
? SELECT id, name, price, ts, pt FROM {t};

== a delete of a table whose operation is upsert [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts', hoodie.datasource.write.operation = 'upsert');
INSERT INTO {t} SELECT 1, 'a1', 1000;
INSERT INTO {t} SELECT 1, 'a2', 1001;
DELETE FROM {t} WHERE id = 1;
INSERT INTO {t} SELECT 2, 'a2', 1000;
? SELECT id, name, ts FROM {t};

== a delete of a partition by its value [encoded: true, false]
CREATE TABLE {t} (id INT, name STRING, ts STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (type = 'mor', primaryKey = 'id', orderingFields = 'ts', hoodie.datasource.write.hive_style_partitioning = 'false', hoodie.datasource.write.partitionpath.urlencode = '{encoded}');
INSERT INTO {t} VALUES (1, 'z3', 'v1', '2021/10/01'), (2, 'l4', 'v1', '2021/10/02');
DELETE FROM {t} WHERE dt = "2021/10/01";
? SELECT dt FROM {t};

== texts where numbers belong [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, '2021');
MERGE INTO {t} t USING (SELECT 1 AS id, 'a2' AS name, 11 AS price, CAST(1001 AS INT) AS ts, '2021' AS dt) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name, price = s.price, ts = s.ts;
? SELECT id, name, price, ts, dt FROM {t};
UPDATE {t} SET price = '12.5' WHERE id = 1;
? SELECT id, price FROM {t};

== filters that are not deterministic
CREATE TABLE {t} (id INT, name STRING, price DOUBLE) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1', 10), (2, 'a2', 20), (3, 'a3', 30);
? SELECT id FROM {t} WHERE rand() >= 0;
? SELECT id FROM {t} WHERE id > 1 AND rand() < 2;
? SELECT count(*) FROM {t} WHERE uuid() IS NOT NULL AND price <= 20;
