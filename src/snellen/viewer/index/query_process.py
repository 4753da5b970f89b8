"""One SQL query in a process of its own, which can be killed and has a limit of memory: DuckDB heeds neither at every step.

The file is run by its path and imports nothing of Snellen, so that a query starts in a moment.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from decimal import Decimal
from typing import Any

MOST_CHARACTERS = 32_000_000
"""Characters of all cells of an answer."""


def cell(value: Any, characters: int) -> Any:
    """Return a value of JSON: longer texts are cut, other types become texts."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bool | float) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 53 else str(value)
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= characters else text[: characters - 1] + "…"


def answer(task: dict[str, Any]) -> dict[str, Any]:
    """Answer the query of a task: {place, schema, given, text, limit, characters, seconds, config}.

    `place` is the file of the index; where it is empty there is none, and the tables of `schema` have no rows. `given` are
    further tables as (name, form, rows), the last two as JSON.
    """
    import duckdb

    place = task["place"] or ":memory:"
    with duckdb.connect(place, read_only=bool(task["place"]), config=task["config"]) as connection:
        if not task["place"]:
            connection.execute(task["schema"])
        for name, form, content in task["given"]:
            source = "SELECT unnest(from_json(?, ?), max_depth := 2)"
            connection.execute(f"CREATE TEMP TABLE {name} AS {source}", [content, form])
        ((catalog,),) = connection.execute("SELECT current_database()").fetchall()
        for name in ("results", "scores"):  # a run that was deleted stays in the index until the next indexing
            shown = f'SELECT * FROM "{catalog}".{name} WHERE run IN (SELECT run FROM temp.runs)'  # noqa: S608 - names of ours
            connection.execute(f"CREATE TEMP VIEW {name} AS {shown}")
        timer = threading.Timer(task["seconds"], connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            connection.execute(task["text"])
            columns = [str(column[0]) for column in connection.description or []]
            rows: list[list[Any]] = []
            size = 0
            while len(rows) < task["limit"] and size < MOST_CHARACTERS:
                values = connection.fetchone()  # one by one: a thousand long texts never lie in memory together
                if values is None:
                    return {"columns": columns, "rows": rows, "truncated": False}
                rows.append([cell(value, task["characters"]) for value in values])
                size += sum(len(value) for value in rows[-1] if isinstance(value, str))
            return {"columns": columns, "rows": rows, "truncated": connection.fetchone() is not None}
        except duckdb.InterruptException:
            return {"stopped": True}
        except duckdb.OutOfMemoryException:
            return {"memory": True}
        except duckdb.Error as error:
            return {"error": str(error)}
        finally:
            timer.cancel()


def main() -> None:
    """Read a task from standard input; write its answer to standard output."""
    task = json.loads(sys.stdin.buffer.read())
    with contextlib.suppress(ImportError, ValueError, OSError):  # no such limit on this system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (task["memory"], task["memory"]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        result = answer(task)
    except MemoryError:
        result = {"memory": True}
    sys.stdout.buffer.write(json.dumps(result).encode("ascii"))


if __name__ == "__main__":
    main()
