"""The lowered program of an algorithm that exists only as a function, as a recipe holds it.

Functions are not written to files, so that the tables of their programs are. Machine code follows their
numbers without looking: each is compared with what it numbers before a machine is built of them, and what
they have to do with each other once it is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from astranb.collectives import Lowered
from astranb.core.encoded import require
from astranb.gpu import tables as t

__all__ = ["check_built", "check_given"]

_MOST_LINES: Final = (1 << 31) - 1
"""The longest range of a Python of 32 bits."""
_COUNT: Final = (0, 1 << 60)
_TIME: Final = (-1, 3 << 60)
_FLAG: Final = (0, 1)

_DTYPES: Final = {
    "blocks": t.BLOCK, "ops": t.OP, "operands": t.OPERAND, "slices": t.SLICE, "semaphores": t.SEMAPHORE,
    "phases": t.PHASE, "tiles": t.TILE_WORK,
}  # fmt: skip

_Range = tuple[int, int | str]
_ROW: Final = 0
_MAYBE: Final = -1
_FIELDS: Final[Mapping[str, Mapping[str, _Range]]] = {
    "blocks": {
        "gpu": (_ROW, "gpus"), "first_op": (_MAYBE, "ops+1"), "last_op": (_MAYBE, "ops+1"),
        "engine": (0, t.NIC), "held": (t.SHARE, t.ROOM), "role": (_MAYBE, "blocks+1"), "kernel": (0, 1 << 20),
    },
    "ops": {
        "kind": (0, len(t.OP_KINDS) - 1), "block": (_ROW, "blocks"),
        "first_source": (_MAYBE, "operands+1"), "first_target": (_MAYBE, "operands+1"),
        "sources": _COUNT, "targets": _COUNT, "payload": _COUNT, "last_bytes": _COUNT, "before": _COUNT,
        "lines": (0, 1 << 31), "semaphore": (_MAYBE, "semaphores"), "phase": (_ROW, "phases"),
        "fence": (0, t.COUNTED), "in_switch": (0, 3), "spins": (0, 2), "ahead": _FLAG,
    },
    "tiles": {
        "steps": (1, 1 << 30), "step_lines": (1, 1 << 30), "issue_lines": (1, 1 << 30),
        "first_lines": _COUNT, "step_ps": _TIME, "stages": (1, 1 << 20),
    },
    "operands": {
        "gpu": (_ROW, "gpus"), "slice": (_MAYBE, "slices"), "stride": _COUNT, "line": _COUNT,
        "flag": (t.LINE_BY_LINE, "flags+1"), "seen": (-(1 << 60), "ops"),
    },
    "slices": {
        "gpu": (_ROW, "gpus"), "line": _COUNT, "lines": _COUNT, "bytes": _COUNT, "writer": (t.TORN, "ops"),
        "flag": (_MAYBE, "flags+1"),
    },
    "semaphores": {"gpu": (_ROW, "gpus"), "line": (t.IN_SHARED, 1 << 62)},
}  # fmt: skip
"""The least and the greatest value of fields; a table's name: the number of one of its rows."""
_STARTS: Final[Mapping[str, Mapping[int, tuple[str, ...]]]] = {
    "blocks": {0: (
        "first_warp", "sm", "op", "state", "unacked", "since_ps", "started_ps", "ended_ps", "moving_ps",
        "signalling_ps", "waiting_ps", "draining_ps", "polls", "spinning", "fenced", "launch_ps", "after",
        "urgent", "post", "posting", "posted", "roles", "next_pending",
    )},
    "ops": {0: ("acked",), -1: ("started_ps", "issued_ps", "ended_ps")},
    "tiles": {0: ("fetched", "computed", "computing")},
    "operands": {0: ("out_route", "out_routes", "back_route", "back_routes")},
    "slices": {-1: ("writing",), 0: ("arrived",)},
    "semaphores": {0: ("value",)},
    "phases": {-1: ("started_ps", "ended_ps")},
}  # fmt: skip
"""Fields that a run changes, by the value that a program leaves them."""


