"""Studies in an SQL database through SQLAlchemy's Core: SQLite for one machine, PostgreSQL for many.

`address` understands URLs, `database` runs transactions, `troubles` turns a database's complaints into ours, `tables`
and `statements` are the SQL, `schema` and `upgrade` keep its version, `study` and `storage` fulfil the contract.
"""
