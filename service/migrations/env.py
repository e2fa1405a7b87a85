"""How Alembic runs here: on the connection it is handed, in the transaction that is open on it."""

from alembic import context

from service.migrations.metadata import METADATA

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=METADATA,
    # SQLite changes a column by building its table again.
    render_as_batch=connection.dialect.name == "sqlite",
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
