# TestCompactionTable TestCompactionProcedure TestQueryMergeOnReadOptimizedTable TestRunTimelineCompactionProcedure
== by statements
% hoodie.compact.inline = false
% hoodie.compact.inline.max.delta.commits = 1
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'mor', orderingFields = 'ts') LOCATION '{path}/t';
INSERT INTO {t} VALUES (1, 'a1', 10, 1000), (2, 'a2', 10, 1000);
UPDATE {t} SET price = 11 WHERE id = 1;
SCHEDULE COMPACTION ON {t};
UPDATE {t} SET price = 12 WHERE id = 2;
@ one = SHOW COMPACTION ON {t} LIMIT 10;
RUN COMPACTION ON {t} AT {one};
? SELECT id, name, price, ts FROM {t};
? SELECT count(*) FROM hudi_query('{t}', 'read_optimized') WHERE price = 11;
UPDATE {t} SET price = 13 WHERE id = 2;
SCHEDULE COMPACTION ON '{path}/t';
RUN COMPACTION ON '{path}/t';
? SELECT id, name, price, ts FROM hudi_query('{t}', 'read_optimized');
SHOW COMPACTION ON '{path}/t';
! [12345, exist|pending] RUN COMPACTION ON '{path}/t' AT 12345;

== by procedures
% hoodie.compact.inline = false
% hoodie.compact.inline.max.delta.commits = 1
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'mor', orderingFields = 'ts') LOCATION '{path}/t';
INSERT INTO {t} VALUES (1, 'a1', 10, 1000), (2, 'a2', 10, 1000);
UPDATE {t} SET price = 11 WHERE id = 1;
@ one = CALL run_compaction(op => 'schedule', table => '{t}');
! [nothing, invalid|supported] CALL run_compaction(op => 'nothing', table => '{t}');
CALL run_compaction(op => 'execute', path => '{path}/t', instants => '{one}');
? SELECT id, name, price, ts FROM hudi_query('{t}', 'read_optimized');
UPDATE {t} SET price = 12 WHERE id = 2;
CALL run_compaction(op => 'scheduleAndExecute', table => '{t}');
? SELECT id, name, price, ts FROM hudi_query('{t}', 'read_optimized');
! [12345, exist|pending] CALL run_compaction(op => 'execute', table => '{t}', instants => '12345');
CALL run_compaction(op => 'run', table => '{t}');

== before and after deletes
% hoodie.compact.inline = false
% hoodie.compact.inline.max.delta.commits = 1
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'mor', orderingFields = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000), (2, 'a2', 10, 1000), (3, 'a3', 10, 1000);
UPDATE {t} SET price = 11 WHERE id = 1;
CALL run_compaction(op => 'scheduleAndExecute', table => '{t}');
DELETE FROM {t} WHERE id = 41;
DELETE FROM {t} WHERE name = 'a2';
CALL run_compaction(op => 'schedule', table => '{t}');
INSERT INTO {t} VALUES (4, 'a4', 10, 1000);
? SELECT id, name, price, ts FROM {t};
? SELECT count(*) FROM hudi_query('{t}', 'read_optimized') WHERE id < 4;
CALL run_compaction(op => 'execute', table => '{t}');
? SELECT id, name, price, ts FROM {t};

== of a copy-on-write table
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1');
! [merge on read|copy_on_write] CALL show_compaction(table => '{t}');
! [] CALL run_compaction(op => 'schedule', table => '{t}');
