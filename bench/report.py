"""The report of a run, for people and for programs: the table, the targets, the JSON file."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.measure import (
    CONNECTIONS,
    DISTURBED,
    FEW_NODES,
    MANY_NODES,
    MAX_REPEATS,
    TARGET_CONNECTIONS,
    Plan,
    Results,
)

ROWS = ("bare", "skipped", "injected", "watching", "bound", "claimed")
MAX_RATIO = {"skipped": 2.5, "injected": 7.0, "bound": 11.0}
MAX_P99_MS = {"skipped": 2.0, "injected": 2.0}
"""The limits of the 99th percentile. Bindings have none, because their latency includes the stand-in API server's."""
MAX_START_MS = 350.0
MAX_RESIDENT_MIB = 65.0
MAX_GROWTH_MIB = 3.0
MAX_WATCHING_P99 = 2.0
"""The limit as a multiple of the 99th percentile of `injected`."""
MAX_WATCHING_MS = 25.0
MAX_POD_START_MS = 650.0
MAX_POD_MB = 85.0
MAX_WATCHING_MIB = 300.0
MB_PER_MIB = 2**20 / 1e6


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured value with its target, which is the largest value allowed."""

    name: str
    value: float
    target: float
    unit: str

    @property
    def met(self) -> bool:
        """Whether the value is within its target."""
        return self.value <= self.target


def figures(results: Results) -> Iterator[Figure]:
    """Yields every figure that has a target."""
    for row, limit in MAX_RATIO.items():
        cell = results.bursts.cell(row, TARGET_CONNECTIONS)
        at = f"{row}, {TARGET_CONNECTIONS} connections"
        yield Figure(name=f"{at}: CPU / bare", value=cell.ratio, target=limit, unit="x")
        if row in MAX_P99_MS:
            yield Figure(name=f"{at}: p99", value=cell.p99_us / 1e3, target=MAX_P99_MS[row], unit="ms")
    watching = results.bursts.cell("watching", TARGET_CONNECTIONS)
    at = f"watching {MANY_NODES:,} nodes with resyncs, {TARGET_CONNECTIONS} connections"
    yield Figure(name=f"{at}: p99 / injected", value=watching.p99_ratio, target=MAX_WATCHING_P99, unit="x")
    yield Figure(name=f"{at}: longest", value=watching.max_us / 1e3, target=MAX_WATCHING_MS, unit="ms")
    name = f"resident memory, cluster of {MANY_NODES:,} nodes"
    yield Figure(name=name, value=results.watching_mib, target=MAX_WATCHING_MIB, unit="MiB")
    where = f"pod of a cluster of {FEW_NODES} nodes with its certificates"
    name = f"process start to first answered review, {where}"
    yield Figure(name=name, value=median(results.pod_start_ms), target=MAX_POD_START_MS, unit="ms")
    for moment, resident in results.pod_mib.items():
        name = f"resident memory {moment}, {where}"
        yield Figure(name=name, value=resident * MB_PER_MIB, target=MAX_POD_MB, unit="MB")
    start = median(results.start_ms)
    yield Figure(name="process start to first answered review", value=start, target=MAX_START_MS, unit="ms")
    for moment, resident in results.resident_mib.items():
        yield Figure(name=f"resident memory {moment}", value=resident, target=MAX_RESIDENT_MIB, unit="MiB")
    if results.growth:
        grown = results.growth.after_mib - results.growth.before_mib
        name = f"growth of memory over {results.growth.reviews:,} reviews"
        yield Figure(name=name, value=grown, target=MAX_GROWTH_MIB, unit="MiB")


def show(results: Results, plan: Plan, console: Console) -> None:
    """Prints the table of the run and the targets below it."""
    console.print(run_table(results, plan))
    bursts = results.bursts
    console.print(f"{environment()['summary']}.")
    console.print(
        f"Other processes had more than {DISTURBED:.0%} of the cores in {bursts.repeated} bursts, which were repeated, "
        f"and in {bursts.disturbed} that were kept after {MAX_REPEATS} repeats.\n"
    )
    console.print(target_table(results))


def run_table(results: Results, plan: Plan) -> Table:
    """Returns a table with one line for each server and number of connections."""
    table = Table(title=f"One review over keep-alive TLS; medians, rounds: {plan.rounds}, bursts of {plan.seconds:g} s")
    table.add_column("connections", justify="right")
    table.add_column("server", no_wrap=True)
    for heading in ("CPU µs", "CPU / bare", "reviews/s", "p50 µs", "p99 µs"):
        table.add_column(heading, justify="right")
    for connections in CONNECTIONS:
        for row in ROWS:
            cell = results.bursts.cell(row, connections)
            # At 64 connections a closed loop measures 64 / throughput instead of latency.
            latency = (f"{cell.p50_us:,.0f}", f"{cell.p99_us:,.0f}") if connections <= TARGET_CONNECTIONS else ("", "")
            costs = f"{cell.server_us:.1f}", f"{cell.ratio:.2f}", f"{cell.per_second:,.0f}"
            table.add_row(str(connections), row, *costs, *latency, end_section=row == ROWS[-1])
    return table


def target_table(results: Results) -> Table:
    """Returns a table with one line for each figure that has a target."""
    table = Table(title="Targets")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("target", justify="right")
    table.add_column("")
    for figure in figures(results):
        verdict = "[green]met[/]" if figure.met else "[red]missed[/]"
        measured, limit = f"{figure.value:.2f} {figure.unit}", f"<= {figure.target:g} {figure.unit}"
        table.add_row(figure.name, measured, limit, verdict)
    return table


def environment() -> dict[str, Any]:
    """Returns the environment on which the figures depend besides this code."""
    versions = {name: version(name) for name in ("uvicorn", "uvloop", "httptools", "msgspec", "fastapi")}
    cores = len(os.sched_getaffinity(0))
    parts = [f"{cores} cores", f"Linux {platform.release()}", f"Python {platform.python_version()}"]
    parts += [f"{name} {number}" for name, number in versions.items()]
    return {"summary": ", ".join(parts), "cores": cores, "python": platform.python_version(), "versions": versions}


def as_json(results: Results, plan: Plan) -> dict[str, Any]:
    """Returns the whole run, single bursts included, as values for JSON."""
    kept = results.bursts.kept
    return {
        "environment": environment(),
        "plan": dataclasses.asdict(plan),
        "cells": [
            {"row": row, "connections": connections, **dataclasses.asdict(results.bursts.cell(row, connections))}
            for row, connections in kept
        ],
        "targets": [{**dataclasses.asdict(figure), "met": figure.met} for figure in figures(results)],
        "repeated": results.bursts.repeated,
        "disturbed": results.bursts.disturbed,
        "start_ms": list(results.start_ms),
        "resident_mib": dict(results.resident_mib),
        "pod_start_ms": list(results.pod_start_ms),
        "pod_mib": dict(results.pod_mib),
        "watching_mib": results.watching_mib,
        "growth": dataclasses.asdict(results.growth) if results.growth else None,
        "bursts": [
            {"row": row, "connections": connections, "round": number, **dataclasses.asdict(burst)}
            for (row, connections), bursts in kept.items()
            for number, burst in enumerate(bursts, start=1)
        ],
    }
