"""The world: text environments behind Gymnasium's API. Imports nothing else of this project."""