def check_given(program: Lowered, gpus: int) -> None:
    """Check the tables of a program before a machine is built of them.

    Parameters
    ----------
    program : Lowered
    gpus : int
        Of the machine.

    Raises
    ------
    InputError
        It names the table, field and row.
    """
    tables = {name: np.asarray(getattr(program, name)) for name in _DTYPES}
    for name, dtype in _DTYPES.items():
        require(tables[name].dtype == dtype and tables[name].ndim == 1, f"program.{name}")
    for name, count in (("block_channel", len(tables["blocks"])), ("lines", gpus)):
        column = getattr(program, name)
        require(column.dtype == np.int64 and column.shape == (count,), f"program.{name}")
    require((program.lines >= 0) & (program.lines < _MOST_LINES), "program.lines")
    for name in ("ranks", "channels", "line_bytes", "flags", "sms", "lines_per_sm"):
        require(0 <= getattr(program, name) < _MOST_LINES, f"program.{name}")
    require(program.ranks == gpus and len(program.phase_names) == len(tables["phases"]), "program.ranks")
    lengths = {name: len(table) for name, table in tables.items()} | {"gpus": gpus, "flags": program.flags}
    for name, fields in _FIELDS.items():
        for field, (low, high) in fields.items():
            table, more, _ = high.partition("+") if isinstance(high, str) else ("", "", "")
            most = lengths[table] - 1 + len(more) if table else high
            values = tables[name][field]
            require((values >= low) & (values <= most), f"program.{name}.{field}")
    for name, values_of in _STARTS.items():
        for value, listed in values_of.items():
            for field in listed:
                require(tables[name][field] == value, f"program.{name}.{field}")
    ops = program.ops
    require((ops["left"] == ops["lines"]) | (ops["kind"] == t.SPEND), "program.ops.left")  # none has begun
    for name in ("slices", "semaphores"):
        rows = tables[name]
        many = rows["lines"] if name == "slices" else 1
        require(rows["line"] + many <= program.lines[rows["gpu"]], f"program.{name}.line")
    require(int(tables["slices"]["lines"].sum()) < _MOST_LINES, "program.slices.lines")
    require(program.flags <= int(tables["slices"]["lines"].sum()), "program.flags")
    _check_source(program)
    if program.layout is not None:
        require(program.layout.ranks == gpus, "program.layout.ranks")


def _check_source(program: Lowered) -> None:
    """Check the text of the program, which is only shown."""
    source = program.source
    if len(source.part) or len(source.line):
        for column in (source.part, source.line):
            require(column.dtype.kind == "i" and column.shape == (len(program.ops),), "program.source")
        require(source.part < len(source.parts), "program.source.part")


def _ranges(first: Any, count: Any) -> np.ndarray:
    """Return the members of many ranges, one range after the other."""
    count = np.asarray(count, np.int64)
    begins = np.repeat(np.asarray(first, np.int64) - np.cumsum(count) + count, count)
    return begins + np.arange(len(begins))


def _requests_of(ops: Any, tiles: Any, op: Any, operand: Any) -> np.ndarray:
    """Requests that an operation makes of an operand at most: its lines, a tile's share of them, or one."""
    moves, is_tile = ops["kind"][op] == t.MOVE, ops["kind"][op] == t.TILE
    lines = np.where(moves, ops["lines"][op], 1).astype(np.int64)
    if is_tile.any():
        row = tiles[np.where(is_tile, ops["value"][op], 0)]
        first = operand == ops["first_source"][op]
        each_step = np.where(first, row["first_lines"], row["step_lines"] - row["first_lines"])
        lines = np.where(is_tile, row["steps"].astype(np.int64) * each_step, lines)
    return np.asarray(lines)


def _reach(ops: Any, tiles: Any, operands: Any, gpus: Any, op: Any, operand: Any) -> np.ndarray:
    """Lines of memory from the first line of an operand to the end of what an operation touches."""
    line = gpus["line_bytes"][operands["gpu"][operand]]
    stride, lines = operands["stride"][operand], _requests_of(ops, tiles, op, operand)
    last = np.maximum(0, lines - 1) * stride // line + np.maximum(1, -(-ops["last_bytes"][op] // line))
    others = np.maximum(0, lines - 2) * stride // line + np.maximum(1, -(-ops["payload"][op] // line))
    return np.asarray(np.maximum(np.maximum(1, last), np.where(lines > 1, others, 0)))


