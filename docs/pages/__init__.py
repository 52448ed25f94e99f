"""Renderers of the generated pages, each from data that a run left or from the ledger."""
