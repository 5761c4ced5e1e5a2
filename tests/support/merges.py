"""Random MERGE statements over one table, with a model in Python of what they do.

An expression is a text of SQL, and a function that evaluates it for a row of the table and one of the source, in which
None is NULL.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import hudi_py

Row = dict[str, Any]
Value = Callable[[Row, Row], Any]
COLUMNS: Final = ("id", "ts", "v", "n", "q", "p")
TYPES: Final = {"id": "BIGINT", "ts": "BIGINT", "v": "STRING", "n": "DOUBLE", "q": "BIGINT", "p": "STRING"}
KEYS: Final = range(30)


@dataclass(frozen=True)
class Expression:
    text: str
    value: Value


@dataclass(frozen=True)
class Clause:
    """`values` None: of all columns, with the star form; of a delete: not used."""

    when: str
    action: str
    condition: Expression | None = None
    values: Mapping[str, Expression] | None = None

    def applies(self, target: Row, source: Row) -> bool:
        return self.condition is None or self.condition.value(target, source) is True


@dataclass(frozen=True)
class Merge:
    on: str
    clauses: tuple[Clause, ...]
    source: tuple[Row, ...]

    def run(self, table: hudi_py.Table, source: Any) -> Any:
        """By the builder of the core."""
        return self.by(table.merge(source, self.on))

    def by(self, builder: Any) -> Any:
        """By a builder of a merge on `on`; its result."""
        for clause in self.clauses:
            condition = clause.condition.text if clause.condition else None
            name = f"when_{clause.when.replace(' ', '_')}_{clause.action}"
            if clause.action == "delete":
                builder = getattr(builder, name)(condition)
            elif clause.values is None:
                builder = getattr(builder, f"{name}_all")(condition)
            else:
                values = {column: value.text for column, value in clause.values.items()}
                builder = getattr(builder, name)(values, condition)
        return builder.execute()

    def sql(self) -> str:
        """As a statement on `{table}`."""
        typed = [[f"CAST({literal(row[name])} AS {kind})" for name, kind in TYPES.items()] for row in self.source]
        rows = ", ".join(f"({', '.join(row)})" for row in typed)
        lines = [
            f"MERGE INTO {{table}} t USING (SELECT * FROM VALUES {rows} AS r({', '.join(COLUMNS)})) s ON {self.on}"
        ]
        for clause in self.clauses:
            condition = f" AND ({clause.condition.text})" if clause.condition else ""
            star = clause.values is None
            values = clause.values or {}
            if clause.action == "delete":
                then = "DELETE"
            elif clause.action == "update":
                then = "UPDATE SET " + (
                    "*" if star else ", ".join(f"{column} = {value.text}" for column, value in values.items())
                )
            else:
                names, texts = ", ".join(values), ", ".join(value.text for value in values.values())
                then = "INSERT *" if star else f"INSERT ({names}) VALUES ({texts})"
            lines.append(f"WHEN {clause.when.upper()}{condition} THEN {then}")
        return "\n".join(lines)

    def apply(self, rows: Mapping[int, Row], *, ordered: bool) -> dict[int, Row]:
        """The rows of the table by key after the statement. `ordered`: an update with a lower `ts` loses."""
        result = dict(rows)
        by_key = {row["id"]: row for row in self.source}
        for key, row in rows.items():
            source = by_key.get(key)
            when = "matched" if source is not None else "not matched by source"
            clause = self._first(when, row, source or {})
            if clause is None:
                continue
            if clause.action == "delete":
                del result[key]
                continue
            made = {**row, **_values(clause, row, source or {})}
            if not (ordered and made["ts"] < row["ts"]):
                result[key] = made
        for key, source in by_key.items():
            clause = None if key in rows else self._first("not matched", {}, source)
            if clause is not None:
                result[key] = dict.fromkeys(COLUMNS) | _values(clause, {}, source)
        return result

    def _first(self, when: str, target: Row, source: Row) -> Clause | None:
        return next((each for each in self.clauses if each.when == when and each.applies(target, source)), None)


def _values(clause: Clause, target: Row, source: Row) -> Row:
    if clause.values is None:
        return dict(source)
    return {column: value.value(target, source) for column, value in clause.values.items()}


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)


def row_of(rnd: random.Random, key: int, ts: int) -> Row:
    return {
        "id": key,
        "ts": ts,
        "v": rnd.choice([None, "a", "ab", "B", f"v{key}"]),
        "n": rnd.choice([None, 0.5, key / 4, -2.25]),
        "q": rnd.choice([None, 0, 1, key, key * 1000]),
        "p": "xyz"[key % 3],
    }


@dataclass(frozen=True)
class Generator:
    """
    Attributes:
        target: whether expressions may use the table's columns.
        several: whether there may be several clauses of a kind, and clauses for rows that the source does not match.
        late: whether rows of the source may have a lower `ts` than those of the table.
    """

    rnd: random.Random
    target: bool = True
    several: bool = True
    late: bool = True

    def merge(self, ts: int) -> Merge:
        """A statement whose source has about the ordering value `ts`, which should grow."""
        rnd = self.rnd
        keys = rnd.sample(KEYS, rnd.randint(1, 12))
        source = tuple(row_of(rnd, key, ts - (rnd.randint(0, 3) if self.late else 0)) for key in keys)
        on = rnd.choice(["t.id = s.id", "t.id = s.id AND t.p = s.p", "s.p = t.p AND s.id = t.id"])
        clauses: list[Clause] = []
        for when in ("matched", "not matched", *(("not matched by source",) if self.several else ())):
            clauses += self._clauses(when)
        if not clauses:
            clauses = [Clause("matched", "update"), Clause("not matched", "insert")]
        if self.several:
            rnd.shuffle(clauses)  # clauses of different kinds do not meet
            last = {clause.when: clause for clause in clauses if clause.condition is None}
            clauses = [each for each in clauses if each.condition is not None] + list(last.values())
        return Merge(on, tuple(clauses), source)

    def _clauses(self, when: str) -> list[Clause]:
        rnd = self.rnd
        if when == "not matched":
            actions = ["insert"] * rnd.choice([0, 1, 1, 2 if self.several else 1])
        elif self.several:
            actions = rnd.choices(["update", "update", "delete"], k=rnd.choice([0, 1, 2, 3]))
        else:  # Apache Hudi tries updates first
            actions = rnd.choice([["update"], ["update"], ["update", "delete"], ["update", "delete"], []])
        made = []
        for number, action in enumerate(actions):
            last = number == len(actions) - 1
            condition = None if last and rnd.random() < 0.5 else self.condition(when)
            values = None
            if action != "delete" and (when == "not matched by source" or rnd.random() < 0.7):
                values = self._assignments(when, action)
            made.append(Clause(when, action, condition, values))
        return made

    def _assignments(self, when: str, action: str) -> dict[str, Expression]:
        rnd = self.rnd
        names = [name for name in ("v", "n", "q") if rnd.random() < 0.6] or ["v"]
        values = {name: self.value(name, when) for name in names}
        if when == "not matched by source":
            values["ts"] = column("t", "ts")
        else:
            fixed = ("id", "ts", "p") if action == "insert" else ("ts",)
            values |= {name: column("s", name) for name in fixed}
        return {name: values[name] for name in COLUMNS if name in values}  # in the order of the table

    def _sides(self, when: str) -> list[str]:
        if when == "not matched by source":
            return ["t"]
        return ["s", "t"] if when == "matched" and self.target else ["s"]

    def value(self, name: str, when: str) -> Expression:
        rnd = self.rnd
        side = rnd.choice(self._sides(when))
        own = column(side, name)
        if name == "v":
            options = [
                own,
                constant(rnd.choice([None, "lit", "it"])),
                Expression(f"upper({own.text})", _lifted(str.upper, own)),
                Expression(f"concat({own.text}, '!')", _lifted(lambda text: text + "!", own)),
                self._coalesce(own, constant("none")),
                self._case(when, own, constant("else")),
            ]
        elif name == "n":
            options = [
                own,
                Expression(f"{own.text} * 2 + 0.5D", _lifted(lambda number: number * 2 + 0.5, own)),
                Expression(f"abs({own.text})", _lifted(abs, own)),
                self._coalesce(own, Expression("-1.5D", lambda t, s: -1.5)),
                self._case(when, own, Expression("0.25D", lambda t, s: 0.25)),
            ]
        else:
            options = [
                own,
                Expression(f"{own.text} + 7", _lifted(lambda number: number + 7, own)),
                Expression(f"-{own.text}", _lifted(lambda number: -number, own)),
                self._coalesce(own, Expression("CAST(5 AS BIGINT)", lambda t, s: 5)),
            ]
        return rnd.choice(options)

    def condition(self, when: str, depth: int = 0) -> Expression:
        rnd = self.rnd
        if depth < 2 and rnd.random() < 0.4:
            first, second = self.condition(when, depth + 1), self.condition(when, depth + 1)
            kind = rnd.choice(["AND", "OR", "NOT"])
            if kind == "NOT":
                return Expression(f"NOT ({first.text})", _lifted(lambda truth: not truth, first))
            return Expression(f"(({first.text}) {kind} ({second.text}))", _connected(kind, first, second))
        side = rnd.choice(self._sides(when))
        v, n, q = (column(side, name) for name in ("v", "n", "q"))
        other = column(rnd.choice(self._sides(when)), "n")
        return rnd.choice(
            [
                Expression(f"{n.text} > 0.5D", _lifted(lambda number: number > 0.5, n)),
                Expression(f"{n.text} <= {other.text}", _lifted(lambda left, right: left <= right, n, other)),
                Expression(f"{q.text} IN (0, 1, 5)", _lifted(lambda number: number in (0, 1, 5), q)),
                Expression(f"{q.text} <> 1", _lifted(lambda number: number != 1, q)),
                Expression(f"{v.text} IS NULL", lambda t, s: v.value(t, s) is None),
                Expression(f"{n.text} IS NOT NULL", lambda t, s: n.value(t, s) is not None),
                Expression(f"{v.text} = 'ab'", _lifted(lambda text: text == "ab", v)),
                Expression(f"{v.text} >= 'a'", _lifted(lambda text: text >= "a", v)),
            ]
        )

    def _coalesce(self, first: Expression, second: Expression) -> Expression:
        def value(target: Row, source: Row) -> Any:
            found = first.value(target, source)
            return second.value(target, source) if found is None else found

        return Expression(f"coalesce({first.text}, {second.text})", value)

    def _case(self, when: str, first: Expression, second: Expression) -> Expression:
        condition = self.condition(when, 2)

        def value(target: Row, source: Row) -> Any:
            chosen = first if condition.value(target, source) is True else second
            return chosen.value(target, source)

        return Expression(f"CASE WHEN {condition.text} THEN {first.text} ELSE {second.text} END", value)


def column(side: str, name: str) -> Expression:
    return Expression(f"{side}.{name}", lambda target, source: (target if side == "t" else source)[name])


def constant(value: Any) -> Expression:
    return Expression(literal(value), lambda target, source: value)


def _lifted(function: Callable[..., Any], *parts: Expression) -> Value:
    def value(target: Row, source: Row) -> Any:
        given = [part.value(target, source) for part in parts]
        return None if None in given else function(*given)

    return value


def _connected(kind: str, first: Expression, second: Expression) -> Value:
    decides = kind == "OR"

    def value(target: Row, source: Row) -> Any:
        given = [first.value(target, source), second.value(target, source)]
        if decides in given:
            return decides
        return None if None in given else not decides

    return value