def check_built(tables: Mapping[str, Any]) -> None:
    """Check the machine that was built of a program: blocks, operations, operands and memory fit together.

    Parameters
    ----------
    tables : mapping of str to ndarray
        Of the machine at its start.

    Raises
    ------
    InputError
        It names the table, field and row.
    """
    blocks, ops, operands, gpus = (tables[name] for name in ("blocks", "ops", "operands", "gpus"))
    require(blocks["first_op"] <= blocks["last_op"], "blocks.last_op")
    require(blocks["first_warp"] + blocks["warps"] <= len(tables["warps"]), "blocks.warps")
    mine = np.repeat(np.arange(len(blocks)), blocks["last_op"] - blocks["first_op"])
    rows = _ranges(blocks["first_op"], blocks["last_op"] - blocks["first_op"])
    require(len(rows) == len(ops), "blocks.first_op")
    require(np.sort(rows) == np.arange(len(ops)), "blocks.first_op")
    require(ops["block"][rows] == mine, "ops.block")
    kind = ops["kind"]
    require((ops["semaphore"] >= 0) | ~np.isin(kind, (t.NOTIFY, t.WAIT)), "ops.semaphore")
    released = ops["value"][kind == t.RELEASE]
    require((released >= 0) & (released < len(blocks)), "ops.value")
    moves = kind == t.MOVE
    require((ops["lines"] == 0) | (ops["payload"] > 0) & (ops["last_bytes"] > 0) | ~moves, "ops.payload")
    require((ops["targets"] > 0) | ~moves, "ops.targets")
    _check_tiles(tables)
    counted = np.flatnonzero(ops["fence"] & t.COUNTED)
    require((kind[counted] == t.FLUSH) & (ops["fence"][counted] == t.COUNTED), "ops.fence")
    last, begin = counted - ops["value"][counted], blocks["first_op"][ops["block"][counted]]
    require((last < counted) & (last + 1 - ops["before"][counted] >= begin), "ops.value")
    behind = np.flatnonzero((kind == t.NOTIFY) & (ops["before"] > 0))
    begun = blocks["first_op"][ops["block"][behind]] <= behind - ops["before"][behind]
    require(begun & (ops["fence"][behind] == 0), "ops.before")
    first = np.arange(len(blocks)) - blocks["role"]
    own = (first >= 0) & (blocks["role"][first] == 0) & (blocks["gpu"][first] == blocks["gpu"])
    follows = (blocks["role"] == 0) | (np.append(-1, blocks["role"][:-1]) == blocks["role"] - 1)
    require(own & follows, "blocks.role")
    times = kind == t.SPEND
    require((ops["left"][times] >= 0) & (ops["left"][times] < 1 << 61), "ops.left")
    direct = gpus["direct"] == 1
    limit = np.where(direct, gpus["sets"], 1 << 30)
    # A signal and a wait have one operand, which is not counted.
    for first, count, one in (("first_source", "sources", t.WAIT), ("first_target", "targets", t.NOTIFY)):
        many = np.where(kind == one, 1, ops[count].astype(np.int64))
        require(ops[first] + many <= len(operands), f"ops.{count}")
        which = _ranges(ops[first], many)
        op = np.repeat(np.arange(len(ops)), many)
        lines = _requests_of(ops, tables["tiles"], op, which)
        reach = operands["line"][which] + _reach(ops, tables["tiles"], operands, gpus, op, which)
        fine = (operands["line"][which] < 1 << 31) & (reach <= limit[operands["gpu"][which]])
        require(fine | (lines == 0), "operands.line")
        flags = operands["flag"][which]
        require((flags < 0) | (flags + lines <= len(tables["flags"])), "operands.flag")
        some = (moves[op] | (kind[op] == t.TILE)) & (lines > 0)
        require(operands["slice"][which][some] >= 0, "operands.slice")
        begins = tables["slices"]["line"][operands["slice"][which][some]]
        require(operands["line"][which][some] >= begins, "operands.line")


def _check_tiles(tables: Mapping[str, Any]) -> None:
    """Check that each tile is of one operation, which makes its requests."""
    ops, tiles = tables["ops"], tables["tiles"]
    of = np.flatnonzero(ops["kind"] == t.TILE)
    require(np.sort(ops["value"][of]) == np.arange(len(tiles)), "ops.value")
    row = tiles[ops["value"][of]]
    require(ops["lines"][of] == row["steps"].astype(np.int64) * row["step_lines"], "ops.lines")
    require(row["first_lines"] <= row["step_lines"], "tiles.first_lines")
    require(ops["sources"][of] == 1 + (row["first_lines"] < row["step_lines"]), "ops.sources")
    require((ops["targets"][of] == 0) & (ops["fence"][of] & t.SYSTEM_WIDE == 0), "ops.targets")
    warps = tables["blocks"]["warps"][ops["block"][of]]
    require((row["stages"] > 0) & (row["stages"] <= warps), "tiles.stages")
    require((ops["payload"][of] > 0) & (ops["last_bytes"][of] == ops["payload"][of]), "ops.payload")
