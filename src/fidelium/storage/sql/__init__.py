"""Studies in an SQL database through SQLAlchemy's Core: SQLite for one machine, PostgreSQL for many.

`url` parses URLs, `database` runs transactions, `errors` translates errors of the database, `tables` holds the tables
and statements, `schema` their version and its upgrade, `storage` fulfils the contract.
"""
