"""Grafana dashboards as JSON, for the prefix of the endpoint that is scraped.

Each has a variable for the Prometheus data source and one for runs, links to the others, and a fixed address.
Needs the extra `deploy` (grafana-foundation-sdk).
"""

from __future__ import annotations

import json

from agentmem.app.deploy.boards import Board
from agentmem.app.deploy.boards_memory import BOARDS
from agentmem.app.deploy.names import promql
from agentmem.app.deploy.panels import build, datasource
from agentmem.failures import ConfigError

TAG = "agentmem"


def dashboards(prefix: str = "") -> dict[str, str]:
    """File name -> JSON, of all dashboards. Raises ConfigError for an unknown metric."""
    return {f"{board.uid.removeprefix('agentmem-')}.json": as_json(board, prefix) for board in BOARDS}


def as_json(board: Board, prefix: str = "") -> str:
    """One dashboard; the same input gives the same text."""
    try:
        from grafana_foundation_sdk.builders import dashboard as boards
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.models import dashboard
    except ImportError as error:
        raise ConfigError(
            "dashboards need the package grafana-foundation-sdk: pip install 'agentmem[deploy]'"
        ) from error
    made = boards.Dashboard(board.title).uid(board.uid).description(board.about).tags([TAG]).editable()
    made.time("now-1h", "now").refresh("30s").timezone("browser")
    made.tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
    made.with_variable(boards.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    made.with_variable(
        boards.QueryVariable("run")
        .label("Run")
        .datasource(datasource())
        .query(f"label_values({promql('agentmem_running_tickets', prefix)}, run)")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_DESC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(dashboard.VariableOption(text="All", value="$__all", selected=True))
    )
    link = boards.DashboardLink("AgentMem").type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG])
    made.link(link.as_dropdown(True).include_vars(True).keep_time(True))
    number = 0
    for row in board.rows:
        number += 1
        made.with_row(boards.Row(row.title).id(number))
        for spec in row.panels:
            number += 1
            made.with_panel(build(spec, prefix).id(number))
    return json.dumps(made.build(), cls=JSONEncoder, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
