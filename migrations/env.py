"""Runs migrations on the connection and in the transaction that `gateway.db.schema` hands over."""

from alembic import context

from gateway.db.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
