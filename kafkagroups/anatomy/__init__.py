"""The bytes of a record or batch, each with its field and meaning."""
