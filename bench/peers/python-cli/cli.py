"""A typical Python command line with its usual imports: the baseline for the cold start of Planwright's commands.

`use` writes one plan durably, `status` reads it back.
"""

from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from pydantic import BaseModel
from rich.console import Console
from sqlalchemy import create_engine, event
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

app = typer.Typer()
console = Console()


class Base(DeclarativeBase):
    pass


class PlanRow(Base):
    __tablename__ = "plans"
    id: Mapped[str] = mapped_column(primary_key=True)
    body: Mapped[str]


class Plan(BaseModel):
    id: str
    goal: str
    state: str = "queued"


def open_engine(path: Path):
    engine = create_engine(f"sqlite:///{path}")

    @event.listens_for(engine, "connect")
    def make_durable(connection, _):
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    Base.metadata.create_all(engine)
    return engine


StorePath = Annotated[Path, typer.Option(envvar="PLANS")]


@app.command()
def use(goal: str, store: StorePath):
    plan = Plan(id=uuid4().hex, goal=goal)
    with Session(open_engine(store)) as session:
        session.add(PlanRow(id=plan.id, body=plan.model_dump_json()))
        session.commit()
    console.print(plan.id)


@app.command()
def status(plan: str, store: StorePath):
    with Session(open_engine(store)) as session:
        row = session.get(PlanRow, plan)
        if row is None:
            raise typer.Exit(1)
        console.print(Plan.model_validate_json(row.body))


if __name__ == "__main__":
    app()
