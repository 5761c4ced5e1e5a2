# TestROPathFilterOnRead TestROPathFilterOptimization TestSparkOptimizedQuery TestQueryTable TestMorTable
== files listed in another way [listed: true, false]
% hoodie.datasource.read.file.index.list.file.statuses.using.ro.path.filter = {listed}
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'cow', orderingFields = 'ts') PARTITIONED BY (dt);
? SELECT * FROM {t};
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, '2024-01-01'), (2, 'a2', 20, 2000, '2024-01-02'), (3, 'a3', 30, 3000, '2024-01-02');
@ first = SELECT max(_hoodie_commit_time) FROM {t};
UPDATE {t} SET price = 15 WHERE id = 1;
DELETE FROM {t} WHERE id = 3;
? SELECT id, name, price, ts, dt FROM {t} WHERE dt = '2024-01-01' AND price > 12;
? SELECT id, name, price, ts, dt FROM {t};
? SELECT id, name, price, ts, dt FROM {t} TIMESTAMP AS OF '{first}';

== one filter several times [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, attributes MAP<STRING, STRING>, price DOUBLE, ts LONG, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', map('color', 'red'), 10, 1000, '2021-01-05'), (1, 'a11', map('color', 'red'), 20, 1000, '2021-01-05'), (3, 'a3', map('color', 'green'), 30, 3000, '2021-01-06');
? SELECT dt, count(1) AS cnt FROM {t} WHERE dt <= '2021-01-06' GROUP BY dt UNION ALL SELECT dt, count(1) FROM {t} WHERE dt <= '2021-01-05' GROUP BY dt;

== a table joined with itself and others [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000), (2, 'a2', 20, 1000);
UPDATE {t} SET price = 12 WHERE id = 1;
? SELECT a.id, b.name, a.price + b.price FROM {t} a JOIN {t} b ON a.id = b.id;
? WITH x AS (SELECT * FROM {t} WHERE price > 15) SELECT x.id, {t}.name FROM x RIGHT JOIN {t} ON x.id = {t}.id;
CREATE TEMPORARY VIEW {t3} AS SELECT id, name FROM {t} WHERE id = 1;
? SELECT * FROM {t3};
UPDATE {t} SET name = 'b' WHERE id = 1;
? SELECT * FROM {t3};
DROP VIEW {t3};
? SELECT id, (SELECT max(price) FROM {t}) FROM {t} WHERE id IN (SELECT min(id) FROM {t});
