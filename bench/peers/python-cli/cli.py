"""A command line as Python programs of this kind are written, with the imports they usually have.

`use` writes one plan durably, `status` reads it back. What Planwright's own commands are measured
against.
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


def engine(path: Path):
    made = create_engine(f"sqlite:///{path}")

    @event.listens_for(made, "connect")
    def durable(connection, _):
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    Base.metadata.create_all(made)
    return made


Store = Annotated[Path, typer.Option(envvar="PLANS")]


@app.command()
def use(goal: str, store: Store):
    plan = Plan(id=uuid4().hex, goal=goal)
    with Session(engine(store)) as session:
        session.add(PlanRow(id=plan.id, body=plan.model_dump_json()))
        session.commit()
    console.print(plan.id)


@app.command()
def status(plan: str, store: Store):
    with Session(engine(store)) as session:
        row = session.get(PlanRow, plan)
        if row is None:
            raise typer.Exit(1)
        console.print(Plan.model_validate_json(row.body))


if __name__ == "__main__":
    app()
